"""Accuracy over the course of a stream of many shifts: a line per method, segments shaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tempora.analysis.frames import is_offline
from tempora.report.figures.style import LINE, SOFT, new_figure, short, verdict_note
from tempora.report.frames import offline_batches
from tempora.report.tables.parts import shift_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tempora.store import Results

_MOST_NAMED = 20
"""More segments than this are shaded, not named."""


def stream(results: Results) -> Figure | None:
    """Offline accuracy, averaged over neighbouring batches; the range over seeds where all go the same way."""
    segments = results.segments
    if segments.empty:
        return None
    cards = results.cards
    own = segments[is_offline(segments, cards)]
    name, seed = own["shift"].iloc[0], own["seed"].min()
    course = own[(own["shift"] == name) & (own["seed"] == seed)]
    course = course[course["method"] == course["method"].iloc[0]].sort_values("position")
    batches = offline_batches(results)
    batches = batches[batches["shift"] == name]
    if not _same_way(own[own["shift"] == name]):
        batches = batches[batches["seed"] == seed]
    figure, axes = new_figure(9, 3.8)
    _shade(axes, course)
    lengths = [int(length) for length in course["batches"]]
    for method in cards.in_order(batches["method"]):
        lines = _smoothed(batches[batches["method"] == method], lengths)
        colour = cards.method(method).colour
        at = np.arange(lines.shape[1])
        axes.plot(at, 100 * lines.mean(axis=0), color=colour, label=short(cards.label(method)), lw=1.3)
        if len(lines) > 1:
            axes.fill_between(
                at, 100 * lines.min(axis=0), 100 * lines.max(axis=0), color=colour, alpha=0.15, lw=0
            )
    axes.set_xlim(0, batches.groupby(["method", "seed"]).size().max() - 1)
    seeds = batches["seed"].nunique()
    what = f"mean and range of {seeds} seeds" if seeds > 1 else f"seed {seed}"
    axes.set_title(f"{shift_title(name)} stream, {what}", pad=34 if len(course) <= _MOST_NAMED else 6)
    axes.set_xlabel("Batch")
    axes.set_ylabel("Offline accuracy (%)")
    figure.legend(loc="outside right center", labelcolor=SOFT)
    verdict_note(figure, results)
    return figure


def _same_way(segments: pd.DataFrame) -> bool:
    """Whether the streams of all seeds have the same segments in the same order."""
    ways = [
        tuple(part.drop_duplicates("position").sort_values("position")["segment"])
        for _, part in segments.groupby("seed")
    ]
    return len(set(ways)) == 1


def _shade(axes: Any, course: pd.DataFrame) -> None:
    for _, segment in course.iterrows():
        first, last = segment["first_batch"] - 0.5, segment["first_batch"] + segment["batches"] - 0.5
        if segment["position"] % 2:
            axes.axvspan(first, last, color=LINE, alpha=0.5, lw=0, zorder=0)
        if len(course) <= _MOST_NAMED:
            title = short(shift_title(segment["segment"]), 18)
            place = (segment["first_batch"] + segment["batches"] / 2 - 0.5, 1.01)
            axes.text(
                *place, title, transform=axes.get_xaxis_transform(), rotation=35, fontsize=6.5, color=SOFT
            )


def _smoothed(batches: pd.DataFrame, lengths: Sequence[int]) -> np.ndarray:
    """(seeds, batches): each the mean of the batches around it, of its own segment."""
    lines = []
    for _, part in batches.groupby("seed"):
        accuracy = (part["correct"] / part["total"]).to_numpy()
        parts = np.split(accuracy, np.cumsum(lengths)[:-1])
        lines.append(np.concatenate([_running_mean(one, max(1, len(one) // 6)) for one in parts if len(one)]))
    return np.stack(lines)


def _running_mean(values: np.ndarray, around: int) -> np.ndarray:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    low, high = np.maximum(at - around, 0), np.minimum(at + around + 1, len(values))
    return np.asarray((sums[high] - sums[low]) / (high - low))
