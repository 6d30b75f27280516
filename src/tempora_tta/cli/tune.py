"""`tempora tune`: every method's declared settings, under one budget of trials."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tempora_tta import names
from tempora_tta._numbers import percent
from tempora_tta.cli import completion, options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import plain_table, say
from tempora_tta.config import Selector, TunedConfig

if TYPE_CHECKING:
    from rich.table import Table
    from torch import Tensor

    from tempora_tta.data import Stream
    from tempora_tta.engine.tuning import Tuned
    from tempora_tta.models import Classifier

LABELLED_CLEAN = "fashion"
"""The dataset that has labelled clean images besides its shifts."""


def tune(
    methods: Annotated[
        str,
        typer.Option(
            help="Names or module:Class, with commas; all: those that fit the model and are neither costly nor "
            "decide by the clock.",
            autocompletion=completion.some_of(names.METHODS),
            rich_help_panel=options.WHAT,
        ),
    ],
    trials: Annotated[int, typer.Option(help="Per method, its default included.")] = 8,
    out: Annotated[Path, typer.Option(help="The configuration to write.")] = Path("recipes.json"),
    select: Annotated[
        Selector,
        typer.Option(
            help="labels: an oracle, and marked as one. The others need none; atc is on fashion only, whose clean "
            "images are labelled."
        ),
    ] = "mutual_information",
    model: Annotated[str, options.MODEL] = "fashion_resnet",
    dataset: Annotated[str, options.DATASET] = "fashion",
    root: Annotated[Path | None, options.ROOT] = None,
    shifts: Annotated[
        str | None,
        typer.Option(
            help="Default: the corruptions outside the fifteen, which no run evaluates.",
            autocompletion=completion.some_of(names.SHIFTS),
            rich_help_panel=options.WHAT,
        ),
    ] = None,
    batches: Annotated[int, typer.Option(help="Of each shift.", rich_help_panel=options.WHAT)] = 20,
    batch_size: Annotated[int, options.BATCH_SIZE] = 64,
) -> None:
    """Search each method's few settings, the same number of trials for all, and write a configuration for run."""
    from tempora_tta.cli.execute import prepare_environment

    prepare_environment()
    from tempora_tta import models
    from tempora_tta.engine.tuning import LABELS, write_methods
    from tempora_tta.engine.tuning import tune as tuned_by

    _check_selector(select, dataset)
    _check_place(out)
    network = models.load(model)
    streams = _streams(dataset, root, shifts, network, batch_size, batches)
    source, threshold = _clean_images(dataset, network, batch_size, batches)

    def progress(name: str, number: int, of: int) -> None:
        say(f"{name}: trial {number} of {of}", err=True)

    asked = _named(methods, network, source)
    standard = tuned_by("standard", network, streams, 1).default.accuracy
    found = [
        tuned_by(name, network, streams, trials, progress, source=source, threshold=threshold)
        for name in asked
    ]
    console = new_console()
    console.print(_table(found, select, standard))
    console.print()
    shifts_seen = [stream.name for stream in streams]
    write_methods(out, found, TunedConfig(select, model, dataset, shifts_seen, batch_size, trials))
    marked = " (by labels: an oracle, no deployment has them)" if select == LABELS else ""
    console.print(
        f"Standard {percent(standard)}. wrote {out}, chosen by {select}{marked}; use it with: tempora run {out}",
        markup=False,
        soft_wrap=True,
    )


def _named(methods: str, network: Classifier, source: Tensor | None) -> list[str]:
    """The methods by name, each once; `all` as in a run, less those that cannot be tuned without a clock."""
    from tempora_tta.engine.method_specs import made_if_it_fits, method_specs
    from tempora_tta.engine.observer import Observer
    from tempora_tta.methods import create, get

    class Said(Observer):
        def note(self, text: str) -> None:
            say(text, err=True)

    found: list[str] = []
    for name in (part.strip() for part in methods.split(",")):
        if name != "all":
            found.append(name)
            continue
        for spec in method_specs(["all"], Said()):
            if (
                made_if_it_fits(spec.label, partial(create, spec.name, network, source=source), Said())
                is None
            ):
                continue
            if get(spec.name).time_aware:
                Said().note(
                    f"left out {spec.name}: it decides by the clock, so it cannot be tuned without one"
                )
            else:
                found.append(str(spec.name))
    return list(dict.fromkeys(found))


def _check_place(path: Path) -> None:
    """Refuse a file that could not be written, before hours of trials."""
    from tempora_tta.errors import TemporaError
    from tempora_tta.store.atomic import check_replaceable

    check_replaceable(path)
    if not path.parent.is_dir():
        raise TemporaError(f"--out {path}: there is no folder {path.parent}; make it, or give another")
    if not os.access(path.parent, os.W_OK):
        raise TemporaError(f"--out {path}: the folder {path.parent} cannot be written to; give another place")


def _check_selector(select: str, dataset: str) -> None:
    from tempora_tta.engine.tuning import ATC
    from tempora_tta.errors import TemporaError

    if select == ATC and dataset != LABELLED_CLEAN:
        raise TemporaError(
            f"--select {ATC}: needs labelled clean images besides the shifts, and only fashion has them here; "
            "use mutual_information"
        )


def _streams(
    dataset: str, root: Path | None, shifts: str | None, network: Classifier, batch_size: int, batches: int
) -> list[Stream]:
    """The streams that settings are tried on."""
    from tempora_tta import data
    from tempora_tta.data import bundled, open_stream

    usual = bundled.TUNING if dataset == LABELLED_CLEAN else names.EXTRA_CORRUPTIONS
    opened = data.open(dataset, root=root, shifts=shifts or ",".join(usual))
    return [
        open_stream(shift, network.preprocessing, batch_size=batch_size, limit_batches=batches)
        for shift in opened.values()
    ]


def _clean_images(
    dataset: str, network: Classifier, batch_size: int, batches: int
) -> tuple[Tensor | None, float | None]:
    """Source images for methods that ask for some, and ATC's threshold; None where there are no images for it."""
    from tempora_tta import data
    from tempora_tta.config import SourceConfig
    from tempora_tta.data import open_stream
    from tempora_tta.engine.images import SOURCES, images_of
    from tempora_tta.engine.tuning import atc_threshold

    source = images_of(SourceConfig(dataset=SOURCES[dataset]), network) if dataset in SOURCES else None
    if dataset != LABELLED_CLEAN:
        return source, None
    (clean,) = data.open(dataset, shifts="clean").values()
    stream = open_stream(clean, network.preprocessing, batch_size=batch_size)
    return source, atc_threshold(network, stream, batches)


def _table(found: list[Tuned], select: str, standard: float) -> Table:
    from tempora_tta.engine.tuning import LABELS, described

    numbers = ("default %", "chosen %", "oracle %", "regret")
    table = plain_table("method", "chosen", *numbers, "note", numbers=numbers)
    for one in found:
        choice = one.chosen(select)
        settings = (
            ", ".join(f"{key} {value:g}" for key, value in choice.settings.items()) or "nothing to tune"
        )
        row = (one.default.accuracy, choice.accuracy, one.chosen(LABELS).accuracy, one.regret(select))
        table.add_row(
            one.method, settings, *(f"{100 * value:.1f}" for value in row), described(one, standard)
        )
    return table
