"""Ranks within a cell."""

from __future__ import annotations

import pandas as pd

from tempora.analysis.frames import keys, scored


def with_ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """The scored rows with their `rank` among the methods of their cell: 1 is best, ties share the better rank."""
    rows = scored(frame)
    within_cell = rows.groupby(keys(rows), dropna=False)["utility"]
    return rows.assign(rank=within_cell.rank(method="min", ascending=False).astype(int))
