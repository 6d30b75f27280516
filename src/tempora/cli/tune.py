"""`tempora tune`: every method's declared settings, under one budget of trials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora import names
from tempora.cli import completion, options
from tempora.cli.terminal import console as new_console
from tempora.cli.terminal import plain_table, say


def tune(
    methods: Annotated[
        str,
        typer.Option(
            help="Names or module:Class, with commas.",
            autocompletion=completion.some_of(names.METHODS),
            rich_help_panel=options.WHAT,
        ),
    ],
    trials: Annotated[int, typer.Option(help="Per method, its default included.")] = 8,
    out: Annotated[Path, typer.Option(help="The recipe file to write.")] = Path("recipes.json"),
    select: Annotated[
        str,
        typer.Option(
            help="labels (an oracle, and marked as one), or without them: mutual_information, confidence, entropy, "
            "atc (on fashion, whose clean images are labelled).",
            autocompletion=completion.one_of(completion.SELECTORS),
        ),
    ] = "mutual_information",
    model: Annotated[str, options.MODEL] = "fashion_resnet",
    dataset: Annotated[str, options.DATASET] = "fashion",
    root: Annotated[Path | None, options.ROOT] = None,
    shifts: Annotated[
        str | None,
        typer.Option(
            help="Default: the corruptions outside the fifteen, which no run evaluates.",
            autocompletion=completion.some_of(completion.SHIFTS),
            rich_help_panel=options.WHAT,
        ),
    ] = None,
    batches: Annotated[int, typer.Option(help="Of each shift.", rich_help_panel=options.WHAT)] = 20,
    batch_size: Annotated[int, options.BATCH_SIZE] = 64,
) -> None:
    """Search each method's few settings, the same number of trials for all, and write a recipe file for run."""
    from tempora.cli.execute import prepare_environment

    prepare_environment()
    from tempora import data, models
    from tempora.data import bundled, open_stream
    from tempora.engine.config import SourceConfig
    from tempora.engine.setup_data import SOURCES, images_of
    from tempora.engine.tuning import ATC, LABELS, SELECTORS, atc_threshold, described, write_recipes
    from tempora.engine.tuning import tune as tuned_by
    from tempora.errors import TemporaError, unknown

    if select not in SELECTORS:
        raise unknown("way to select", select, SELECTORS)
    has_clean = dataset == "fashion"
    if select == ATC and not has_clean:
        raise TemporaError(
            f"--select {ATC}: needs labelled clean images beside the shifts, and only fashion has them here; "
            "use mutual_information"
        )
    network = models.load(model)
    wanted = shifts or ",".join(bundled.TUNING if dataset == "fashion" else names.EXTRA_CORRUPTIONS)
    opened = data.open(dataset, root=root, shifts=wanted)
    streams = [
        open_stream(shift, network.preprocessing, batch_size=batch_size, limit_batches=batches)
        for shift in opened.values()
    ]
    source = images_of(SourceConfig(dataset=SOURCES[dataset]), network) if dataset in SOURCES else None
    threshold = None
    if has_clean:
        (clean,) = data.open(dataset, shifts="clean").values()
        threshold = atc_threshold(
            network, open_stream(clean, network.preprocessing, batch_size=batch_size), batches
        )

    def progress(name: str, number: int, of: int) -> None:
        say(f"{name}: trial {number} of {of}", err=True)

    asked = list(dict.fromkeys(name.strip() for name in methods.split(",")))
    standard = tuned_by("standard", network, streams, 1).default.accuracy
    found = [
        tuned_by(name, network, streams, trials, progress, source=source, threshold=threshold)
        for name in asked
    ]
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
    console = new_console()
    console.print(table)
    console.print()
    about = {
        "model": model,
        "dataset": dataset,
        "shifts": list(opened),
        "batches": batches,
        "batch_size": batch_size,
        "trials": trials,
    }
    write_recipes(out, found, select, about)
    marked = " (by labels: an oracle, no deployment has them)" if select == LABELS else ""
    console.print(
        f"Standard {100 * standard:.1f} %. wrote {out}, chosen by {select}{marked}; use it with: tempora run ... "
        f"--recipes {out}",
        markup=False,
        soft_wrap=True,
    )
