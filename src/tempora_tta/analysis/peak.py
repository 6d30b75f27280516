"""The highest rate: how many images per second a method can take and still answer nearly all in time.

As MLPerf's server scenario asks: arrivals are Poisson, and a rate counts if 99 % of all arrivals, pooled over at
least 1,000, are answered within the bound; a lost batch is never answered. The streams of a run follow each other,
each with arrivals of its own, and the queue goes over from one to the next. If there are too few of them they come
again, with other arrivals. Rates nest: a higher one is the same pattern, faster, and the same for every method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta.analysis.answer import NO, YES, Answer, about_run, plain
from tempora_tta.analysis.cells import is_offline
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.replays import FloatArray, of_shifts, tail_note, varies
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import order
from tempora_tta.scenarios import Course, Deployment, Offline, Poisson, Recorded, Resolved, replay, route
from tempora_tta.scenarios.grids import SERVER_QUEUE
from tempora_tta.scenarios.routes import LIVE
from tempora_tta.store import ADAPTED, Results

LEAST_ARRIVALS = 1000
"""Arrivals that a share of 99 % is told from."""
MOST_DOUBLINGS = 30
HALVINGS = 10
"""Of the range that holds the highest rate: it is found within a thousandth."""
REPLAYED, APPROXIMATE, NONE = "replayed", "approximate", "none"


@dataclass(frozen=True)
class Arrivals:
    """The streams of a run one after the other, and again until there are enough, each with its own arrivals."""

    unit_times: FloatArray
    """When each batch arrives, in mean intervals."""
    repeats: int = 1

    @classmethod
    def of(cls, streams: Iterable[tuple[str, int, int]]) -> Arrivals:
        """Draw Poisson arrivals for streams, each with its shift, its seed and its batches."""
        once = list(streams)
        repeats = -(-LEAST_ARRIVALS // sum(batches for _, _, batches in once))
        parts, start = [], 0.0
        for again in range(repeats):
            for shift, seed, batches in once:
                drawn_for = f"{shift}, again {again}" if again else shift
                parts.append(start + Poisson(interval_ms=1.0).times(batches, seed, drawn_for))
                start = parts[-1][-1]
        return cls(np.concatenate(parts), repeats)


@dataclass(frozen=True)
class Times:
    """Time of each batch of a method, stream after stream, with the device's own variation."""

    predict_ms: FloatArray
    adapt_ms: FloatArray
    adapted: NDArray[np.bool_]
    history_free: bool = False
    stateless: bool = False
    time_aware: bool = False
    varying: bool = True
    """The device's own variation is known."""


class Peak(NamedTuple):
    """The highest rate of one method."""

    batches_per_s: float | None = None
    """0: no rate keeps the bound; None: this run cannot say."""
    in_time: float | None = None
    """Share of the arrivals that is answered within the bound at that rate."""
    busy: float | None = None
    """Utilisation of the method's own pipeline at that rate."""
    answer: str = REPLAYED
    """replayed (exact), approximate, or none."""
    why: str = ""


def highest_rates(results: Results, question: Question) -> Answer:
    """Rank methods by the highest Poisson rate at which the asked share of all arrivals is answered in time.

    Rates are replayed from the offline passes. A rate is approximate where `route` says that it needs live passes.
    """
    percent, bound_ms = _bound(question)
    rows, about = _offline(results, question), about_run(results, question.shifts)
    known = rows.drop_duplicates(["shift", "seed"])
    streams = [(str(row["shift"]), int(row["seed"]), int(row["batches"])) for _, row in known.iterrows()]
    arrivals = Arrivals.of(streams)
    found, left_out, varying = {}, {}, True
    for method in sorted(rows["method"].unique(), key=order):
        own = rows[rows["method"] == method]
        times = _times(results, own, streams)
        if question.memory_mb is not None and not own["memory_mb"].max() <= question.memory_mb:
            times = f"its memory is not known to be within {question.memory_mb:g} MB"
        if isinstance(times, str):
            left_out[method] = times
            continue
        peak = highest_rate(times, arrivals, percent, bound_ms, SERVER_QUEUE)
        varying = varying and times.varying
        if peak.answer == NONE:
            left_out[method] = peak.why
        else:
            found[method] = peak
    ranking = pd.DataFrame(found.values(), columns=Peak._fields)
    ranking.insert(0, "method", list(found))
    ranking = ranking.astype(dict.fromkeys(("batches_per_s", "in_time", "busy"), float))
    ranking.insert(2, "images_per_s", ranking["batches_per_s"] * about["batch_size"])
    ranking = ranking.sort_values("batches_per_s", ascending=False, kind="stable", ignore_index=True)
    setting: dict[str, Any] = {
        "percent": percent,
        "bound_ms": bound_ms,
        "queue": SERVER_QUEUE,
        "arrivals": len(arrivals.unit_times),
        "batch_size": about["batch_size"],
        "machine_images_per_s": about["images_per_s"],
    }
    tail = tail_note(results, max(question.limits_ms), varying) if question.limits_ms else ""
    return Answer(
        None,
        ranking,
        setting=plain(setting),
        question=question.given,
        fits=YES if (ranking["batches_per_s"] > 0).any() else NO,
        left_out=left_out,
        notes=(tail,) if tail else (),
        about=about,
        cards=results.cards,
    )


