"""`tempora reproduce`: every table and figure of the paper, and a judgement on each of its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tempora_tta.cli import options


def reproduce(
    what: Annotated[
        str,
        typer.Argument(help="list, all, show, verdict, or the label of an element: table:discrete-all-rho."),
    ],
    label: Annotated[str | None, typer.Argument(help="show: the label of a table.")] = None,
    root: Annotated[
        Path | None, typer.Option(help="The folder with the datasets, as `tempora data fetch --to` fills it.")
    ] = None,
    out: Annotated[Path, typer.Option(help="A folder per run goes here, figures and the page.")] = Path(
        "repro"
    ),
    times: Annotated[
        Literal["own", "published"],
        typer.Option(help="This machine's times, or those that the paper prints."),
    ] = "published",
    seeds: Annotated[int, typer.Option(min=1, help="Orders of each stream, from 2025 on.")] = 1,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A few batches of one shift: shows that all works, compares nothing."),
    ] = False,
    numbers: Annotated[
        Literal["ours", "paper", "both"], typer.Option(help="show: our numbers, the paper's, or both.")
    ] = "both",
    format: Annotated[options.TableFormat, typer.Option(help="show: of the table.")] = "terminal",
) -> None:
    """Make the paper's tables and figures again and judge every number; resumes. Exit status 1: numbers differ."""
    from tempora_tta.cli._reproduction import Kit

    kit = Kit(out, root, times, seeds, quick)
    if what == "show":
        kit.show(label or "", numbers, format)
    elif what == "list":
        kit.list()
    elif what == "verdict":
        kit.verdict()
    else:
        kit.make(what)
