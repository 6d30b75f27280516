"""`tempora compare`: a run beside another run, or beside the paper."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tempora_tta.cli import options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from rich.console import Console

    from tempora_tta.analysis.compare import RunComparison
    from tempora_tta.cards import Cards
    from tempora_tta.published import Comparison
    from tempora_tta.report.table import Unit
    from tempora_tta.report.tables import Table, TableCell
    from tempora_tta.store import Results

_SIGNS = {"changed": "*", "equal": "=", "undecided": "?"}
_MISPRINT = "‡"


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
    """What changed from one run to another for certain, or how far a run agrees with the paper."""
    from tempora_tta.errors import TemporaError
    from tempora_tta.store import open_run

    if (other is None) == (published is None):
        raise TemporaError("compare takes one other thing: a second run folder, or --published rn50_inc")
    results = open_run(run)
    if published is not None:
        from tempora_tta.published import compare as with_paper

        compared = with_paper(results.utilities, published)
        tables = _published_tables(compared, by_shift, results.cards)
        _print(compared.cells, tables, format_, partial(_about_paper, compared=compared))
        return
    assert other is not None
    from tempora_tta.analysis.compare import compare_runs

    second = open_run(other)
    found = compare_runs(results, second)
    about = partial(_about_runs, run=results, other=second, found=found)
    _print(found.cells, _run_tables(found, results.cards), format_, about)


def _print(
    cells: pd.DataFrame, tables: list[Table], format_: str, introduce: Callable[[Console], None]
) -> None:
    """For people: the summary, then the tables. To paste: the tables. To process: one row per number."""
    from tempora_tta.report.formats import frame_to_csv
    from tempora_tta.report.tables import render, renderable

    if format_ == "csv":
        say(frame_to_csv(cells), nl=False)
    elif format_ == "json":
        say(cells.to_json(orient="records", double_precision=15, force_ascii=False))
    elif format_ != "terminal":
        say("\n".join(render(table, format_) for table in tables), nl=False)
    else:
        console = new_console()
        introduce(console)
        for table in tables:
            console.print()
            console.print(renderable(table, console.width))


# -- two runs ------------------------------------------------------------------------------------------------


def _about_runs(console: Console, run: Results, other: Results, found: RunComparison) -> None:
    from tempora_tta import words
    from tempora_tta.analysis.circumstances import machine_name

    for where, results in (("here ", run), ("there", other)):
        console.print(f"{where}  {results.opened_from}  {machine_name(results.manifest)}")
    for note in found.notes:
        console.print(f"note: {note}", style="yellow", markup=False)
    console.print()
    first, *others = words.comparison(found.summary, _changed(run, found), found.paired)
    console.print(first, style="bold")
    for line in others:
        console.print(line)


def _changed(run: Results, found: RunComparison) -> list[tuple[str, list[str], list[str]]]:
    """Return where another method wins, and which ones here and there, as people read them."""
    from tempora_tta import words
    from tempora_tta.analysis.answer import settings_of

    settings = settings_of(run)

    def named(methods: str) -> list[str]:
        return [run.cards.label(name) for name in methods.split(", ")]

    return [
        (words.where(settings[row["label"]]), named(row["winner"]), named(row["winner_other"]))
        for _, row in found.winners.iterrows()
    ]


def _run_tables(found: RunComparison, cards: Cards) -> list[Table]:
    cells = found.cells.assign(
        group=[_scenario(row) for _, row in found.cells.iterrows()],
        flag=found.cells["change"].map(_SIGNS).fillna(""),
    )
    sides = (
        _Side("here", "utility", rank="rank"),
        _Side("there", "utility_other", rank="rank_other"),
        _Side("change", "difference", unit="points", flag="flag"),
    )
    note = "* changed, = equal within half a point, ? undecided, no sign: the same; points, there minus here"
    return [
        _table(
            rows,
            f"compare-{protocol}",
            f"{cards.title(str(protocol))}: utility (%) and rank of both runs",
            sides,
            (note,),
            cards,
        )
        for protocol, rows in cells.groupby("protocol", sort=False)
    ]


def _scenario(row: pd.Series) -> str:
    return row["label"] if row["queue"] == 1 else f"{row['label']}, queue {row['queue']:g}"


# -- the paper -----------------------------------------------------------------------------------------------


def _about_order(numbers: dict[str, float]) -> str:
    """Whether the same methods come first, or why that cannot be said."""
    correlation = numbers["rank_correlation"]
    ranks = (
        f"mean rank correlation {correlation:.2f}"
        if correlation == correlation
        else "no scenario has the three methods that a rank correlation takes"
    )
    if not numbers["winners_compared"]:
        return f"{ranks}; no published winner took part, so who wins cannot be compared"
    return (
        f"{ranks}; {numbers['winners_agreeing']} of {numbers['winners_compared']} published winners win here"
    )


def _about_paper(console: Console, compared: Comparison) -> None:
    numbers = compared.summary
    for flag in compared.flags:
        console.print(f"note: {flag}", style="yellow", markup=False)
    console.print(
        f"{numbers['numbers']} numbers beside {compared.setup}: mean absolute difference "
        f"{100 * numbers['mean_absolute_difference']:.2f} points, largest "
        f"{100 * numbers['largest_difference']:.2f}; {numbers['within_rounding']} equal as printed; "
        f"{_about_order(numbers)}.",
        style="bold",
    )
    if numbers["known_misprints"]:
        console.print(
            f"{numbers['known_misprints']} of them are beside printed numbers that contradict the paper itself "
            "(marked ‡) and count in no average."
        )


def _published_tables(compared: Comparison, by_shift: bool, cards: Cards) -> list[Table]:
    """A table per protocol: over all shifts where the run has them all, else shift by shift."""
    from tempora_tta.analysis import ordered

    cells = ordered(compared.cells, cards)
    whole = cells["shift"] == "all"
    if whole.any():
        cells = cells[~whole if by_shift else whole]
    cells = cells.assign(flag=cells["note"].map(lambda note: _MISPRINT if note else ""))
    sides = (
        _Side("run", "utility", rank="rank"),
        _Side("paper", "published", rank="published_rank", flag="flag"),
    )
    tables = []
    for (protocol, name), rows in cells.groupby(["protocol", cells["label"].where(~whole, "")], sort=False):
        rows = rows.assign(group=rows["label"] if name == "" else rows["shift"])
        where = f"{cards.title(str(protocol))}{f', {name}' if name not in ('', protocol) else ''}"
        notes = tuple(dict.fromkeys(f"{_MISPRINT} {note}" for note in rows["note"] if note))
        caption = f"{where}: utility (%) and rank among the common methods"
        tables.append(_table(rows, f"published-{protocol}", caption, sides, notes, cards))
    return tables


# -- both ----------------------------------------------------------------------------------------------------


class _Side(NamedTuple):
    """A column of every group: its title, and where its values, ranks and flags are."""

    title: str
    value: str
    unit: Unit = "percent"
    rank: str | None = None
    flag: str | None = None

    def cell(self, row: pd.Series | None) -> TableCell:
        from tempora_tta.report.tables import TableCell

        if row is None:
            return TableCell()
        rank = None if self.rank is None else int(row[self.rank])
        flag = "" if self.flag is None else row[self.flag]
        return TableCell(row[self.value], rank=rank, mark="best" if rank == 1 else "", flag=flag)


def _table(
    rows: pd.DataFrame,
    name: str,
    caption: str,
    sides: tuple[_Side, ...],
    notes: tuple[str, ...],
    cards: Cards,
) -> Table:
    """Methods down; for each `group` of the rows, the sides across."""
    from tempora_tta.published.methods import order
    from tempora_tta.report.tables import Column, Table, TableCell

    columns = [Column("method")]
    body = {method: [TableCell(cards.label(method))] for method in sorted(rows["method"].unique(), key=order)}
    for group, cells in rows.groupby("group", sort=False):
        known = {row["method"]: row for _, row in cells.iterrows()}
        for side in sides:
            columns.append(Column(side.title, side.unit, digits=1, group=str(group)))
            for method, row in body.items():
                row.append(side.cell(known.get(method)))
    return Table(name, caption, tuple(columns), tuple(map(tuple, body.values())), data=rows, notes=notes)
