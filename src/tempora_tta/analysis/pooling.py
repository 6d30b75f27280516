"""Aggregates over shifts (or seeds): utility, and the terms that still recompose it.

A mean of means is not what the paper prints: served accuracy is pooled over served batches, adapt accuracy
over adapted ones. Pooled this way the six-term identity holds for the aggregate too, if covariance is the sum
of two parts: within the shifts and between them (a shift that is both easy and fast).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta.analysis.frames import keys, ordered, scored
from tempora_tta.analysis.ranks import with_ranks
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.scenarios.utility import SIX_TERMS
from tempora_tta.store.verdicts import VERDICTS


def pool(frame: pd.DataFrame, over: str = "shift", cards: Cards = CATALOGUE) -> pd.DataFrame:
    """One row per method and scenario, pooled over `over` (shift, seed or repeat).

    Streams weigh by their `batches` where the frame has that column, equally otherwise. A column named like
    `shifts` counts what was pooled: a method that failed somewhere has fewer. `timing` is the worst of
    them. Adds `within_covariance` and `between_covariance`, whose sum is `covariance`.
    """
    rows = scored(frame)
    by = [*keys(rows, without=[over]), "method"]
    group = rows.groupby(by, dropna=False, sort=False).ngroup()
    table = rows.loc[~group.duplicated(), by].set_axis(group[~group.duplicated()])
    table[f"{over}s"] = rows.groupby(group)[over].nunique()
    if over == "shift":
        table["shift"] = "all"
    batches = rows["batches"].astype(float) if "batches" in rows else pd.Series(1.0, index=rows.index)
    table = table.join(_whole_streams(rows, batches, group))
    if "availability" in rows:
        table = table.join(_terms(rows, batches, group))
    return ordered(with_ranks(table), cards)


def _whole_streams(rows: pd.DataFrame, batches: pd.Series[float], group: pd.Series[int]) -> pd.DataFrame:
    """What is averaged over all batches, added up, or a total of the mean stream."""
    averaged = keys(rows, ("utility", "utility_lo", "utility_hi", "baseline_ms"))
    totals = keys(rows, ("cutoff", "spent_ms", "waitspan_ms", "energy_j", "overhead_j", "memory_mb"))
    parts = [
        batches.groupby(group).sum().to_frame("batches"),
        _means({name: (rows[name], batches) for name in averaged}, group),
        rows[totals].astype(float).groupby(group).mean(),
    ]
    if "served_batches" in rows:
        parts.append(rows["served_batches"].groupby(group).sum(min_count=1).to_frame())
    if "timing" in rows:
        places = rows["timing"].map(VERDICTS.index).groupby(group).max()
        parts.append(places.map(dict(enumerate(VERDICTS))).to_frame("timing"))
    return pd.concat(parts, axis=1)


def _terms(rows: pd.DataFrame, batches: pd.Series[float], group: pd.Series[int]) -> pd.DataFrame:
    """What is averaged over the served, the adapted or the frozen batches."""
    served = batches * rows["availability"]
    adapted = served * rows["adapted_fraction"]
    over_served = ("adapted_fraction", "responsiveness", "served_accuracy", "covariance")
    also = keys(rows, ("stepped_fraction", "ece", "response_ms"))
    found = _means(
        {
            "availability": (rows["availability"], batches),
            "adapt_accuracy": (rows["adapt_accuracy"], adapted),
            "frozen_accuracy": (rows["frozen_accuracy"], served - adapted),
            **{name: (rows[name], served) for name in (*over_served, *also)},
        },
        group,
    )

    def apart(name: str) -> pd.Series[float]:
        """How far each stream is from the mean of its group."""
        away: pd.Series[float] = rows[name] - group.map(found[name])
        return away

    spread = {"between_covariance": (apart("served_accuracy") * apart("responsiveness"), served)}
    if "response_sd_ms" in rows:
        spread["response_sd_ms"] = (rows["response_sd_ms"] ** 2 + apart("response_ms") ** 2, served)
    found = found.rename(columns={"covariance": "within_covariance"}).join(_means(spread, group))
    found["covariance"] = found["within_covariance"] + found["between_covariance"]
    found["accuracy"] = found["served_accuracy"]
    if "response_sd_ms" in rows:
        found["response_sd_ms"] **= 0.5
    columns = (
        *SIX_TERMS,
        *("within_covariance", "between_covariance", "accuracy", "served_accuracy"),
        *("stepped_fraction", "ece", "response_ms", "response_sd_ms"),
    )
    return found[keys(found, columns)]


def _means(
    weighed: Mapping[str, tuple[pd.Series[Any], pd.Series[float]]], group: pd.Series[int]
) -> pd.DataFrame:
    """Weighted means per group of columns with their weights. A missing value that carries weight makes the mean
    unknown; others do not."""
    weights = pd.DataFrame({name: weight.to_numpy(float) for name, (_, weight) in weighed.items()})
    values = pd.DataFrame(
        {name: value.to_numpy(float, na_value=np.nan) for name, (value, _) in weighed.items()}
    )
    weighted, of_row = (values * weights).where(weights != 0, 0.0), group.to_numpy()
    unknown = weighted.isna().groupby(of_row).any()
    total = weights.groupby(of_row).sum()
    return (weighted.groupby(of_row).sum() / total.where(total > 0)).where(~unknown)
