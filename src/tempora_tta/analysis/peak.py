"""The peak rate: how many batches per second a method can take and still answer nearly all of them in time.

As MLPerf's server scenario asks: arrivals are Poisson, and a rate counts if 99 % of all arrivals, pooled over at
least 1,000, are answered within the bound; a lost batch is never answered. The streams of a run follow each other,
each with arrivals of its own, and the queue goes over from one to the next. If there are too few of them they come
again, with other arrivals. Rates nest: a higher one is the same pattern, faster, and the same for every method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta.analysis.cells import is_offline
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.tails import FloatArray, tail_note, varies
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import order
from tempora_tta.scenarios import Course, Deployment, Offline, Poisson, Recorded, Resolved, replay, route
from tempora_tta.scenarios.grids import SERVER_QUEUE
from tempora_tta.scenarios.routes import LIVE
from tempora_tta.store import ADAPTED, Results

LEAST_ARRIVALS = 1000
"""That a share of 99 % is told from."""
MOST_DOUBLINGS = 30
HALVINGS = 10
"""Of the range that holds the peak: it is found within a thousandth."""
REPLAYED, APPROXIMATE, NONE = "replayed", "approximate", "none"

_STREAM = ["shift", "seed"]


@dataclass(frozen=True)
class Streams:
    """The streams of a run one after the other, and again until there are enough, each with its own arrivals."""

    parts: tuple[tuple[str, int, FloatArray], ...]
    """Shift, seed, and when the batches arrive, in mean intervals from the stream's start."""
    repeats: int

    @classmethod
    def of(cls, rows: pd.DataFrame) -> Streams:
        """Those that the rows are about, with Poisson arrivals."""
        known = rows.drop_duplicates(_STREAM)
        found = [(str(row["shift"]), int(row["seed"]), int(row["batches"])) for _, row in known.iterrows()]
        repeats = -(-LEAST_ARRIVALS // sum(batches for _, _, batches in found))
        parts = []
        for again in range(repeats):
            for shift, seed, batches in found:
                drawn_for = f"{shift}, again {again}" if again else shift
                parts.append((shift, seed, Poisson(interval_ms=1.0).times(batches, seed, drawn_for)))
        return cls(tuple(parts), repeats)

    @property
    def once(self) -> list[tuple[str, int]]:
        """Shift and seed of each stream."""
        return [(shift, seed) for shift, seed, _ in self.parts[: len(self.parts) // self.repeats]]

    @property
    def count(self) -> int:
        """Of all arrivals."""
        return sum(len(times) for _, _, times in self.parts)

    @cached_property
    def unit_times(self) -> FloatArray:
        """All arrivals, in mean intervals."""
        starts = np.cumsum([0.0, *(times[-1] for _, _, times in self.parts)])
        return np.concatenate(
            [start + times for start, (_, _, times) in zip(starts, self.parts, strict=False)]
        )


@dataclass(frozen=True)
class Times:
    """How long each batch of a method takes, stream after stream, with the device's own variation."""

    predict_ms: FloatArray
    adapt_ms: FloatArray
    adapted: NDArray[np.bool_]
    history_free: bool = False
    stateless: bool = False
    time_aware: bool = False
    varying: bool = True
    """The device's own variation is known."""

    @property
    def service_ms(self) -> FloatArray:
        return self.predict_ms + self.adapt_ms

    def repeated(self, streams: Streams) -> Times:
        """As often as the streams come."""
        times = streams.repeats
        return replace(
            self,
            predict_ms=np.tile(self.predict_ms, times),
            adapt_ms=np.tile(self.adapt_ms, times),
            adapted=np.tile(self.adapted, times),
        )


@dataclass(frozen=True)
class Peak:
    """The peak rate of one method."""

    rate_hz: float | None
    """Batches per second; 0: no rate keeps the bound; None: this run cannot say."""
    share: float | None
    """Of the arrivals, answered within the bound at that rate."""
    utilisation: float | None
    """How busy the method's own pipeline is at that rate."""
    answer: str
    """replayed (exact), approximate, or none."""
    why: str


@dataclass(frozen=True)
class Peaks:
    """The peak rates of a run's methods."""

    table: pd.DataFrame
    """One row per method, the fastest first: `method`, `rate_hz`, `samples_per_s`, `share`, `utilisation`, `answer`,
    `why`."""
    percent: float
    bound_ms: float
    queue: int
    arrivals: int
    """Pooled behind each number."""
    repeats: int
    """How often each stream came, with other arrivals each time."""
    tail: str
    """What to know about the slowest responses, such as `queueing only`; empty where the device's own are in them."""


def highest_rates(results: Results, question: Question) -> Peaks:
    """Return the highest Poisson rate of each method at which the asked share of all arrivals is answered in time.

    Rates are replayed from the offline passes. A rate is approximate where `route` says that it needs live passes.
    """
    percent, bound_ms = _bound(question)
    rows = _offline(results)
    if question.shifts:
        rows = rows[rows["shift"].isin(question.shifts)]
    arrivals = Streams.of(rows)
    found, varying = [], True
    for method in sorted(rows["method"].unique(), key=order):
        own = rows[rows["method"] == method]
        times = _times(results, own, arrivals)
        if question.memory_mb is not None and not own["memory_mb"].max() <= question.memory_mb:
            times = f"its memory is not known to be within {question.memory_mb:g} MB"
        if isinstance(times, str):
            answer = Peak(None, None, None, NONE, times)
        else:
            answer = highest_rate(times, arrivals, percent, bound_ms, SERVER_QUEUE)
            varying = varying and times.varying
        found.append({"method": method, **vars(answer)})
    table = pd.DataFrame(found)
    numbers = ["rate_hz", "share", "utilisation"]
    table[numbers] = table[numbers].astype(float)
    table.insert(2, "samples_per_s", table["rate_hz"] * int(results.manifest["batch_size"]))
    table = table.sort_values("rate_hz", ascending=False, kind="stable", ignore_index=True)
    tail = tail_note(results, max(question.limits_ms), varying) if question.limits_ms else ""
    return Peaks(table, percent, bound_ms, SERVER_QUEUE, arrivals.count, arrivals.repeats, tail)


def highest_rate(times: Times, streams: Streams, percent: float, bound_ms: float, queue: int) -> Peak:
    """The peak rate of one method, by bisection of the mean interval.

    A rate that the pipeline cannot sustain is none, however long the queue: the mean interval is longer than the mean
    service. The peak is exact if both it and the next higher rate, which fails, are.
    """
    if times.time_aware:
        return Peak(None, None, None, NONE, "it looks at the clock, so every rate is a run of its own")
    needed = percent / 100
    if float((times.predict_ms <= bound_ms).mean()) < needed:
        slowest = float(np.percentile(times.predict_ms, percent, method="inverted_cdf"))
        return Peak(
            0.0,
            None,
            None,
            REPLAYED,
            f"even without a queue p{percent:g} is {slowest:.1f} ms, above {bound_ms:g}",
        )
    rates = _Rates(times, streams, bound_ms, queue)
    mean_ms = float(times.service_ms.mean())
    too_short_ms, holds_ms = _bracket(mean_ms, lambda interval_ms: rates.share(interval_ms) >= needed)
    if holds_ms is None:
        return Peak(
            0.0, None, None, REPLAYED, f"at no rate are {percent:g} % of the arrivals answered in time"
        )
    bounded = too_short_ms > mean_ms
    reasons = [rates.why_live(interval_ms) for interval_ms in (holds_ms, too_short_ms)[: 1 + bounded]]
    why_live = next(filter(None, reasons), None)
    return Peak(
        1000.0 / holds_ms,
        rates.share(holds_ms),
        mean_ms / holds_ms,
        REPLAYED if why_live is None else APPROXIMATE,
        why_live or ("" if bounded else "limited by throughput, not by the response time"),
    )


class _Rates:
    """One method at any rate: the share of all arrivals that is answered within the bound."""

    def __init__(self, times: Times, streams: Streams, bound_ms: float, queue: int) -> None:
        self._times, self._streams = times.repeated(streams), streams
        self._bound_ms, self._queue = bound_ms, queue
        self._shares: dict[float, float] = {}
        offline = Offline().resolve(num_batches=streams.count)
        self._offline = self._course(offline)

    def share(self, interval_ms: float) -> float:
        if interval_ms not in self._shares:
            course = self._course(self._deployment(self._streams.unit_times * interval_ms))
            in_time = int((course.response_ms <= self._bound_ms).sum())
            self._shares[interval_ms] = in_time / course.num_batches
        return self._shares[interval_ms]

    def why_live(self, interval_ms: float) -> str | None:
        """Why a replay need not be what would happen at this interval; None if it is."""
        way = route(
            self._deployment(self._streams.unit_times * interval_ms),
            None if self._times.history_free else self._offline,
            history_free=self._times.history_free,
            stateless=self._times.stateless,
            time_aware=self._times.time_aware,
        )
        return way.why if way.kind == LIVE else None

    def _course(self, resolved: Resolved) -> Course:
        times = self._times
        return replay(resolved.timeline(), times.predict_ms, times.adapt_ms, times.predict_ms, times.adapted)

    def _deployment(self, arrivals_ms: FloatArray) -> Resolved:
        deployment = Deployment(arrivals=Recorded(arrivals_ms), queue=self._queue, residuals=True)
        return deployment.resolve(num_batches=len(arrivals_ms))


def _bracket(mean_ms: float, holds: Callable[[float], bool]) -> tuple[float, float | None]:
    """The longest mean interval that is too short, and the shortest that holds, next to each other."""
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


def _times(results: Results, rows: pd.DataFrame, streams: Streams) -> Times | str:
    """Of one method over all streams, from its offline passes; or why there are none."""
    resolved = Deployment(arrivals="on_completion", residuals=True).resolve(num_batches=1)
    traces, passes = [], []
    for shift, seed in streams.once:
        own = rows[(rows["shift"] == shift) & (rows["seed"] == seed)]
        if own.empty:
            return f"it has no offline pass on {shift}, seed {seed}"
        key = str(own["adapting_pass"].iloc[0])
        passes.append(results.folder.stored(key))
        traces.append(results.folder.trace(key, predictions=False).on_device(resolved))
    predict_ms, adapt_ms = (
        np.concatenate([getattr(trace, name) for trace in traces]) for name in ("predict_ms", "adapt_ms")
    )
    adapted = np.concatenate([trace.phase == ADAPTED for trace in traces])
    adapt_ms = np.where(adapted, adapt_ms, np.nan_to_num(adapt_ms))
    if len(predict_ms) * streams.repeats != streams.count:
        return "its passes are not as long as the table of the run says: run the same command again"
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


def _offline(results: Results) -> pd.DataFrame:
    utilities = results.contenders
    finished = (utilities["status"] == "ok") & (utilities["batches"] > 0)
    rows = utilities[is_offline(utilities, results.cards) & finished]
    if rows.empty:
        raise TemporaError(
            "the run has no finished offline pass to take times from: let it finish, then ask again"
        )
    return rows


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
