"""Does the offline ranking predict the ranking under pressure? (paper, section 4.2 and appendix C)"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tempora_tta.analysis.frames import SCENARIO, STREAM, keys, offline, ordered, temporal
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.errors import TemporaError


def spearman(left: ArrayLike, right: ArrayLike) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN if one side does not vary.

    >>> spearman([0.1, 0.2, 0.3], [5, 6, 9])
    1.0
    """
    ranked = np.stack([pd.Series(np.asarray(side)).rank().to_numpy() for side in (left, right)])
    centred = ranked - ranked.mean(axis=1, keepdims=True)
    left_spread, right_spread = (centred**2).sum(axis=1)
    if left_spread == 0 or right_spread == 0:
        return float("nan")
    return float((centred[0] * centred[1]).sum() / np.sqrt(left_spread * right_spread))


def correlations(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Spearman correlation of offline accuracy and utility over all methods, one row per temporal cell.

    `methods` is how many were ranked: those with both an offline and a temporal score.
    """
    reference = offline(frame, cards)
    if reference.empty:
        raise TemporaError("no offline rows: correlation compares every scenario with offline; run it too")
    stream = keys(reference, STREAM)
    reference = reference[[*stream, "method", "utility"]].rename(columns={"utility": "offline_utility"})
    rows = temporal(frame, cards).merge(reference, on=[*stream, "method"])
    cell = keys(rows)
    groups = rows.groupby(cell, dropna=False, sort=False)
    table = groups.size().rename("methods").reset_index()
    table["spearman_r"] = [spearman(group["offline_utility"], group["utility"]) for _, group in groups]
    return ordered(table, cards)


def correlation_summary(correlations: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Mean and sample standard deviation (n - 1) over shifts per scenario, and the extreme shifts.

    Takes `correlations(...)` or the shift rows of the published table.
    """
    scenario = keys(correlations, ("run", "hardware", "model", *SCENARIO))
    groups = correlations.groupby(scenario, dropna=False, sort=False)["spearman_r"]
    table = groups.agg(["mean", "std", "min", "max", "count"])
    by_shift = correlations.set_index("shift").groupby(scenario, dropna=False, sort=False)["spearman_r"]
    # Where all methods tie there is no correlation, and no shift where it is lowest.
    table["lowest_shift"] = by_shift.apply(lambda values: None if values.isna().all() else values.idxmin())
    table["highest_shift"] = by_shift.apply(lambda values: None if values.isna().all() else values.idxmax())
    return ordered(table.rename(columns={"count": "streams"}).reset_index(), cards)
