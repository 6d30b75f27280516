"""`tempora compare`: a run next to another run, or next to the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tempora_tta.cli import options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import say
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    import pandas as pd

    from tempora_tta.analysis.compare import RunComparison
    from tempora_tta.cards import Cards
    from tempora_tta.published import Comparison
    from tempora_tta.report.table import Table, Unit
    from tempora_tta.store import Results

    _Side = tuple[str, Unit, str, str, str]

_SIGNS = {"changed": "*", "equal": "=", "undecided": "?", "same": ""}
_SIGNS_NOTE = (
    "* changed, = equal within half a point, ? undecided, unmarked: unchanged. "
    "Differences are second minus first run, in points."
)
_MISPRINT = "‡"
_RUNS: tuple[_Side, ...] = (
    ("here", "percent", "utility", "rank", ""),
    ("there", "percent", "utility_other", "rank_other", ""),
    ("change", "points", "difference", "", "flag"),
)
_PAPER: tuple[_Side, ...] = (
    ("run", "percent", "utility", "rank", ""),
    ("paper", "percent", "published", "published_rank", "flag"),
)
"""Columns of every group: title and unit, and where values, ranks and signs are."""


def compare(
    run: Annotated[Path, options.RUN],
    other: Annotated[Path | None, typer.Argument(help="Another run folder or pack.")] = None,
    published: Annotated[
        str | None, typer.Option(help="Or a setup of the paper: rn50_inc, vit_inc, rn50_inr, ...")
    ] = None,
    by_shift: Annotated[
        bool, typer.Option("--by-shift", help="With --published: every shift, not only all of them together.")
    ] = False,
    format_: Annotated[
        options.TableFormat, typer.Option("--format", help="All but terminal: only the numbers.")
    ] = "terminal",
) -> None:
    """Compare two runs, or a run with the paper: what changed for certain, and how far they agree."""
    from tempora_tta.report.formats import frame_to_csv, render, renderable
    from tempora_tta.store import open_run

    if (other is None) == (published is None):
        raise TemporaError("compare takes one other thing: a second run folder, or --published rn50_inc")
    if by_shift and published is None:
        raise TemporaError("--by-shift is about the paper's tables: give it with --published, not with a run")
    if common := _sizes_of_both(run, other):
        if format_ != "terminal":
            raise TemporaError(
                f"--format {format_}: of several batch sizes name one, {common[0][0]} {common[0][1]}"
            )
        for here, there in common:
            compare(here, there)
        return
    results = open_run(run)
    found: RunComparison | Comparison
    if other is not None:
        from tempora_tta.analysis.compare import compare_runs

        second = open_run(other)
        found = compare_runs(results, second)
        lines = _about_runs(results, second, found)
        tables = _tables(_of_runs(found.cells, results.cards), _RUNS, results.cards)
    else:
        from tempora_tta.published import compare as with_paper

        found = with_paper(results.utilities, str(published))
        lines = _about_paper(found)
        tables = _tables(_of_paper(found.cells, by_shift, results.cards), _PAPER, results.cards)
    if format_ == "csv":
        say(frame_to_csv(found.cells), nl=False)
    elif format_ == "json":
        say(found.cells.to_json(orient="records", double_precision=15, force_ascii=False))
    elif format_ != "terminal":
        say("\n".join(render(table, format_) for table in tables), nl=False)
    else:
        console = new_console()
        for line, style in lines:
            console.print(line, style=style, markup=False)
        for table in tables:
            console.print()
            console.print(renderable(table, console.width))


def _sizes_of_both(run: Path, other: Path | None) -> list[tuple[Path, Path]]:
    """The folders of each batch size that two runs at several have in common."""
    from tempora_tta.store import of_sizes

    ours, theirs = of_sizes(run), {} if other is None else of_sizes(other)
    return [(ours[size], theirs[size]) for size in ours if size in theirs]


# -- sentences -----------------------------------------------------------------------------------------------


def _about_runs(run: Results, other: Results, found: RunComparison) -> list[tuple[str, str]]:
    """Return lines and their styles."""
    from tempora_tta import words
    from tempora_tta.analysis.answer import machine_name, settings_of

    settings = settings_of(run)
    changed = [
        (
            words.where(settings[row["label"]]),
            list(map(run.cards.label, row["winner"].split(", "))),
            list(map(run.cards.label, row["winner_other"].split(", "))),
        )
        for _, row in found.winners.iterrows()
    ]
    first, *others = words.comparison(found.summary, changed, found.paired)
    return [
        *(
            (f"{where}  {one.opened_from}  {machine_name(one.manifest)}", "")
            for where, one in (("here ", run), ("there", other))
        ),
        *((f"note: {note}", "yellow") for note in found.notes),
        ("", ""),
        (first, "bold"),
        *((line, "") for line in others),
    ]


def _about_paper(found: Comparison) -> list[tuple[str, str]]:
    numbers = found.summary
    order = "no scenario has the three methods that a rank correlation takes"
    if numbers["rank_correlation"] == numbers["rank_correlation"]:
        order = f"mean rank correlation {numbers['rank_correlation']:.2f}"
    won = "no published winner took part, so who wins cannot be compared"
    if numbers["winners_compared"]:
        won = f"{numbers['winners_agreeing']} of {numbers['winners_compared']} published winners win here"
    said = (
        f"{numbers['numbers']} numbers next to {found.setup}: mean absolute difference "
        f"{100 * numbers['mean_absolute_difference']:.2f} points, largest "
        f"{100 * numbers['largest_difference']:.2f}; {numbers['within_rounding']} equal as printed; {order}; {won}."
    )
    misprints = (
        f"{numbers['known_misprints']} of them are next to printed numbers that contradict the paper itself "
        f"(marked {_MISPRINT}) and count in no average."
    )
    notes = [(f"note: {flag}", "yellow") for flag in found.flags]
    return [*notes, (said, "bold"), *([(misprints, "")] if numbers["known_misprints"] else [])]


# -- tables --------------------------------------------------------------------------------------------------


def _of_runs(cells: pd.DataFrame, cards: Cards) -> pd.DataFrame:
    """Say where each number goes: the caption of its table, the heading above it, its sign and the footnote."""
    return cells.assign(
        caption=[f"{cards.title(name)}: utility (%) and rank of both runs" for name in cells["protocol"]],
        group=[
            label if queue == 1 else f"{label}, queue {queue:g}"
            for label, queue in zip(cells["label"], cells["queue"], strict=True)
        ],
        flag=cells["change"].map(_SIGNS),
        footnote=_SIGNS_NOTE,
    )


def _of_paper(cells: pd.DataFrame, by_shift: bool, cards: Cards) -> pd.DataFrame:
    """Say the same next to the paper: over all shifts where the run has them all, else shift by shift."""
    from tempora_tta.analysis import ordered

    whole = cells["shift"] == "all"
    together = bool(whole.any()) and not by_shift
    cells = ordered(cells[whole == together], cards)
    where = [
        cards.title(protocol) + ("" if together or label == protocol else f", {label}")
        for protocol, label in zip(cells["protocol"], cells["label"], strict=True)
    ]
    return cells.assign(
        caption=[f"{one}: utility (%) and rank among the common methods" for one in where],
        group=cells["label" if together else "shift"],
        flag=cells["note"].map(lambda note: _MISPRINT if note else ""),
        footnote=cells["note"].map(lambda note: f"{_MISPRINT} {note}" if note else ""),
    )


def _tables(cells: pd.DataFrame, sides: tuple[_Side, ...], cards: Cards) -> list[Table]:
    """Lay out methods down and, for each group of a table, the sides across."""
    from tempora_tta.report.table import Column, TableCell, of_methods

    tables = []
    for (protocol, caption), rows in cells.groupby(["protocol", "caption"], sort=False):
        columns = [
            (
                Column(title, unit, group=str(group)),
                {
                    row["method"]: TableCell(
                        row[value],
                        row.get(rank),
                        "best" if row.get(rank) == 1 else "",
                        row.get(flag, ""),
                    )
                    for _, row in part.iterrows()
                },
            )
            for group, part in rows.groupby("group", sort=False)
            for title, unit, value, rank, flag in sides
        ]
        table = of_methods(cards.in_order(rows["method"]), columns, rows, cards)
        notes = [note for note in rows["footnote"].unique() if note]
        tables.append(table.called(f"compare-{protocol}", str(caption), notes))
    return tables
