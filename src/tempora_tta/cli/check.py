"""`tempora check`: does a method keep the promises that the engine builds on?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempora_tta import names
from tempora_tta.cli import completion
from tempora_tta.cli.terminal import console, plain_table
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from rich.table import Table

    from tempora_tta.methods.testing import Report


def check(
    method: Annotated[
        str,
        typer.Argument(
            help="A method's name, or module:Class for your own.",
            autocompletion=completion.one_of(names.METHODS),
        ),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A network to check it on, or module:function; may be repeated. Default: the bundled ones.",
            autocompletion=completion.one_of(names.MODELS),
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value, a setting of the method's; may be repeated."),
    ] = None,
    pretrained: Annotated[
        bool, typer.Option(help="Fetch the network's weights; random ones serve as well.")
    ] = False,
) -> None:
    """Check that a method resets, freezes, saves and restores exactly, and breaks no other promise."""
    from rich.text import Text

    from tempora_tta.methods.testing import check as examine
    from tempora_tta.models import check_input, load

    chosen = model or list(names.BUNDLED)
    given = dict(setting(text) for text in settings or ())
    networks = [load(name, pretrained=pretrained or name in names.BUNDLED) for name in chosen]
    for network in networks:
        check_input(network, network.preprocessing.image_shape)
    reports = [examine(method, network, **given) for network in networks]
    out = console()
    for report in reports:
        out.print(Text(f"{report.method} on {report.model}", style="bold"))
        out.print()
        out.print(_table(report))
        out.print()
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def setting(text: str) -> tuple[str, Any]:
    import yaml

    key, equals, value = text.partition("=")
    if not (key and equals):
        raise TemporaError(f"--set {text!r}: write key=value, for instance --set lr=0.001")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise TemporaError(f"--set {text!r}: {value!r} is not a YAML value") from None


def _table(report: Report) -> Table:
    from rich.text import Text

    table = plain_table("promise", "result", "seen")
    if report.refused is not None:
        table.add_row("fits the network", Text("refused", style="yellow"), Text(report.refused))
    for row in report.checks:
        result = Text("pass", style="green") if row.passed else Text("FAIL", style="bold red")
        table.add_row(row.promise, result, Text(row.reason))
    return table
