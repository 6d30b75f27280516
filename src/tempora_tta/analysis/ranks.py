"""Ranks within a cell."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.frames import keys, scored


def with_ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """The scored rows with their `rank` among the methods of their cell: 1 is best, ties share the better rank. What
    differs by less than twelve digits differs by rounding.

    Of pooled rows, those of a method that failed somewhere come last.
    """
    rows = scored(frame)
    rows = rows.assign(rank=rows["utility"].round(12).where(~incomplete(rows), -1.0))
    within_cell = rows.groupby(keys(rows), dropna=False)["rank"]
    return rows.assign(rank=within_cell.rank(method="min", ascending=False).astype(int))


def incomplete(rows: pd.DataFrame) -> pd.Series[bool]:
    """Pooled rows over fewer shifts or seeds than other methods of their cell have."""
    found = pd.Series(False, index=rows.index)
    for count in keys(rows, ("shifts", "seeds")):
        if rows[count].nunique() > 1:
            found |= rows[count] < rows.groupby(keys(rows), dropna=False)[count].transform("max")
    return found
