"""A table for people: values, headings and marks, before a format is chosen; and the ways of laying a frame out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import pandas as pd

from tempora_tta._plain_text import visible
from tempora_tta.analysis.cells import SCENARIO, incomplete, keys, winning_methods
from tempora_tta.cards import Cards
from tempora_tta.names import CORRUPTION_GROUPS
from tempora_tta.published.methods import STANDARD
from tempora_tta.store.verdicts import EQUAL, UNDECIDED
from tempora_tta.words import shift_title

Unit = Literal["text", "percent", "points", "ms", "s", "times", "count", "number"]
Mark = Literal["", "best", "second", "below"]
"""`below`: worse than standard inference."""

DASH = "–"
INCOMPLETE = "†"
SIGNS = {EQUAL: "=", UNDECIDED: "?"}
"""At winners; one that holds has none."""
INTERVAL_NOTE = "± half of the 95 % interval over other samples"
_MOST_WINNERS = 2
"""Methods named in one cell."""
_INTERNAL = ("scenario", "counts", "reference", "gap", "incomplete", "standard_utility", "standard_accuracy")
"""Columns of `cells` that tables are made with, and do not hold."""


@dataclass(frozen=True)
class Column:
    """A heading, and how the values under it are written."""

    title: str
    unit: Unit = "text"
    digits: int = 1
    group: str = ""
    """A heading above neighbouring columns."""

    @property
    def whole_title(self) -> str:
        """The title after its group, unless that says the same.

        >>> Column("T 5λ", group="Continuous").whole_title, Column("offline", group="Offline").whole_title
        ('Continuous T 5λ', 'offline')
        """
        again = self.group.lower() == self.title.lower()
        return self.title if again else f"{self.group} {self.title}".strip()

    def text(self, value: object) -> str:
        """Write a value as people read it, in percent where the data hold fractions; a dash where there is none.

        >>> Column("utility", "percent", digits=2).text(0.4913)
        '49.13'
        >>> Column("frozen accuracy", "percent").text(None)
        '–'
        """
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return DASH
        if self.unit == "text":
            return visible(str(value))
        number = float(value)  # type: ignore[arg-type]
        if self.unit == "count":
            return f"{number:,.0f}"
        if self.unit == "points":
            return f"{100 * number:+.{self.digits}f}"
        if self.unit == "times":
            return f"{number:.{self.digits}f}×"
        scale = {"percent": 100.0, "s": 0.001}.get(self.unit, 1.0)
        return f"{round(scale * number, self.digits) + 0.0:.{self.digits}f}"  # + 0.0: not "-0.0"


@dataclass(frozen=True)
class TableCell:
    """A value, its rank where shown, its mark, a sign about it, and its 95 % interval."""

    value: object = None
    rank: int | None = None
    mark: Mark = ""
    flag: str = ""
    colour: str | None = None
    interval: tuple[float, float] | None = None

    def reach_text(self, column: Column) -> str:
        """Write half of the interval, with one digit less than its value; empty where none is known."""
        if self.interval is None:
            return ""
        low, high = self.interval
        return f"±{replace(column, digits=max(1, column.digits - 1)).text((high - low) / 2)}"


Rows = tuple[tuple[TableCell, ...], ...]
Columns = Sequence[tuple[Column, Mapping[str, TableCell]]]
"""Headings, and the cells below each by the name of their row."""


@dataclass(frozen=True)
class Table:
    """A finished table. Cells are in the order of the columns; `rules` are the rows with a line above them."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: Rows
    data: pd.DataFrame
    """The same numbers, one per row, in fractions and milliseconds: what csv and json hold."""
    rules: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    def text(self, row: int, column: int) -> str:
        """Return one value as people read it, without rank and flag."""
        return self.columns[column].text(self.rows[row][column].value)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The headings above neighbouring columns, and how many columns each spans."""
        return [
            (group, len(list(members))) for group, members in groupby(self.columns, lambda one: one.group)
        ]

    def called(self, name: str, caption: str, notes: Sequence[str] = ()) -> Table:
        """Return the table with its name, caption and notes; ± is explained where it has any."""
        reach = any(cell.interval is not None for row in self.rows for cell in row)
        notes = (*notes, INTERVAL_NOTE) if reach else tuple(notes)
        data = self.data.drop(columns=keys(self.data, _INTERNAL))
        return replace(self, name=name, caption=caption, data=data, notes=notes)

    def with_last(self, *lines: Sequence[TableCell]) -> Table:
        """Return the table with lines below a rule: means, totals."""
        return replace(self, rows=(*self.rows, *map(tuple, lines)), rules=self.rules | {len(self.rows)})


# -- layouts -------------------------------------------------------------------------------------------------


def of_methods(methods: Sequence[str], columns: Columns, data: pd.DataFrame, cards: Cards) -> Table:
    """Lay out one row per method."""
    names = {method: method_cell(method, cards) for method in methods}
    rules = changes([cards.family(method) for method in methods])
    return _laid_out("Method", names, columns, data, rules)


def of_shifts(shifts: Sequence[str], columns: Columns, data: pd.DataFrame) -> Table:
    """Lay out one row per shift."""
    return _laid_out(
        "Shift", {one: TableCell(shift_title(one)) for one in shifts}, columns, data, group_rules(shifts)
    )


def _laid_out(
    title: str, names: Mapping[str, TableCell], columns: Columns, data: pd.DataFrame, rules: frozenset[int]
) -> Table:
    rows = tuple(
        (shown, *(cells.get(name, TableCell()) for _, cells in columns)) for name, shown in names.items()
    )
    return Table("", "", (Column(title), *(heading for heading, _ in columns)), rows, data, rules)


def measured(
    rows: pd.DataFrame, measures: Mapping[str, Column], best: Mapping[str, bool] | None = None
) -> Columns:
    """Return a column per measure, by method. `best` names those with a winner: is higher better?"""
    columns = []
    for name, heading in measures.items():
        values = list(rows[name])
        signs: list[Mark] = [""] * len(values)
        if best and name in best:
            signs = marks([float(value) for value in values], higher_is_better=best[name])
        cells = [TableCell(value, mark=sign) for value, sign in zip(values, signs, strict=True)]
        columns.append((heading, dict(zip(rows["method"], cells, strict=True))))
    return columns


def by_measure(
    rows: pd.DataFrame, measures: Mapping[str, Column], cards: Cards, best: Mapping[str, bool] | None = None
) -> Table:
    """Lay out one row per method, one column per measure."""
    return of_methods(cards.in_order(rows["method"]), measured(rows, measures, best), rows, cards)


def slices(rows: pd.DataFrame, cards: Cards) -> list[tuple[Column, pd.DataFrame]]:
    """Cut ordered rows by scenario; its queue and rule are named where a run has several of them."""
    by_protocol = rows.groupby("protocol")
    several = {name: by_protocol[name].nunique() > 1 for name in keys(rows, ("queue", "rule"))}
    found = []
    for _, part in rows.groupby(keys(rows, SCENARIO), dropna=False, sort=False):
        first = part.iloc[0]
        protocol, title = str(first["protocol"]), str(first["label"])
        if "queue" in several and several["queue"][protocol] and "queue" not in title:
            title += f", queue {first['queue']:g}"
        if "rule" in several and several["rule"].any() and first["rule"]:
            title += f", {first['rule']}"
        found.append((Column(title, "percent", 2, cards.title(protocol)), part))
    return found


def by_scenario(rows: pd.DataFrame, cards: Cards) -> Table:
    """Lay out utilities with ranks: one row per method, one column per scenario."""
    columns = [(heading, utility_cells(part)) for heading, part in slices(rows, cards)]
    return of_methods(cards.in_order(rows["method"]), columns, rows, cards)


def shifts_by_scenario(
    rows: pd.DataFrame, cell: Callable[[pd.Series[Any]], TableCell], cards: Cards, **heading: Any
) -> Table:
    """Lay out one row per shift, one column per scenario; `cell` makes a cell from the row of both."""
    columns = [
        (replace(column, **heading), {row["shift"]: cell(row) for _, row in part.iterrows()})
        for column, part in slices(rows, cards)
    ]
    return of_shifts(list(rows["shift"].unique()), columns, rows)


def shifts_by_method(rows: pd.DataFrame, cards: Cards, index: str = "shift") -> Table:
    """Lay out utilities of one scenario: one row per shift (or segment), one column per method, ranked in the row."""
    cells: dict[str, dict[str, TableCell]] = {}
    for name, part in rows.groupby(index, sort=False):
        for method, cell in utility_cells(part).items():
            cells.setdefault(method, {})[str(name)] = cell
    columns = [
        (Column(cards.label(method), "percent", 2, cards.family(method).capitalize()), cells[method])
        for method in cards.in_order(rows["method"])
    ]
    return of_shifts(list(rows[index].unique()), columns, rows)


# -- cells ---------------------------------------------------------------------------------------------------


def method_cell(method: str, cards: Cards) -> TableCell:
    shown = cards.method(method)
    return TableCell(shown.label, colour=shown.colour)


def utility_cells(rows: pd.DataFrame) -> dict[str, TableCell]:
    """Return the cells of one scenario by method: best and second marked, below Standard grey, rank next to it."""
    values = dict(zip(rows["method"], rows["utility"].astype(float), strict=True))
    standard = values.get(STANDARD, float("-inf"))
    comparable = list(rows["utility"].astype(float).where(~_incomplete(rows)))
    found = zip(values.items(), rows["rank"], marks(comparable), flags(rows), _intervals(rows), strict=True)
    return {
        method: TableCell(
            value, int(rank), mark or ("below" if value < standard else ""), flag, interval=interval
        )
        for (method, value), rank, mark, flag, interval in found
    }


def _incomplete(rows: pd.DataFrame) -> pd.Series[bool]:
    return rows["incomplete"] if "incomplete" in rows else incomplete(rows)


def _intervals(rows: pd.DataFrame) -> list[tuple[float, float] | None]:
    """Return the 95 % interval of each row's utility over other samples; None where it was not worked out."""
    if "sample_lo" not in rows:
        return [None] * len(rows)
    ends = zip(rows["sample_lo"], rows["sample_hi"], strict=True)
    return [(float(low), float(high)) if high >= low else None for low, high in ends]


def flags(rows: pd.DataFrame) -> list[str]:
    """Return the signs of each row: it failed somewhere; it wins, but not for certain."""
    signs = rows.get("verdict", pd.Series("", index=rows.index)).map(SIGNS).fillna("")
    wins = rows["rank"] == 1 if "rank" in rows else pd.Series(True, index=rows.index)
    return [
        INCOMPLETE * missing + sign * win
        for missing, sign, win in zip(_incomplete(rows), signs, wins, strict=True)
    ]


def flag_notes(rows: pd.DataFrame) -> tuple[str, ...]:
    """Explain the signs in a table, if it has any."""
    undecided = list(rows.loc[rows["verdict"] == UNDECIDED, "why"]) if "why" in rows else []
    causes = " or by ".join(sorted({str(why) for why in undecided if why}))
    meanings = {
        INCOMPLETE: f"{INCOMPLETE} failed on some of these streams, so the number is of the others and ranks last",
        SIGNS[EQUAL]: f"{SIGNS[EQUAL]} best, and equal with another method within half a point",
        SIGNS[UNDECIDED]: f"{SIGNS[UNDECIDED]} best here, but undecided{causes and f' (by {causes})'}",
    }
    found = set("".join(flags(rows)))
    return tuple(meaning for flag, meaning in meanings.items() if flag in found)


