"""`tempora list`: what there is to choose from, each with a line of explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import typer

from tempora_tta import names
from tempora_tta.cli.terminal import UNBROKEN, Entry, console, print_entries
from tempora_tta.config import PROVISION_X
from tempora_tta.errors import counted

What = Literal["methods", "models", "datasets", "streams", "scenarios", "clocks", "suites"]


def list_(
    what: Annotated[What, typer.Argument()],
) -> None:
    """List what there is to choose from: methods, models, datasets, streams, scenarios, clocks or suites."""
    entries, hint = LISTS[what]
    out = console()
    print_entries(out, entries())
    out.print()
    out.print(hint, markup=False)


def _methods() -> Iterator[Entry]:
    import sys

    from tempora_tta import methods

    for name in methods.names():
        kind = methods.get(name)
        about = (sys.modules[kind.__module__].__doc__ or kind.label).splitlines()[0].removesuffix(".")
        modifies = " and ".join(kind.modifies) or "nothing"
        yield name, about, f"{kind.label}, {kind.family}; modifies {modifies}"


def _models() -> Iterator[Entry]:
    from tempora_tta.models.loading import ALIASES

    about = {
        "fashion_resnet": "A small residual network for Fashion-MNIST, with BatchNorm",
        "fashion_vit": "A small vision transformer for Fashion-MNIST, with LayerNorm",
        "fashion_vit_token": "The same, classifying by a class token, which FOA needs",
        "resnet50": "ResNet-50 for ImageNet, with BatchNorm (the paper's)",
        "resnet18": "ResNet-18 for ImageNet, with BatchNorm",
        "vit_b_16": "ViT-B/16 for ImageNet, with LayerNorm (the paper's)",
        "resnet50_gn": "ResNet-50 for ImageNet, with GroupNorm",
        "cifar_resnet18": "ResNet-18 for 32-pixel images (the paper's on CIFAR-10-C)",
    }
    for name in names.MODELS:
        if name in names.BUNDLED:
            facts = "ships with Tempora"
        elif name in ALIASES:
            facts = f"timm: {ALIASES[name]}"
        else:
            facts = "weights from a file: checkpoint=PATH"
        yield name, about[name], facts


def _datasets() -> Iterator[Entry]:
    from tempora_tta.data.registry import data_folder, datasets

    for card in datasets().values():
        place = f"\ngoes to {data_folder() / card.folder}" if card.folder else ""
        pictures = "read as stored" if card.as_stored else "upright, on white where transparent"
        yield card.name, card.what, f"{card.size}; {card.licence}; {pictures}\n{card.source}{place}"


def _streams() -> Iterator[Entry]:
    from tempora_tta.data.order import StreamSettings

    about = {
        "single": (
            "One shift at a time, a fresh method for each (the paper): compare with published tables",
            (),
        ),
        "continual": (
            "One shift after the other: does a method survive when it is not told that the world changed?",
            (),
        ),
        "gradual": (
            "Severity rises and falls within each shift: weather, dirt, dusk; drift instead of jumps",
            (),
        ),
        "recurring": (
            "A cycle of shifts: day and night, indoors and out; what is kept, and what forgotten?",
            ("visits",),
        ),
        "mixed": ("Every sample (or batch) from a shift of its own: a server with many cameras", ("by",)),
    }
    for name in names.STREAMS:
        what, own = about[name]
        more = "".join(f", {knob} ({getattr(StreamSettings, knob)})" for knob in own)
        yield (
            name,
            what,
            f"batches, reset ({StreamSettings.reset}), classes ({StreamSettings.classes}), slots{more}",
        )


def _scenarios() -> Iterator[Entry]:
    yield "offline", "Unlimited time: the stream waits. Utility is accuracy. Always run", "no knobs"
    yield (
        "discrete",
        "A batch arrives on schedule, ready or not; what finds the queue full is lost",
        "interval_ms, or utilisation (λ / interval); queue (1)",
    )
    yield (
        "continuous",
        "The next batch comes with each prediction, and value halves at the threshold",
        "threshold_ms, or threshold_x (T / λ)",
    )
    yield (
        "amortised",
        "Adapt until the overhead budget is spent, then freeze",
        "budget_ms, budget_baselines (B / λ) or budget_x (B / λN); rule: strict or overshoot",
    )
    yield (
        "deployment",
        "Any of these together: a battery-powered camera has arrivals, patience and a budget",
        "arrivals (on_completion, on_prediction, recorded times, or {poisson: {utilisation: 0.5}}; also periodic, "
        "bursty, recorded) or fps (frames per second), cameras (1) and answer (batch or at_once), deadline_ms or "
        "deadline_x, "
        "fallback: latest, standard or random, and all knobs above",
    )
    yield from _grids()


def _grids() -> Iterator[Entry]:
    from tempora_tta.scenarios import GRIDS, grid

    for name, about in GRIDS.items():
        labels = "; ".join(scenario.label.replace(" ", UNBROKEN) for scenario in grid(name))
        yield f"grid {name}", about.about, labels


def _clocks() -> Iterator[Entry]:
    from tempora_tta.published import INFERRED_NOTE, PROFILE_NOTE, profile_source, setup, setups

    yield (
        "steady",
        "This machine: its profile is recorded first, then predictions are made untimed",
        "the default",
    )
    yield (
        "measured",
        "This machine, now: the device is waited for before and after every step",
        "the paper's way",
    )
    for name in setups():
        found = setup(name)
        about = f"The paper's mean latencies of {found.model} on {found.hardware}, λ {found.baseline_ms:g} ms"
        yield f"published:{name}", about, INFERRED_NOTE if profile_source(name) else PROFILE_NOTE
    yield from _library()
    yield "FILE", "A latency profile written by `tempora profile`, of any machine", ""


def _library() -> Iterator[Entry]:
    import json

    for name, place in names.PROFILES.items():
        told = json.loads(names.file_of(place).read_text(encoding="utf-8"))
        machine = told["machine"]
        device = machine.get("gpu") or told.get("device") or machine.get("cpu")
        model, size = (told.get(key) or machine.get(key) for key in ("model", "batch_size"))
        standard_ms = told.get("baseline_ms") or PROVISION_X * told["standard_ms"]
        versions = ", ".join(f"{key} {version}" for key, version in machine.get("versions", {}).items())
        made_at = str(told.get("made_at") or machine.get("made_at"))[:10]
        about = f"{model} on {device}, batches of {size}, λ {standard_ms:.4g} ms"
        yield f"library:{name}", about, f"{versions}; {made_at}"


def _suites() -> Iterator[Entry]:
    from tempora_tta.engine import suites
    from tempora_tta.engine.load_config import load_config

    for name in names.SUITES:
        config = load_config(suites.path_of(name))
        shifts = ", ".join(config.data.shifts)
        about = (
            f"{config.model}, {counted(len(config.methods), 'method')}, "
            f"{counted(config.batches or 0, 'batch')} of {config.batch_size}"
        )
        yield name, f"{about} of each of {shifts}", f"grid {config.grid}, clock {config.clock}"


LISTS: dict[What, tuple[Callable[[], Iterator[Entry]], str]] = {
    "methods": (_methods, "Your own: --methods module:Class (`tempora check module:Class` tests it)."),
    "models": (
        _models,
        "Any other name that timm knows works too. Your own: --model module:function, which returns a network.",
    ),
    "datasets": (
        _datasets,
        "The data folder is $TEMPORA_DATA, else ./data; `tempora data fetch NAME` fills it. Your own: --dataset "
        "module:function.",
    ),
    "streams": (
        _streams,
        "tempora run --stream continual --set stream.reset=shift --set 'stream.classes={dirichlet: 0.1}'. reset: "
        "never, shift or a number of batches; classes: shuffled, sorted or dirichlet. Your own order: --stream "
        "module:function.",
    ),
    "scenarios": (
        _scenarios,
        "In a configuration: scenarios: [{protocol: discrete, interval_ms: 60}], grid: none.",
    ),
    "clocks": (_clocks, "tempora run --clock NAME. A recorded clock makes a run repeat exactly."),
    "suites": (_suites, "tempora run NAME. What a suite fixes never changes, so its results can be cited."),
}
