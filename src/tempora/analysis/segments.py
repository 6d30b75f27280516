"""Where in a stream of many shifts a method gains, collapses, recovers or forgets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tempora.published.methods import STANDARD

COLLAPSE_BATCHES = 20
"""So many batches on end below standard inference are no accident."""


def by_segment(segments: pd.DataFrame) -> pd.DataFrame:
    """Utility per method and segment, the mean over seeds, in the order in which the first seed's stream goes."""
    first = segments["seed"] == segments["seed"].min()
    places = segments[first].drop_duplicates("segment").set_index("segment")["position"]
    pooled = segments.groupby(["method", "segment"], as_index=False).agg(
        utility=("utility", "mean"),
        segment_shift=("segment_shift", "first"),
        severity=("severity", "first"),
        visit=("visit", "first"),
        batches=("batches", "sum"),
    )
    position = pooled["segment"].map(places)
    ordered = pooled.assign(position=position.fillna(position.max() + 1))  # a stream of one's own may differ
    return ordered.sort_values(["position", "segment", "method"], ignore_index=True)


def collapses(batches: pd.DataFrame, on_end: int = COLLAPSE_BATCHES) -> pd.DataFrame:
    """Who is below standard inference for `on_end` batches or more on end: where that begins, and how long it lasts.

    batches: one row per batch of the offline passes (`method`, `shift`, `seed`, `correct`, `total`), in order.
    `recovered`: it ends before the stream does.
    """
    rows = []
    for (shift, seed), stream in batches.groupby(["shift", "seed"], sort=False):
        accuracy = {
            method: (part["correct"] / part["total"]).to_numpy() for method, part in stream.groupby("method")
        }
        standard = accuracy.pop(STANDARD, None)
        if standard is None:
            continue
        for method, own in accuracy.items():
            start, length = longest_run(own < standard)
            if length >= on_end:
                ends = start + length < len(own)
                rows.append((method, shift, seed, start, length, ends))
    return pd.DataFrame(rows, columns=["method", "shift", "seed", "first_batch", "batches", "recovered"])


def over_visits(segments: pd.DataFrame) -> pd.DataFrame:
    """What the last visit to a shift has over the first, the mean over shifts; below 0 it was forgotten."""
    key = ["method", "seed", "segment_shift", "severity"]
    visits = segments.assign(severity=segments["severity"].fillna(-1)).sort_values("visit")
    ends = visits.groupby(key)["utility"].agg(["first", "last", "size"])
    again = ends[ends["size"] > 1]
    change = (again["last"] - again["first"]).groupby("method").mean()
    return change.rename("change").reset_index()


def longest_run(flags: Sequence[bool] | np.ndarray) -> tuple[int, int]:
    """Start and length of the longest run of true values, the first of equally long ones.

    >>> longest_run([False, True, True, False, True])
    (1, 2)
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(flags, np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return 0, 0
    longest = int(np.argmax(ends - starts))
    return int(starts[longest]), int(ends[longest] - starts[longest])
