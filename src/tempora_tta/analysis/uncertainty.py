"""How sure a difference of two methods is, and what it varies with. Which winners hold is asked of `doubt`.

- Within one stream: the difference of two methods batch by batch, on the same samples. It says nothing about
  other orders of the data, so with one seed an interval is called within-stream.
- Seeds (orders of the data) and repeats (the same order, measured again) are separate components.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from tempora_tta.analysis.frames import keys, ordered, scored
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.scenarios import Value

FloatArray = NDArray[np.float64]

WITHIN_STREAM = "within-stream"
SEEDS_FOR_PROBABILITY = 3
"""Below this many orders of the data a probability of being best would be made up."""


@dataclass(frozen=True)
class Difference:
    """A mean difference with its confidence interval, and what the interval is about."""

    mean: float
    lo: float
    hi: float
    units: int
    kind: str
    """`within-stream` (units are batches of one order of the data) or `across 5 seeds`."""

    @property
    def clear(self) -> bool:
        """The interval leaves out zero."""
        return self.lo > 0 or self.hi < 0


def contributions(
    trace: pd.DataFrame,
    baseline_ms: float | None = None,
    threshold_ms: float = float("inf"),
    deadline_ms: float = float("inf"),
) -> pd.Series[float]:
    """What each batch of one cell's trace added to its utility, by batch index; their mean is the utility."""
    response_ms = (trace["emission_ms"] - trace["arrived_ms"]).to_numpy(np.float64)
    worth = (
        trace["correct"] / trace["total"] * Value(threshold_ms, deadline_ms, baseline_ms).kappa(response_ms)
    )
    return pd.Series(np.where(trace["served"], worth, 0.0), index=pd.Index(trace["index"]))


def paired_difference(
    left: pd.Series[float], right: pd.Series[float], confidence: float = 0.95
) -> Difference:
    """Mean of left minus right over the same units of one stream, paired by index.

    Give what each batch (or sample) added to the utility: accuracy times decay, 0 where it was skipped.
    Pairing takes out how hard a batch is, which both methods share.
    """
    if not left.index.sort_values().equals(right.index.sort_values()):
        raise TemporaError(
            "a paired difference needs the same batches on both sides; align the streams first"
        )
    return interval(np.asarray(left - right, dtype=np.float64), confidence)


def difference_across_seeds(
    frame: pd.DataFrame, left: str, right: str, confidence: float = 0.95
) -> pd.DataFrame:
    """Left minus right paired by seed, per shift and scenario: `difference`, `lo`, `hi`, `seeds`, `kind`.

    Repeats of a seed are averaged first. With one seed there is no interval: `lo` and `hi` are missing.
    """
    table = []
    for cell, by_seed in _seeds_by_methods(frame):
        for method in (left, right):
            if method not in by_seed:
                raise unknown("method to compare", method, by_seed.columns)
        paired = (by_seed[left] - by_seed[right]).dropna().to_numpy(np.float64)
        found = interval(paired, confidence, seed_label(len(paired)))
        measured = {"difference": found.mean, "lo": found.lo, "hi": found.hi}
        table.append({**cell, **measured, "seeds": found.units, "kind": found.kind})
    return ordered(pd.DataFrame(table))


def components(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean utility with its two sources of variation, one row per method, shift and scenario.

    `repeat_sd`: repeats of one seed, that is timing. `seed_sd`: orders of the data, with the part that
    repeats explain taken out (analysis of variance, not below zero). Missing where there is only one.
    """
    rows = scored(frame)
    cell = [*keys(rows, without=["seed", "repeat"]), "method"]
    by_seed = rows.groupby([*cell, "seed"], dropna=False)["utility"].agg(["mean", "var", "count"])
    table = (
        by_seed.reset_index()
        .groupby(cell, dropna=False, sort=False)
        .agg(
            utility=("mean", "mean"),
            seeds=("seed", "nunique"),
            repeats=("count", "mean"),
            seed_variance=("mean", "var"),
            repeat_variance=("var", "mean"),
        )
        .reset_index()
    )
    timing = table["repeat_variance"].fillna(0.0) / table["repeats"]
    table["seed_sd"] = np.sqrt((table["seed_variance"] - timing).clip(lower=0.0))
    table["repeat_sd"] = np.sqrt(table["repeat_variance"])
    table["kind"] = [seed_label(count) for count in table["seeds"]]
    return ordered(table.drop(columns=["seed_variance", "repeat_variance"]))


def probability_best(frame: pd.DataFrame, draws: int = 20_000) -> pd.DataFrame:
    """Probability that a method has the highest mean utility over orders of the data, per shift and scenario.

    Student-t posterior of the means under a flat prior, paired by seed, so that methods which rise and fall
    together stay comparable. Cells with fewer than three seeds get no probability (missing).
    """
    table = []
    for cell, by_seed in _seeds_by_methods(frame):
        complete = by_seed.dropna(axis="columns", how="any")
        shares = _probability_best(complete.to_numpy(np.float64), draws)
        for method, share in zip(complete.columns, shares, strict=True):
            table.append({**cell, "method": method, "probability": share, "seeds": len(complete)})
    return ordered(pd.DataFrame(table))


def seed_label(seeds: int) -> str:
    """What an interval from this many seeds may be called."""
    return WITHIN_STREAM if seeds == 1 else f"across {seeds} seeds"


def _seeds_by_methods(frame: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """For each shift and scenario its key and a matrix of utilities: seeds down, methods across."""
    rows = scored(frame)
    cell = keys(rows, without=["seed", "repeat"])
    for _, group in rows.groupby(cell, dropna=False, sort=False):
        key = {name: group[name].iloc[0] for name in cell}
        yield key, group.pivot_table(index="seed", columns="method", values="utility")


def interval(values: FloatArray, confidence: float = 0.95, kind: str = WITHIN_STREAM) -> Difference:
    """The mean of paired differences, with Student's interval."""
    count, mean = len(values), float(values.mean())
    if count < 2:
        return Difference(mean, float("nan"), float("nan"), count, kind)
    reach = float(stdtrit(count - 1, (1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(count))
    return Difference(mean, mean - reach, mean + reach, count, kind)


def _probability_best(utilities: FloatArray, draws: int) -> FloatArray:
    """Utilities (seeds, methods) -> probability per method."""
    seeds, methods = utilities.shape
    if seeds < SEEDS_FOR_PROBABILITY:
        return np.full(methods, np.nan)
    generator = np.random.default_rng(0)
    mean = utilities.mean(axis=0)
    # One draw: the means shifted by normal weights on the residuals, widened for the unknown variance. No
    # covariance matrix is needed, which three seeds could not estimate anyway.
    weights = generator.standard_normal((draws, seeds)) / np.sqrt(seeds * (seeds - 1))
    widening = np.sqrt((seeds - 1) / generator.chisquare(seeds - 1, size=(draws, 1)))
    drawn = mean + (weights @ (utilities - mean)) * widening
    best = drawn == drawn.max(axis=1, keepdims=True)
    shares: FloatArray = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares
