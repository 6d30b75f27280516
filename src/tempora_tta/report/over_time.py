"""Accuracy over the course of a stream of many shifts, as figures and the page draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta.analysis.cells import is_offline
from tempora_tta.store import Results
from tempora_tta.words import shift_title

FloatArray = NDArray[np.float64]
DRAWN_BATCHES = 400
"""Points of a drawn line."""


@dataclass(frozen=True)
class Part:
    """A segment: what it is called, its first batch and how many it has."""

    name: str
    first: int
    batches: int


@dataclass(frozen=True)
class OverTime:
    """One stream, averaged over the seeds that can be: a line per method, by batch."""

    stream: str
    seeds: tuple[int, ...]
    parts: tuple[Part, ...]
    mean: dict[str, FloatArray]
    reach: dict[str, FloatArray]
    """Half of the 95 % interval of the mean over seeds (Student's); 0 with one seed."""

    def line(self, method: str) -> pd.DataFrame:
        """Return the line of a method, thinned out to as many points as a screen has: batch, accuracy, low, high."""
        last = self.parts[-1]
        at = np.unique(np.linspace(0, last.first + last.batches - 1, DRAWN_BATCHES).round().astype(int))
        mean, reach = self.mean[method][at], self.reach[method][at]
        low, high = np.maximum(mean - reach, 0), np.minimum(mean + reach, 1)
        return pd.DataFrame({"batch": at, "method": method, "accuracy": mean, "low": low, "high": high})

    @property
    def of(self) -> str:
        """What the lines are of, for titles."""
        if len(self.seeds) == 1:
            return f"seed {self.seeds[0]}"
        return f"mean and 95 % interval of {len(self.seeds)} seeds"


def over_time(results: Results, batches: pd.DataFrame) -> OverTime | None:
    """Offline accuracy, averaged over neighbouring batches of a segment; None for streams of one shift.

    `batches` are those of the offline passes (`frames.offline_batches`). Seeds whose streams go other ways are
    averaged place by place, and their segments are numbered; if the segments differ in length, only the first seed
    is drawn.
    """
    if results.segments.empty:
        return None
    segments = results.segments[is_offline(results.segments, results.cards)]
    name = str(segments["shift"].iloc[0])
    segments, batches = segments[segments["shift"] == name], batches[batches["shift"] == name]
    ways = {
        int(seed): segments[segments["seed"] == seed].drop_duplicates("position").sort_values("position")
        for seed in segments["seed"].unique()
    }
    seeds = sorted(ways)
    course = ways[seeds[0]]
    if any(list(way["batches"]) != list(course["batches"]) for way in ways.values()):
        seeds = seeds[:1]
    same = all(list(ways[seed]["segment"]) == list(course["segment"]) for seed in seeds)
    names = [shift_title(str(one)) for one in course["segment"]] if same else range(1, len(course) + 1)
    lengths = [int(length) for length in course["batches"]]
    parts = tuple(
        Part(str(title), int(first), length)
        for title, first, length in zip(names, course["first_batch"], lengths, strict=True)
    )
    mean, reach = {}, {}
    for method, own in batches[batches["seed"].isin(seeds)].groupby("method"):
        lines = _smoothed(own, lengths)
        mean[str(method)], reach[str(method)] = lines.mean(axis=0), _reach(lines)
    return OverTime(name, tuple(seeds), parts, mean, reach)


def _reach(lines: FloatArray) -> FloatArray:
    count = len(lines)
    if count < 2:
        return np.zeros(lines.shape[1])
    from scipy.special import stdtrit

    return np.asarray(stdtrit(count - 1, 0.975) * lines.std(axis=0, ddof=1) / np.sqrt(count))


def _smoothed(batches: pd.DataFrame, lengths: Sequence[int]) -> FloatArray:
    """(seeds, batches): each the mean of the batches around it, of its own segment."""
    lines = []
    for _, part in batches.groupby("seed"):
        accuracy = (part["correct"] / part["total"]).to_numpy()
        parts = np.split(accuracy, np.cumsum(lengths)[:-1])
        lines.append(np.concatenate([_running_mean(one, max(1, len(one) // 6)) for one in parts if len(one)]))
    return np.stack(lines)


def _running_mean(values: FloatArray, around: int) -> FloatArray:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    low, high = np.maximum(at - around, 0), np.minimum(at + around + 1, len(values))
    return np.asarray((sums[high] - sums[low]) / (high - low))
