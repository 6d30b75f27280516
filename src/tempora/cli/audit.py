"""`tempora audit`: run some cells again, unshared and live, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def audit(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    cells: Annotated[int, typer.Option(min=1, help="How many cells, picked at random.")] = 5,
    seed: Annotated[int, typer.Option(help="Which ones: another seed picks others.")] = 0,
    realtime: Annotated[bool, typer.Option("--realtime", help="Really wait for arrivals.")] = False,
) -> None:
    """Check a run's results by making some of them again, one pass per cell. Exit status 1: some disagree."""
    from tempora.cli.run import prepare_environment

    prepare_environment()
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tempora.engine.audit import MEASURED_TOLERANCE
    from tempora.engine.audit import audit as audit_cells
    from tempora.store import open_run

    results = open_run(run)
    audited = audit_cells(results, cells, seed, realtime)
    table = Table("method", "shift", "scenario", "was", "stored", "again", "predictions", "", box=None)
    for cell in audited:
        verdict = Text("agrees", "green") if cell.agrees else Text("differs", "bold red")
        same = "same" if cell.same_predictions else "differ"
        names = (Text(name) for name in (cell.method, cell.shift, cell.label))
        table.add_row(*names, cell.origin, f"{cell.stored:.2%}", f"{cell.again:.2%}", same, verdict)
    console = Console(highlight=False)
    console.print(table)
    measured = results.manifest["clock"] == "measured"
    rule = (
        f"within the timing interval and {MEASURED_TOLERANCE:.0%}" if measured else "exactly (recorded clock)"
    )
    agreeing = sum(cell.agrees for cell in audited)
    console.print(f"{agreeing} of {len(audited)} cells agree {rule}")
    if agreeing < len(audited):
        raise typer.Exit(1)
