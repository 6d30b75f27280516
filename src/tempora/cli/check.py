"""`tempora check`: does a method keep the promises that the engine builds on?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from tempora.methods.testing import Report


def check(
    method: Annotated[str, typer.Argument(help="A method's name, or module:Class for your own.")],
    model: Annotated[
        list[str] | None,
        typer.Option(help="A network to check it on; repeat for more. Default: the two bundled ones."),
    ] = None,
    pretrained: Annotated[
        bool, typer.Option(help="Fetch the network's weights; random ones serve as well.")
    ] = False,
) -> None:
    """Check that a method resets, freezes, saves and restores exactly, and breaks no other promise."""
    from rich.console import Console

    from tempora.methods.testing import check as examine
    from tempora.models import load
    from tempora.models.loading import BUNDLED

    names = model or list(BUNDLED)
    reports = [examine(method, load(name, pretrained=pretrained)) for name in names]
    console = Console()
    for report in reports:
        console.print(_table(report))
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def _table(report: Report) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{report.method} on {report.model}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("promise")
    table.add_column("result")
    table.add_column("seen", overflow="fold")
    if report.refused is not None:
        table.add_row("fits the network", Text("refused", style="yellow"), Text(report.refused))
    for row in report.checks:
        result = Text("pass", style="green") if row.passed else Text("FAIL", style="bold red")
        table.add_row(row.promise, result, Text(row.reason))
    return table
