"""The engine measured against itself: `python benchmarks/engine.py`.

Three questions, answered as ratios within one run:
- harness: what does the engine cost per batch, compared with the baseline? A method that does nothing measures it.
- sharing: the same grid with shared passes and with one pass per scenario: passes and seconds.
- idle (CUDA): how much of a timed pass does the GPU spend without a kernel running?

On a GPU: `python benchmarks/engine.py --device cuda --model resnet50 --batches 40`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np
import torch
import typer

import tempora_tta as tempora
from common import Device, JsonFile, committed, console, markdown_table, script, write
from tempora_tta import methods, models
from tempora_tta._numbers import percent
from tempora_tta.data import from_batches
from tempora_tta.engine.calls import Calls
from tempora_tta.engine.passes import Pass
from tempora_tta.methods import Method
from tempora_tta.scenarios import Offline, relative_grid
from tempora_tta.store import Results
from tempora_tta.timing import MeasuredClock

GRADIENT_FREE = ("standard", "adabn", "lame", "neo")


class Null(Method):
    """Method that does nothing, so that all the time that passes is the engine's."""

    name = "null"

    def setup(self) -> None:
        self.scores = torch.zeros(1, 10, device=self.model.device)

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores.expand(len(x), -1)


def synthetic(
    model: models.Classifier, batches: int, batch_size: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2025)
    shape = (batch_size, *model.preprocessing.input_size)
    labels = torch.randint(model.num_classes, (batches, batch_size), generator=generator)
    return [(torch.randn(shape, generator=generator), row) for row in labels]


def harness(model: models.Classifier, given: list[Any], device: str) -> dict[str, float]:
    """Measure the engine's own time per batch: inside the clock, where a method would be blamed, and outside."""
    clock = MeasuredClock(torch.device(device))
    stream = from_batches("synthetic", given, device=device)
    resolved = Offline().resolve(num_batches=stream.num_batches)
    runs = {
        "null": Pass(Calls(methods.create(Null, model, recipe=False), "null", stream, clock)),
        "standard": Pass(Calls(methods.create("standard", model), "standard", stream, clock)),
    }
    inside: dict[str, list[float]] = {name: [] for name in runs}
    outside_ms = []
    for _ in range(5):
        for name, run in runs.items():
            run.calls.warm_up(3)
            start = time.perf_counter()
            service_ms = run.drive(resolved).service_ms
            elapsed_ms = 1000 * (time.perf_counter() - start)
            inside[name].append(float(np.median(service_ms)))
            if name == "null":
                outside_ms.append((elapsed_ms - service_ms.sum()) / stream.num_batches)
    null_ms, standard_ms = (float(np.median(inside[name])) for name in ("null", "standard"))
    return {
        "inside_ms": null_ms,
        "outside_ms": float(np.median(outside_ms)),
        "standard_ms": standard_ms,
        "inside_share": null_ms / standard_ms,
    }


def sharing(
    model: models.Classifier, given: list[Any], names: list[str], device: str, standard_ms: float
) -> dict[str, float]:
    """The relative grid, shared and with one pass per scenario, on the measured clock.

    Lambda is a little above the median of Standard: mean + 6 sigma would, on a busy machine, be so long that no
    method skips a batch and every pass is shared.
    """
    seconds, passes = {}, {}
    for share in (True, False):
        start = time.perf_counter()
        results: Results = tempora.evaluate(
            model,
            given,
            names,
            relative_grid(),
            clock="measured",
            device=device,
            share=share,
            baseline_ms=1.05 * standard_ms,
        )
        seconds[share] = time.perf_counter() - start
        passes[share] = len(list((results.path / "traces").glob("*.parquet")))
    return {
        "shared_passes": passes[True],
        "unshared_passes": passes[False],
        "shared_s": seconds[True],
        "unshared_s": seconds[False],
        "speedup": seconds[False] / seconds[True],
    }


def gpu_idle(
    model: models.Classifier, given: list[Any], names: list[str], settings: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Per method, the share of its timed service in which no kernel ran. `settings`: by method."""
    from torch.profiler import ProfilerActivity, profile

    idle = {}
    stream = from_batches("synthetic", given[:10], device="cuda")
    for name in names:
        method = methods.create(name, model, **(settings or {}).get(name, {}))
        run = Pass(method, name, stream, MeasuredClock(torch.device("cuda")))
        run.warm_up(5)
        resolved = Offline().resolve(num_batches=stream.num_batches)
        service_ms = float(np.nansum(run.drive(resolved).service_ms))
        with profile(activities=[ProfilerActivity.CUDA]) as watched:
            run.drive(resolved)
        busy_ms = sum(event.self_device_time_total for event in watched.key_averages()) / 1000
        idle[name] = max(0.0, 1 - busy_ms / service_ms)
    return idle


def main(
    device: Device = "cpu",
    model: Annotated[str, typer.Option(help="Bundled, or with random weights.")] = "fashion_resnet",
    batches: int = 40,
    batch_size: int = 64,
    only: Annotated[str, typer.Option(help="Methods, with commas; default all that fit.")] = "",
    json_file: JsonFile = None,
) -> None:
    classifier = models.load(model, pretrained=model.startswith("fashion")).to(device)
    given = synthetic(classifier, batches, batch_size)
    names = [name for name in fitting(classifier) if not only or name in only.split(",")]
    figures: dict[str, Any] = {"model": model, "device": device, "batches": batches}
    figures["harness"] = harness(classifier, given, device)
    standard_ms = figures["harness"]["standard_ms"]
    gradient_free = [name for name in names if name in GRADIENT_FREE]
    figures["sharing"] = {
        "all methods": sharing(classifier, given, names, device, standard_ms),
        "gradient-free": sharing(classifier, given, gradient_free, device, standard_ms),
    }
    if device == "cuda":
        figures["gpu_idle"] = gpu_idle(classifier, given, names)
    console.print("\n\n".join(told(figures)), markup=False, soft_wrap=True)
    write(figures, json_file)


def told(figures: dict[str, Any]) -> list[str]:
    """Return the answers to the three questions, as Markdown."""
    tax = figures["harness"]
    own = (
        f"The engine itself takes {1000 * tax['inside_ms']:.0f} µs of every measured batch, "
        f"{percent(tax['inside_share'], 2)} of standard inference."
    )
    head = ("", "passes", "one per scenario", "seconds", "one per scenario", "times faster")
    rows = [
        (
            name,
            row["shared_passes"],
            row["unshared_passes"],
            *(f"{row[key]:.1f}" for key in ("shared_s", "unshared_s", "speedup")),
        )
        for name, row in figures["sharing"].items()
    ]
    idle = [(name, percent(share, 0)) for name, share in figures.get("gpu_idle", {}).items()]
    return [own, markdown_table(head, rows), *([markdown_table(("", "GPU idle"), idle)] if idle else [])]


def page() -> Iterator[str]:
    yield "The engine: its own time, and shared passes"
    for figures in committed("*-engine-*").values():
        yield f"## {figures['model']}, {figures['device']}, {figures['batches']} batches, 17 scenarios"
        yield from told(figures)


def fitting(model: models.Classifier) -> list[str]:
    """The methods that `all` means on this network."""
    found = []
    for name in methods.names():
        if methods.get(name).only_by_name:
            continue
        try:
            methods.create(name, model)
        except tempora.TemporaError:
            continue
        found.append(name)
    return found


if __name__ == "__main__":
    script(lambda: typer.run(main), page)
