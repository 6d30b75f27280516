"""What the builders share: names people read, marked cells, and the two ways of laying a frame out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from tempora_tta.analysis.cells import SCENARIO, incomplete, keys, winning_methods
from tempora_tta.cards import Cards
from tempora_tta.names import CORRUPTION_GROUPS
from tempora_tta.published.methods import STANDARD
from tempora_tta.report.tables.model import (
    EQUAL_SIGN,
    INCOMPLETE,
    UNDECIDED_SIGN,
    Column,
    Mark,
    Table,
    TableCell,
    marks,
)
from tempora_tta.store.verdicts import EQUAL, UNDECIDED

_SIGNS = {EQUAL: EQUAL_SIGN, UNDECIDED: UNDECIDED_SIGN}
"""At winners; one that holds has none."""
INTERVAL_NOTE = "± half of the 95 % interval over other samples"

_MOST_WINNERS = 2
"""Named in one cell."""


class Layout(NamedTuple):
    """Headings, cells and separating lines of a table."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    rules: frozenset[int]


class Slice(NamedTuple):
    """The rows of one scenario, with the headings of its column."""

    title: str
    group: str
    rows: pd.DataFrame


def shift_title(shift: str) -> str:
    """A shift as people write it.

    >>> shift_title("gaussian_noise"), shift_title("jpeg_compression"), shift_title("all")
    ('Gaussian noise', 'JPEG compression', 'All shifts')
    """
    if shift == "all":
        return "All shifts"
    words = shift.replace("_", " ")
    return "JPEG" + words[4:] if words.startswith("jpeg") else words[:1].upper() + words[1:]


def scenario_slices(rows: pd.DataFrame, cards: Cards) -> list[Slice]:
    """Ordered rows, cut by scenario. Queues and rules are named where a run has more than one of them."""
    by_protocol = rows.groupby("protocol")
    several = {name: by_protocol[name].nunique() > 1 for name in keys(rows, ("queue", "rule"))}
    slices = []
    for _, group in rows.groupby(keys(rows, SCENARIO), dropna=False, sort=False):
        first = group.iloc[0]
        protocol, title = str(first["protocol"]), str(first["label"])
        if "queue" in several and several["queue"][protocol] and "queue" not in title:
            title += f", queue {first['queue']:g}"
        if "rule" in several and several["rule"].any() and first["rule"]:
            title += f", {first['rule']}"
        slices.append(Slice(title, cards.title(protocol), group))
    return slices


def won_by(row: Mapping[str, Any] | pd.Series[Any], cards: Cards) -> str:
    """Everybody whose win a row of `analysis.winners` is; of many the first two.

    >>> from tempora_tta.cards import CATALOGUE
    >>> won_by({"winner": "eta", "shared_with": "sar, tent"}, CATALOGUE)
    'ETA, SAR +1'
    """
    names = [cards.label(method) for method in winning_methods(row)]
    return ", ".join(names[:_MOST_WINNERS]) + (
        f" +{len(names) - _MOST_WINNERS}" if names[_MOST_WINNERS:] else ""
    )


def method_cell(method: str, cards: Cards) -> TableCell:
    shown = cards.method(method)
    return TableCell(shown.label, colour=shown.colour)


def utility_cells(rows: pd.DataFrame) -> dict[str, TableCell]:
    """The cells of one scenario by method: best and second marked, below Standard greyed, rank beside."""
    values = dict(zip(rows["method"], rows["utility"].astype(float), strict=True))
    standard = values.get(STANDARD, float("-inf"))
    comparable = list(rows["utility"].astype(float).where(~incomplete(rows)))
    return {
        method: TableCell(
            value, int(rank), mark or ("below" if value < standard else ""), flag, interval=interval
        )
        for (method, value), rank, mark, flag, interval in zip(
            values.items(), rows["rank"], marks(comparable), flags(rows), intervals(rows), strict=True
        )
    }


def flags(rows: pd.DataFrame) -> list[str]:
    """The signs of each row: it failed somewhere; it wins, but not for certain."""
    signs = rows.get("verdict", pd.Series("", index=rows.index)).map(_SIGNS).fillna("")
    wins = rows["rank"] == 1 if "rank" in rows else pd.Series(True, index=rows.index)
    return [
        INCOMPLETE * missing + sign * win
        for missing, sign, win in zip(incomplete(rows), signs, wins, strict=True)
    ]


def intervals(rows: pd.DataFrame) -> list[tuple[float, float] | None]:
    """The 95 % interval of each row's utility over other samples; None where it was not worked out."""
    if "sample_lo" not in rows:
        return [None] * len(rows)
    return [
        (float(low), float(high)) if high >= low else None
        for low, high in zip(rows["sample_lo"], rows["sample_hi"], strict=True)
    ]


def flag_notes(rows: pd.DataFrame) -> tuple[str, ...]:
    """What the signs in a table mean, if it has any."""
    meanings = {
        INCOMPLETE: f"{INCOMPLETE} failed on some of these streams, so the number is of the others and ranks last",
        EQUAL_SIGN: f"{EQUAL_SIGN} best, and equal with another method within half a point",
        UNDECIDED_SIGN: f"{UNDECIDED_SIGN} best here, but undecided{_causes(rows)}",
    }
    found = set("".join(flags(rows)))
    return tuple(meaning for flag, meaning in meanings.items() if flag in found)