def marks(values: Sequence[float], higher_is_better: bool = True) -> list[Mark]:
    """Mark best and second best of the values that are there; equal ones share a mark.

    >>> marks([0.2, 0.5, float("nan"), 0.4])
    ['', 'best', '', 'second']
    """
    distinct = sorted({value for value in values if not math.isnan(value)}, reverse=higher_is_better)
    named: dict[float, Mark] = dict(zip(distinct, ("best", "second"), strict=False))
    return [named.get(value, "") for value in values]


# -- names ---------------------------------------------------------------------------------------------------


def won_by(row: Mapping[str, Any] | pd.Series[Any], cards: Cards) -> str:
    """Name the methods whose win a row of `analysis.winners` is; of many the first two.

    >>> from tempora_tta.cards import CATALOGUE
    >>> won_by({"winner": "eta", "shared_with": "sar, tent"}, CATALOGUE)
    'ETA, SAR +1'
    """
    names = [cards.label(method) for method in winning_methods(row)]
    more = f" +{len(names) - _MOST_WINNERS}" if names[_MOST_WINNERS:] else ""
    return ", ".join(names[:_MOST_WINNERS]) + more


def group_rules(shifts: Sequence[str]) -> frozenset[int]:
    """Return where lines are between noise, blur, weather, digital and other shifts."""
    groups = [
        next((group for group, members in CORRUPTION_GROUPS.items() if shift in members), "")
        for shift in shifts
    ]
    # A few shifts, one of each group, need no lines between them.
    return changes(groups) if len(shifts) >= 2 * len(set(groups)) else frozenset()


def changes(labels: Sequence[str]) -> frozenset[int]:
    """Return the places whose label differs from the one before."""
    return frozenset(row for row in range(1, len(labels)) if labels[row] != labels[row - 1])
