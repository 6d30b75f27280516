"""`tempora board`: many runs on one static site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora_tta.cli import completion
from tempora_tta.cli.terminal import print_warning, say


def board(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders and packs.", autocompletion=completion.run_folder)
    ],
    out: Annotated[Path, typer.Option(help="The folder to write the site to.")],
    title: Annotated[str, typer.Option(help="What stands above it.")] = "Tempora board",
    reports: Annotated[bool, typer.Option(help="Also write the report of every run, and link to it.")] = True,
) -> None:
    """Put many runs on one site that opens from disk. Exit status 1: some were refused, for the reasons given."""
    from tempora_tta.errors import counted
    from tempora_tta.report.board import gather, write_board
    from tempora_tta.store.suite_claims import departures_of

    gathered = gather(runs, departures_of)
    written = write_board(gathered, out, title, reports)
    for path, reason in gathered.refused:
        print_warning(f"refused {path}: {reason}")
    for path, reason in gathered.repeated:
        say(f"note: {path} is left out: {reason}")
    regressions = f"; {counted(written.regressions, 'regression')}" if written.regressions else ""
    contents = f"{counted(len(gathered.entries), 'run')}, {counted(written.reports, 'report')}{regressions}"
    say(f"{written.page}: {contents}; it opens in any browser, without a network")
    if gathered.refused:
        raise typer.Exit(1)
