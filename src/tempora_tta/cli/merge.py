"""`tempora merge`: join the parts of one job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora_tta.cli.terminal import say


def merge(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders of one job: its shifts, methods or seeds."),
    ],
    out: Annotated[Path, typer.Option(help="The new run folder.")],
) -> None:
    """Join run folders of one job into one, ranked again. Exit status 1: some cells are in none of them."""
    from tempora_tta.analysis.of_run import keep_doubt
    from tempora_tta.errors import counted
    from tempora_tta.store.merge import merge as join

    merged = join(runs, out)
    keep_doubt(merged.results)
    say(f"{out} holds {counted(len(merged.results.utilities), 'cell')} from {len(runs)} runs")
    if merged.missing:
        method, shift, seed = merged.missing[0]
        say(
            f"none of them has {counted(len(merged.missing), 'task')}, the first {method} on {shift} (seed {seed}): "
            f"merge the other parts too, or let `tempora run ... --out {out}` make the rest"
        )
        raise typer.Exit(1)
