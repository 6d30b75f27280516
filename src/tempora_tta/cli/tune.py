"""`tempora tune`: every method's declared settings, under one budget of trials."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempora_tta import names
from tempora_tta._numbers import percent
from tempora_tta.cli import completion, options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import plain_table, say
from tempora_tta.config import Selector, TunedConfig
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from rich.table import Table

    from tempora_tta.engine.job import Job
    from tempora_tta.engine.tuning import Tuned

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
    from tempora_tta.data import bundled
    from tempora_tta.engine.tuning import LABELS, write_methods
    from tempora_tta.engine.tuning import tune as tuned_by

    _check_selector(select, dataset)
    _check_place(out)
    usual = bundled.TUNING if dataset == LABELLED_CLEAN else names.EXTRA_CORRUPTIONS
    job = _job(
        model=model,
        methods=methods,
        batches=batches,
        batch_size=batch_size,
        data={"dataset": dataset, "root": root, "shifts": shifts or list(usual)},
    )
    streams = [job.open_stream(order) for order in job.streams]
    threshold = _threshold(job, batches) if dataset == LABELLED_CLEAN else None

    def progress(name: str, number: int, of: int) -> None:
        say(f"{name}: trial {number} of {of}", err=True)

    standard = tuned_by("standard", job.model, streams, 1).default.accuracy
    found = [
        tuned_by(name, job.model, streams, trials, progress, source=job.source, threshold=threshold)
        for name in _tunable(job)
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


def _job(**values: Any) -> Job:
    """Build what a run of these methods over these shifts would have."""
    from tempora_tta.engine.build import build_job
    from tempora_tta.engine.load_config import validated

    return build_job(validated({**values, "grid": "none"}))


def _tunable(job: Job) -> Iterator[str]:
    """Yield the methods that can be tuned; name those that are left out."""
    from tempora_tta.methods import get

    for note in job.notes:
        if note.startswith("left out"):
            say(note, err=True)
    for spec in job.methods:
        if get(spec.name).time_aware:
            say(
                f"left out {spec.label}: it decides by the clock, so it cannot be tuned without one", err=True
            )
        else:
            yield str(spec.name)


def _check_place(path: Path) -> None:
    """Refuse a file that could not be written, before hours of trials."""
    from tempora_tta.store.atomic import check_replaceable

    check_replaceable(path)
    if not path.parent.is_dir():
        raise TemporaError(f"--out {path}: there is no folder {path.parent}; make it, or give another")
    if not os.access(path.parent, os.W_OK):
        raise TemporaError(f"--out {path}: the folder {path.parent} cannot be written to; give another place")


def _check_selector(select: str, dataset: str) -> None:
    from tempora_tta.engine.tuning import ATC

    if select == ATC and dataset != LABELLED_CLEAN:
        raise TemporaError(
            f"--select {ATC}: needs labelled clean images besides the shifts, and only fashion has them here; "
            "use mutual_information"
        )


def _threshold(job: Job, batches: int) -> float:
    """ATC's, from labelled clean images."""
    from tempora_tta import data
    from tempora_tta.engine.tuning import atc_threshold

    (clean,) = data.open(LABELLED_CLEAN, shifts="clean").values()
    stream = data.open_stream(clean, job.model.preprocessing, batch_size=job.streams[0].batch_size)
    return atc_threshold(job.model, stream, batches)


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