def _causes(rows: pd.DataFrame) -> str:
    """Why winners are undecided: by timing, by sampling, or both."""
    if "why" not in rows:
        return ""
    causes = sorted({str(why) for why in rows.loc[rows["verdict"] == UNDECIDED, "why"] if why})
    return f" (by {' or by '.join(causes)})" if causes else ""


def methods_by_measure(
    rows: pd.DataFrame, measures: Mapping[str, Column], cards: Cards, best: Mapping[str, bool] | None = None
) -> Layout:
    """One row per method, one column per measure. `best` names those with a winner: is higher better?"""
    methods = cards.in_order(rows["method"])
    by_method = rows.set_index("method").loc[methods]
    columns = [[method_cell(method, cards) for method in methods]]
    for name in measures:
        values = list(by_method[name])
        signs: list[Mark] = [""] * len(values)
        if best and name in best:
            signs = marks([float(value) for value in values], higher_is_better=best[name])
        columns.append([TableCell(value, mark=sign) for value, sign in zip(values, signs, strict=True)])
    return Layout((Column("Method"), *measures.values()), _transposed(columns), family_rules(methods, cards))


def methods_by_scenario(rows: pd.DataFrame, cards: Cards, digits: int = 2) -> Layout:
    """One row per method, one column per scenario: utilities with ranks."""
    methods = cards.in_order(rows["method"])
    headings, columns = [Column("Method")], [[method_cell(method, cards) for method in methods]]
    for title, group, cells in scenario_slices(rows, cards):
        headings.append(Column(title, "percent", digits, group))
        found = utility_cells(cells)
        columns.append([found.get(method, TableCell()) for method in methods])
    return Layout(tuple(headings), _transposed(columns), family_rules(methods, cards))


def shifts_by_method(rows: pd.DataFrame, cards: Cards, digits: int = 2) -> Layout:
    """One row per shift, one column per method: utilities of one scenario, ranked along the row."""
    methods = cards.in_order(rows["method"])
    shifts = list(rows["shift"].unique())
    lines = []
    for shift in shifts:
        found = utility_cells(rows[rows["shift"] == shift])
        lines.append((TableCell(shift_title(shift)), *(found.get(method, TableCell()) for method in methods)))
    headings = [
        Column(cards.label(name), "percent", digits, cards.family(name).capitalize()) for name in methods
    ]
    return Layout((Column("Shift"), *headings), tuple(lines), group_rules(shifts))


def shifts_by_scenario(
    rows: pd.DataFrame,
    cell: Callable[[pd.Series[Any]], TableCell],
    column: Column,
    shifts: Sequence[str],
    cards: Cards,
) -> Layout:
    """One row per shift, one column per scenario; `cell` makes a cell from the row of both."""
    headings, columns = [Column("Shift")], [[TableCell(shift_title(shift)) for shift in shifts]]
    for title, group, cells in scenario_slices(rows, cards):
        headings.append(Column(title, column.unit, column.digits, group))
        found = {row["shift"]: cell(row) for _, row in cells.iterrows()}
        columns.append([found.get(shift, TableCell()) for shift in shifts])
    return Layout(tuple(headings), _transposed(columns), group_rules(shifts))


def family_rules(methods: Sequence[str], cards: Cards) -> frozenset[int]:
    """Lines between families, as the paper separates gradient-free from gradient-based."""
    return _changes([cards.family(method) for method in methods])


def group_rules(shifts: Sequence[str]) -> frozenset[int]:
    """Lines between noise, blur, weather, digital and whatever else there is."""
    groups = [
        next((group for group, members in CORRUPTION_GROUPS.items() if shift in members), "")
        for shift in shifts
    ]
    # A few shifts, one of each group, need no lines between them.
    return _changes(groups) if len(shifts) >= 2 * len(set(groups)) else frozenset()


def _changes(labels: Sequence[str]) -> frozenset[int]:
    return frozenset(row for row in range(1, len(labels)) if labels[row] != labels[row - 1])


def _transposed(columns: Sequence[Sequence[TableCell]]) -> tuple[tuple[TableCell, ...], ...]:
    return tuple(zip(*columns, strict=True))


def table_of(
    name: str, caption: str, layout: Layout, data: pd.DataFrame, notes: tuple[str, ...] = ()
) -> Table:
    """A table, with what ± means below it where it has any."""
    intervals = any(
        cell.reach_text(column)
        for row in layout.rows
        for column, cell in zip(layout.columns, row, strict=True)
    )
    notes = (*notes, INTERVAL_NOTE) if intervals else notes
    return Table(name, caption, layout.columns, layout.rows, data, layout.rules, notes)


def with_summary(layout: Layout, summary: Layout, title: str) -> Layout:
    line = (TableCell(title), *summary.rows[0][1:])
    return Layout(layout.columns, (*layout.rows, line), layout.rules | {len(layout.rows)})
