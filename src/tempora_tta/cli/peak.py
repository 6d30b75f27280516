"""`tempora peak`: how many batches per second each method can take and still answer in time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tempora_tta.cli import options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import plain_table, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tempora_tta.analysis.peak import Peaks
    from tempora_tta.store import Results


def peak(
    run: Annotated[Path, options.RUN],
    p99_ms: Annotated[
        float | None, typer.Option(help="99 % of all batches are to be answered within so many ms.")
    ] = None,
    p95_ms: Annotated[float | None, typer.Option(help="Or 95 % of them.")] = None,
    p90_ms: Annotated[float | None, typer.Option(help="Or 90 % of them.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Only these methods of the run, with commas between them.")
    ] = None,
    queue: Annotated[int, typer.Option(help="Batches that may wait; a full queue loses its oldest.")] = 16,
    format_: Annotated[
        Literal["table", "csv", "json"], typer.Option("--format", help="Of the answer.")
    ] = "table",
) -> None:
    """The highest rate of random (Poisson) arrivals at which each method answers 99 % of them in time."""
    from tempora_tta.analysis.peak import peak as find
    from tempora_tta.store import open_run

    results = open_run(run)
    found = find(
        results,
        p99_ms=p99_ms,
        p95_ms=p95_ms,
        p90_ms=p90_ms,
        methods=None if methods is None else [name.strip() for name in methods.split(",") if name.strip()],
        queue=queue,
    )
    if format_ == "csv":
        from tempora_tta.report.formats import frame_to_csv

        say(frame_to_csv(found.records()), nl=False)
    elif format_ == "json":
        say(found.records().to_json(orient="records", force_ascii=False, double_precision=15))
    else:
        _show(new_console(), results, found)


def _show(console: Console, results: Results, found: Peaks) -> None:
    from rich.text import Text

    from tempora_tta.analysis.peak import APPROXIMATE

    repeated = f", each stream {found.repeats} times with other arrivals" if found.repeats > 1 else ""
    console.print(
        Text(
            f"The highest rate at which {found.percent} % of all batches are answered within {found.bound_ms:g} ms: "
            f"Poisson arrivals, {found.queue} may wait; {found.arrivals:,} arrivals{repeated}",
            style="dim",
        )
    )
    console.print()
    console.print(_table(results, found))
    for reason, names in _by_reason(results, found).items():
        console.print()
        console.print(f"{', '.join(names)}: {reason}.")
    if found.tail:
        console.print()
        console.print(
            f"Percentiles are {found.tail}." if found.tail.startswith("queueing") else f"{found.tail}."
        )
    if (found.table["answer"] == APPROXIMATE).any():
        console.print()
        console.print(
            "≈ replayed as if that changed no times. `tempora recommend RUN --rate-hz RATE` prints the command that "
            "measures a rate."
        )


def _table(results: Results, found: Peaks) -> Table:
    from rich.text import Text

    from tempora_tta.analysis.peak import APPROXIMATE

    numbers = ("batches/s", "images/s", "busy %", "in time %")
    table = plain_table("method", *numbers, "answer", numbers=numbers)
    for _, row in found.table.iterrows():
        sign = "≈" if row["answer"] == APPROXIMATE else ""
        cells = [
            _number(row["rate_hz"], f"{sign}{{:.4g}}"),
            _number(row["samples_per_s"], f"{sign}{{:.4g}}"),
            _number(100 * row["utilisation"], "{:.1f}"),
            _number(100 * row["share"], "{:.2f}"),
        ]
        table.add_row(Text(results.cards.label(row["method"])), *cells, row["answer"])
    return table


def _number(value: float, form: str) -> str:
    return "–" if value != value else form.format(value)


def _by_reason(results: Results, found: Peaks) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for _, row in found.table[found.table["why"] != ""].iterrows():
        reasons.setdefault(row["why"], []).append(results.cards.label(row["method"]))
    return reasons
