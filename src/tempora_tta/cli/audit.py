"""`tempora audit`: run some cells again, one pass each or in real time, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora_tta._numbers import percent
from tempora_tta.cli import options
from tempora_tta.cli.terminal import console, plain_table
from tempora_tta.errors import counted


def audit(
    run: Annotated[Path, options.RUN],
    cells: Annotated[int, typer.Option(min=1, help="How many cells, picked at random.")] = 5,
    seed: Annotated[int, typer.Option(help="Which ones: another seed picks others.")] = 0,
    realtime: Annotated[
        bool,
        typer.Option(
            "--realtime",
            help="Serve the cells' arrivals in real time, three times each, on the pipeline of tempora.deploy.",
        ),
    ] = False,
) -> None:
    """Check a run's results by making some of them again, one pass per cell. Exit status 1: some disagree."""
    from tempora_tta.cli.execute import prepare_environment

    prepare_environment()
    from rich.text import Text

    from tempora_tta.engine.audit import MEASURED_TOLERANCE
    from tempora_tta.engine.audit import audit as audit_cells
    from tempora_tta.store import open_run

    results = open_run(run)
    if realtime:
        from tempora_tta.cli.live import noting, show_lived
        from tempora_tta.serving.live import live

        if not show_lived(live(results, cells, seed, observer=noting())):
            raise typer.Exit(1)
        return
    audited = audit_cells(results, cells, seed)
    utilities = ("stored", "again")
    table = plain_table("method", "shift", "scenario", "was", *utilities, "verdict", numbers=utilities)
    for _, cell in audited.iterrows():
        verdict = Text("agrees", "green") if cell["agrees"] else Text("differs", "bold red")
        if not cell["same_predictions"]:
            verdict.append("; other predictions", "yellow")
        names = (Text(cell[name]) for name in ("method", "shift", "label", "origin"))
        table.add_row(*names, percent(cell["utility"], 2), percent(cell["again"], 2), verdict)
    out = console()
    out.print(table)
    measured = results.manifest["clock"] == "measured"
    rule = (
        f"within the timing interval and {percent(MEASURED_TOLERANCE, 0)}"
        if measured
        else "exactly (recorded clock)"
    )
    agreeing = int(audited["agrees"].sum())
    out.print(f"\n{agreeing} of {counted(len(audited), 'cell')} agree {rule}")
    if agreeing < len(audited):
        raise typer.Exit(1)
