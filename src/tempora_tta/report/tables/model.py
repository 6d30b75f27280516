"""A table for people: what is in each cell, before anybody decides how to draw it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pandas as pd

from tempora_tta._plain_text import visible

Unit = Literal["text", "percent", "points", "ms", "s", "times", "count", "number"]
Mark = Literal["", "best", "second", "below"]
"""`below`: worse than standard inference."""

DASH = "–"
EQUAL_SIGN, UNDECIDED_SIGN, INCOMPLETE = "=", "?", "†"


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
        """With the heading above it, unless that says the same.

        >>> Column("T 5λ", group="Continuous").whole_title, Column("offline", group="Offline").whole_title
        ('Continuous T 5λ', 'offline')
        """
        again = self.group.lower() == self.title.lower()
        return self.title if again else f"{self.group} {self.title}".strip()

    def text(self, value: object) -> str:
        """A value as people read it, in percent where the data hold fractions; a dash where there is none.

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
    """A value, its rank where shown, how it stands out, a sign about it, and its 95 % interval."""

    value: object = None
    rank: int | None = None
    mark: Mark = ""
    flag: str = ""
    colour: str | None = None
    interval: tuple[float, float] | None = None

    def reach_text(self, column: Column) -> str:
        """The half of the interval, with one digit less than its value; empty where none is known."""
        if self.interval is None:
            return ""
        low, high = self.interval
        return f"±{replace(column, digits=max(1, column.digits - 1)).text((high - low) / 2)}"


@dataclass(frozen=True)
class Table:
    """A finished table. Cells are in the order of the columns; `rules` are the rows with a line above them."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    data: pd.DataFrame
    """The same numbers, one per row, in fractions and milliseconds: what csv and json hold."""
    rules: frozenset[int] = frozenset()
    notes: tuple[str, ...] = field(default=())

    def text(self, row: int, column: int) -> str:
        """One value as people read it, without rank and flag."""
        return self.columns[column].text(self.rows[row][column].value)


def marks(values: Sequence[float], higher_is_better: bool = True) -> list[Mark]:
    """Best and second best of the values that are there; equal ones share a mark.

    >>> marks([0.2, 0.5, float("nan"), 0.4])
    ['', 'best', '', 'second']
    """
    distinct = sorted({value for value in values if not math.isnan(value)}, reverse=higher_is_better)
    named: dict[float, Mark] = dict(zip(distinct, ("best", "second"), strict=False))
    return [named.get(value, "") for value in values]
