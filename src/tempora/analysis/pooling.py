"""Aggregates over shifts (or seeds): utility, and the terms that still recompose it.

A mean of means is not what the paper prints: served accuracy is pooled over served batches, adapt accuracy
over adapted ones. Pooled this way the six-term identity holds for the aggregate too, if covariance is the sum
of two parts: within the shifts and between them (a shift that is both easy and fast).
"""

from __future__ import annotations

import pandas as pd

from tempora.analysis.frames import keys, ordered, scored
from tempora.analysis.ranks import with_ranks
from tempora.cards import CATALOGUE, Cards
from tempora.store.verdicts import VERDICTS


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
    pooled = {"batches": batches.groupby(group).sum()}
    for column in keys(rows, ("utility", "utility_lo", "utility_hi", "baseline_ms")):
        pooled[column] = _mean(rows[column], batches, group)
    for column in keys(rows, ("cutoff", "spent_ms", "waitspan_ms", "energy_j", "overhead_j", "memory_mb")):
        pooled[column] = rows[column].astype(float).groupby(group).mean()
    if "served_batches" in rows:
        pooled["served_batches"] = rows["served_batches"].groupby(group).sum(min_count=1)
    if "timing" in rows:
        places = rows["timing"].map(VERDICTS.index).groupby(group).max()
        pooled["timing"] = places.map(dict(enumerate(VERDICTS)))
    return pd.DataFrame(pooled)


def _terms(rows: pd.DataFrame, batches: pd.Series[float], group: pd.Series[int]) -> pd.DataFrame:
    """What is averaged over the served, the adapted or the frozen batches."""
    served = batches * rows["availability"]
    adapted = served * rows["adapted_fraction"]
    accuracy = _mean(rows["served_accuracy"], served, group)
    responsiveness = _mean(rows["responsiveness"], served, group)
    joint = (rows["served_accuracy"] - group.map(accuracy)) * (
        rows["responsiveness"] - group.map(responsiveness)
    )
    within, between = _mean(rows["covariance"], served, group), _mean(joint, served, group)
    terms = {
        "availability": _mean(rows["availability"], batches, group),
        "adapted_fraction": _mean(rows["adapted_fraction"], served, group),
        "adapt_accuracy": _mean(rows["adapt_accuracy"], adapted, group),
        "frozen_accuracy": _mean(rows["frozen_accuracy"], served - adapted, group),
        "responsiveness": responsiveness,
        "covariance": within + between,
        "within_covariance": within,
        "between_covariance": between,
        "accuracy": accuracy,
        "served_accuracy": accuracy,
    }
    for column in keys(rows, ("stepped_fraction", "ece")):
        terms[column] = _mean(rows[column], served, group)
    if "response_ms" in rows:
        terms["response_ms"] = _mean(rows["response_ms"], served, group)
    if "response_sd_ms" in rows:
        square = rows["response_sd_ms"] ** 2 + (rows["response_ms"] - group.map(terms["response_ms"])) ** 2
        terms["response_sd_ms"] = _mean(square, served, group) ** 0.5
    return pd.DataFrame(terms)


def _mean(values: pd.Series[float], weights: pd.Series[float], group: pd.Series[int]) -> pd.Series[float]:
    """Weighted mean per group. A missing value that carries weight makes the mean unknown; others do not."""
    weighted = (values.astype(float) * weights).where(weights != 0, 0.0)
    unknown = weighted.isna().groupby(group).any()
    total = weights.groupby(group).sum()
    return (weighted.groupby(group).sum() / total.where(total > 0)).where(~unknown)
