"""Where adapting is worse than not adapting at all."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.frames import keys, ordered, temporal
from tempora_tta.analysis.outcomes import counted, over_seeds
from tempora_tta.cards import CATALOGUE, OVERALL, Cards
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import STANDARD


def beside_standard(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The temporal rows with `standard_utility`, what standard inference gets in the same cell, and, where it is
    known, `standard_accuracy`, how right it is about what it serves there."""
    rows = temporal(frame, cards)
    cell = keys(rows)
    columns = {"utility": "standard_utility", "served_accuracy": "standard_accuracy"}
    standard = rows.loc[rows["method"] == STANDARD, [*cell, *keys(rows, columns)]]
    if standard.empty:
        raise TemporaError("no row of method 'standard': the comparison needs standard inference; run it too")
    return rows.merge(standard.rename(columns=columns), on=cell)


def below_standard(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """How often a method's utility is below Standard's: `cells`, `count`, and `share` of the method's count.

    As the paper prints it, `share` says where the misses happen: the protocol rows of a method sum to 1.
    """
    rows = beside_standard(counted(over_seeds(frame, cards)), cards)
    rows = rows[rows["method"] != STANDARD]
    rows["below"] = rows["utility"] < rows["standard_utility"]
    by_protocol = rows.groupby(["method", "protocol"])["below"].agg(cells="size", count="sum").reset_index()
    totals = by_protocol.groupby("method")[["cells", "count"]].sum().reset_index()
    table = pd.concat(
        [totals.assign(group=OVERALL), by_protocol.rename(columns={"protocol": "group"})], ignore_index=True
    )
    total = table["method"].map(totals.set_index("method")["count"]).astype(float)
    table["share"] = table["count"] / total.where(total > 0)
    return ordered(table[["method", "group", "cells", "count", "share"]], cards)