def highest_rate(times: Times, arrivals: Arrivals, percent: float, bound_ms: float, queue: int) -> Peak:
    """Find the highest rate of one method by bisection of the mean interval.

    A rate that the pipeline cannot sustain is none, however long the queue: the mean interval is longer than the mean
    service. The rate is exact if both it and the next higher one, which fails, are.
    """
    if times.time_aware:
        return Peak(answer=NONE, why="it looks at the clock, so every rate is a run of its own")
    needed = percent / 100
    if float((times.predict_ms <= bound_ms).mean()) < needed:
        slowest = float(np.percentile(times.predict_ms, percent, method="inverted_cdf"))
        return Peak(0.0, why=f"even without a queue p{percent:g} is {slowest:.1f} ms, above {bound_ms:g}")
    predict_ms, adapt_ms = (np.tile(one, arrivals.repeats) for one in (times.predict_ms, times.adapt_ms))
    adapted = np.tile(times.adapted, arrivals.repeats)

    def course(resolved: Resolved) -> Course:
        return replay(resolved.timeline(), predict_ms, adapt_ms, predict_ms, adapted)

    def at(interval_ms: float) -> Resolved:
        arrive = Recorded(arrivals.unit_times * interval_ms)
        return Deployment(arrivals=arrive, queue=queue, residuals=True).resolve(num_batches=len(adapted))

    @cache
    def share(interval_ms: float) -> float:
        return float((course(at(interval_ms)).response_ms <= bound_ms).sum() / len(adapted))

    mean_ms = float((times.predict_ms + times.adapt_ms).mean())
    too_short_ms, holds_ms = _bracket(mean_ms, lambda interval_ms: share(interval_ms) >= needed)
    if holds_ms is None:
        return Peak(0.0, why=f"at no rate are {percent:g} % of the arrivals answered in time")
    bounded = too_short_ms > mean_ms
    offline = None if times.history_free else course(Offline().resolve(num_batches=len(adapted)))
    promises = {"history_free": times.history_free, "stateless": times.stateless}
    ways = [route(at(one), offline, **promises) for one in (holds_ms, too_short_ms)[: 1 + bounded]]
    why_live = next((way.why for way in ways if way.kind == LIVE), None)
    return Peak(
        1000.0 / holds_ms,
        share(holds_ms),
        mean_ms / holds_ms,
        REPLAYED if why_live is None else APPROXIMATE,
        why_live or ("" if bounded else "limited by throughput, not by the response time"),
    )


def _bracket(mean_ms: float, holds: Callable[[float], bool]) -> tuple[float, float | None]:
    """Return the longest mean interval that is too short, and the shortest that holds, next to each other."""
    too_short_ms, holds_ms = mean_ms, 2 * mean_ms
    for _ in range(MOST_DOUBLINGS):
        if holds(holds_ms):
            break
        too_short_ms, holds_ms = holds_ms, 2 * holds_ms
    else:
        return too_short_ms, None
    for _ in range(HALVINGS):
        middle_ms = (too_short_ms + holds_ms) / 2
        if holds(middle_ms):
            holds_ms = middle_ms
        else:
            too_short_ms = middle_ms
    return too_short_ms, holds_ms


def _times(results: Results, rows: pd.DataFrame, streams: Iterable[tuple[str, int, int]]) -> Times | str:
    """Return the times of one method over all streams, from its offline passes; or why there are none."""
    resolved = Deployment(arrivals="on_completion", residuals=True).resolve(num_batches=1)
    traces, passes = [], []
    for shift, seed, batches in streams:
        own = rows[(rows["shift"] == shift) & (rows["seed"] == seed)]
        if own.empty:
            return f"it has no offline pass on {shift}, seed {seed}"
        key = str(own["adapting_pass"].iloc[0])
        passes.append(results.folder.stored(key))
        traces.append(results.folder.trace(key, predictions=False).on_device(resolved))
        if traces[-1].num_batches != batches:
            return "its passes are not as long as the table of the run says: run the same command again"
    predict_ms, adapt_ms = (
        np.concatenate([getattr(trace, name) for trace in traces]) for name in ("predict_ms", "adapt_ms")
    )
    adapted = np.concatenate([trace.phase == ADAPTED for trace in traces])
    adapt_ms = np.where(adapted, adapt_ms, np.nan_to_num(adapt_ms))
    if not np.isfinite(predict_ms + adapt_ms).all():
        return "its offline passes were not timed"
    if not (predict_ms + adapt_ms).any():
        return "its clock says that it takes no time"
    return Times(
        predict_ms,
        adapt_ms,
        adapted,
        all(stored.history_free for stored in passes),
        all(stored.stateless for stored in passes),
        any(stored.time_aware for stored in passes),
        any(map(varies, traces)),
    )


def _offline(results: Results, question: Question) -> pd.DataFrame:
    utilities = results.contenders
    finished = (utilities["status"] == "ok") & (utilities["batches"] > 0)
    rows = utilities[is_offline(utilities, results.cards) & finished]
    if rows.empty:
        raise TemporaError(
            "the run has no finished offline pass to take times from: let it finish, then ask again"
        )
    return of_shifts(rows, question.shifts) if question.shifts else rows


def _bound(question: Question) -> tuple[float, float]:
    """Return the share of arrivals, in percent, and the time within which it is to be answered."""
    bounds = question.limits_ms
    if len(bounds) > 1 or (bounds and question.availability is not None):
        raise TemporaError(
            "the highest rate has one limit: give p99_ms, or p95_ms, p90_ms or availability; or say at which pace"
        )
    if not bounds:
        return 100.0 * float(question.availability or 1.0), math.inf
    percent, bound_ms = next(iter(bounds.items()))
    return float(percent), bound_ms
