"""The chart of a stream of many shifts: offline accuracy over its course."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta.analysis.cells import is_offline
from tempora_tta.analysis.stream import stream_story
from tempora_tta.report.drawing import (
    GREY,
    Drawn,
    between,
    chart_of,
    hover,
    method_colour,
    titled,
    utility_axis,
)
from tempora_tta.report.frames import offline_batches
from tempora_tta.report.vega import alt
from tempora_tta.store import Results
from tempora_tta.words import shift_title

_MOST_NAMED = 20
"""Segments of a stream; more are shaded, not named."""
FloatArray = NDArray[np.float64]
DRAWN_BATCHES = 400
"""Points of a drawn line."""


@dataclass(frozen=True)
class OverTime:
    """One stream, averaged over the seeds that can be."""

    stream: str
    seeds: tuple[int, ...]
    segments: pd.DataFrame
    """`name`, `from` and `to` in batches, and whether it is `shaded`."""
    lines: pd.DataFrame
    """`method`, `batch`, `accuracy`, and its 95 % interval over seeds (Student's) from `low` to `high`."""

    @property
    def of(self) -> str:
        """The lines in words, for titles."""
        if len(self.seeds) == 1:
            return f"seed {self.seeds[0]}"
        return f"mean and 95 % interval of {len(self.seeds)} seeds"


def over_time(results: Results) -> OverTime | None:
    """Return offline accuracy, averaged over neighbouring batches of a segment; None for streams of one shift.

    Seeds whose streams go other ways are averaged place by place, and their segments are numbered; if the segments
    differ in length, only the first seed is drawn. A line has as many points as a screen.
    """
    if results.segments.empty:
        return None
    segments, batches = (
        results.segments[is_offline(results.segments, results.cards)],
        offline_batches(results),
    )
    stream = str(segments["shift"].iloc[0])
    segments, batches = segments[segments["shift"] == stream], batches[batches["shift"] == stream]
    segments = segments.drop_duplicates(["seed", "position"]).sort_values("position")
    ways = [way for _, way in segments.groupby("seed")]
    course = ways[0]
    lengths = course["batches"].tolist()
    if any(way["batches"].tolist() != lengths for way in ways):
        ways = ways[:1]
    seeds = tuple(int(way["seed"].iloc[0]) for way in ways)
    same = all(list(way["segment"]) == list(course["segment"]) for way in ways)
    names = map(shift_title, course["segment"]) if same else map(str, range(1, len(course) + 1))
    first = course["first_batch"].to_numpy() - 0.5
    shaded = np.arange(len(course)) % 2 == 1
    shown = pd.DataFrame({"name": list(names), "from": first, "to": first + lengths, "shaded": shaded})
    at = np.unique(np.linspace(0, sum(lengths) - 1, DRAWN_BATCHES).round().astype(int))
    lines = []
    batches = batches[batches["seed"].isin(seeds)]
    for method in results.cards.in_order(batches["method"]):
        own = batches[batches["method"] == method]
        smoothed = _smoothed(own, lengths)[:, at]
        mean, reach = smoothed.mean(axis=0), _reach(smoothed)
        low, high = np.maximum(mean - reach, 0), np.minimum(mean + reach, 1)
        lines.append(
            pd.DataFrame({"batch": at, "method": method, "accuracy": mean, "low": low, "high": high})
        )
    return OverTime(stream, seeds, shown, pd.concat(lines))


def _reach(lines: FloatArray) -> FloatArray:
    count = len(lines)
    if count < 2:
        return np.zeros(lines.shape[1])
    from scipy.special import stdtrit

    return np.asarray(stdtrit(count - 1, 0.975) * lines.std(axis=0, ddof=1) / np.sqrt(count))


def _smoothed(batches: pd.DataFrame, lengths: Sequence[int]) -> FloatArray:
    """(seeds, batches): each the mean of the batches around it, of its own segment."""
    batches = batches.assign(accuracy=batches["correct"] / batches["total"])
    lines = []
    for _, own in batches.groupby("seed"):
        parts = np.split(own["accuracy"].to_numpy(), np.cumsum(lengths)[:-1])
        windows = (
            pd.Series(part).rolling(2 * max(1, len(part) // 6) + 1, center=True, min_periods=1)
            for part in parts
        )
        lines.append(np.concatenate([window.mean() for window in windows]))
    return np.stack(lines)


def stream(results: Results) -> Drawn | None:
    """Draw offline accuracy over a stream of many shifts, with intervals over seeds and segments shaded."""
    found, cards = over_time(results), results.cards
    if found is None:
        return None
    methods = cards.in_order(found.lines["method"])
    rows = found.lines.assign(name=found.lines["method"].map(cards.label))
    x = alt.X("batch:Q", title="Batch", axis=alt.Axis(grid=False), scale=alt.Scale(nice=False))
    base = chart_of(rows, "accuracy", 1).encode(x=x, color=method_colour(cards, methods))
    segments = alt.Chart(found.segments).encode(x="from:Q", x2="to:Q", tooltip=hover(Segment="name:N"))
    layers = [
        segments.transform_filter("datum.shaded").mark_rect(color=GREY, opacity=0.14),
        base.mark_area(opacity=0.08).encode(**between("low", "high", "Offline accuracy")),
        base.mark_line(strokeWidth=1.5).encode(
            y=utility_axis("accuracy", "Offline accuracy"),
            tooltip=hover(Method="name:N", Batch="batch:Q", Accuracy="accuracy_text:N"),
        ),
    ]
    names = found.segments["name"]
    if len(names) <= _MOST_NAMED:
        angle = 0 if names.str.isdigit().all() else 325
        text = alt.Chart(found.segments).mark_text(
            align="left", dx=4, dy=-4, angle=angle, color=GREY, fontSize=9
        )
        layers.append(text.encode(x="from:Q", y=alt.value(0), text="name:N"))
    title = f"{shift_title(found.stream)} stream, {found.of}"
    chart = titled(alt.layer(*layers).properties(width=640, height=260), results, title)
    return chart, " ".join(stream_story(results))
