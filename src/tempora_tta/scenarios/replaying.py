"""The course of a stream whose times are known: a timeline, driven to its end.

Where there is nothing to decide on the way (a stream that waits, a schedule without budget and fallback) the course
follows without the timeline's steps, to the same digits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tempora_tta.scenarios import _validate as check
from tempora_tta.scenarios._validate import BoolArray, FloatArray
from tempora_tta.scenarios.course import Course, course_of
from tempora_tta.scenarios.feeds import ClosedLoop, Schedule
from tempora_tta.scenarios.timeline import Budget, Timeline


def replay(
    timeline: Timeline,
    predict_ms: FloatArray,
    adapt_ms: FloatArray,
    frozen_ms: FloatArray | None = None,
    adapted: BoolArray | None = None,
    fallback_ms: FloatArray | None = None,
    in_order: bool = False,
) -> Course:
    """Drive a timeline with times known per batch; without `frozen_ms` frozen batches go untimed.

    `adapted` is False where a method froze itself although it was allowed to adapt. `in_order`: where frames are
    answered at once, `adapt_ms` is in the order of their answers, whichever these are.
    """
    if isinstance(timeline.feed, ClosedLoop):
        return _waiting(timeline, timeline.feed, predict_ms, adapt_ms, frozen_ms, adapted)
    if timeline.is_plain and not np.isnan(predict_ms + adapt_ms).any():
        return _scheduled(timeline, predict_ms, adapt_ms, adapted)
    return step_by_step(timeline, predict_ms, adapt_ms, frozen_ms, adapted, fallback_ms, in_order)


def step_by_step(
    timeline: Timeline,
    predict_ms: FloatArray,
    adapt_ms: FloatArray,
    frozen_ms: FloatArray | None = None,
    adapted: BoolArray | None = None,
    fallback_ms: FloatArray | None = None,
    in_order: bool = False,
) -> Course:
    """`replay` in the timeline's own steps: what the shorter ways are held to."""
    predicts, adapts = predict_ms.tolist(), adapt_ms.tolist()
    frozen = None if frozen_ms is None else frozen_ms.tolist()
    itself = None if adapted is None else adapted.tolist()
    rescues = None if fallback_ms is None else fallback_ms.tolist()
    advance, record = timeline.advance, timeline.record_known
    answered = 0
    while (batch := advance()) is not None:
        if timeline.adapting:
            adapting_ms = adapts[batch]
            if timeline.at_once:
                before, answered = answered, answered + len(timeline.in_hand)
                learning = range(before, answered) if in_order else timeline.in_hand
                adapting_ms = sum(adapts[frame] for frame in learning)
            if record(predicts[batch], adapting_ms, None if itself is None else itself[batch]):
                continue
        known = rescues if timeline.falling_back else frozen
        record(math.nan if known is None else known[batch], 0.0)
    return timeline.course()


def _waiting(
    timeline: Timeline,
    loop: ClosedLoop,
    predict_ms: FloatArray,
    adapt_ms: FloatArray,
    frozen_ms: FloatArray | None,
    adapted: BoolArray | None,
) -> Course:
    """The course of a stream that waits: nothing is lost, and each batch starts when the last one is done.

    The sums of the steps, in their order, so that not a digit differs.
    """
    count = loop.known
    willing = np.ones(count, dtype=bool) if adapted is None else adapted
    afforded = timeline.budget.afforded(predict_ms + adapt_ms, willing)
    predict_ms = np.where(afforded, predict_ms, np.nan if frozen_ms is None else frozen_ms)
    adapt_ms = np.where(afforded, adapt_ms, 0.0)
    start_ms = _after_first(np.cumsum(predict_ms + adapt_ms))
    waits = loop.on_prediction
    return course_of(
        num_batches=count,
        served=np.arange(count, dtype=np.int64),
        evicted=np.array([], dtype=np.int64),
        arrived_ms=_after_first(start_ms + predict_ms) if waits else start_ms,
        start_ms=start_ms,
        wait_ms=_after_first(adapt_ms) if waits else np.zeros(count),
        forced=np.zeros(count, dtype=bool),
        predict_ms=predict_ms,
        adapt_ms=adapt_ms,
        adapted=afforded & willing,
        spent_ms=timeline.spent_ms,
    )


def _scheduled(
    timeline: Timeline, predict_ms: FloatArray, adapt_ms: FloatArray, adapted: BoolArray | None
) -> Course:
    """The course of a schedule on which only times and queue decide who is served."""
    schedule = timeline.schedule
    arrivals_ms, service_ms = np.array(list(schedule.arrivals_ms)), predict_ms + adapt_ms
    starts_ms = _starts(service_ms.tolist(), arrivals_ms.tolist(), schedule.queue)
    served = np.array([batch for batch, start in enumerate(starts_ms) if start is not None], dtype=np.int64)
    start_ms = np.array([start for start in starts_ms if start is not None], dtype=np.float64)
    willing = np.ones(served.size, dtype=bool) if adapted is None else adapted[served]
    timeline.budget.afforded(service_ms[served], willing)
    arrived_ms = arrivals_ms[served]
    # Without a queue every start is of an idle pipeline, kept waiting by what it dropped before.
    forced = (np.diff(served, prepend=-1) > 1) & (schedule.queue == 0)
    return course_of(
        num_batches=arrivals_ms.size,
        served=served,
        evicted=np.setdiff1d(np.arange(arrivals_ms.size), served),
        arrived_ms=arrived_ms,
        start_ms=start_ms,
        wait_ms=start_ms - arrived_ms,
        forced=forced,
        predict_ms=predict_ms[served],
        adapt_ms=adapt_ms[served],
        adapted=willing,
        spent_ms=timeline.spent_ms,
    )


def _starts(service_ms: list[float], arrivals_ms: list[float], queue: int) -> list[float | None]:
    """Start of each batch, None where it is lost. Those that wait are neighbours, the oldest being `head`."""
    starts: list[float | None] = [None] * len(arrivals_ms)
    free_ms, taken_ms, head = -math.inf, -math.inf, 0
    for batch, arrived_ms in enumerate(arrivals_ms):
        while head < batch and free_ms < arrived_ms:
            starts[head] = free_ms
            free_ms += service_ms[head]
            head += 1
        # The instant in which the pipeline becomes free: who may wait queues, otherwise the first is taken.
        if free_ms < arrived_ms or (not queue and free_ms == arrived_ms and taken_ms < arrived_ms):
            starts[batch] = taken_ms = arrived_ms
            free_ms = arrived_ms + service_ms[batch]
            head = batch + 1
        elif batch + 1 - head > queue:
            head += 1
    for batch in range(head, len(arrivals_ms)):
        starts[batch] = free_ms
        free_ms += service_ms[batch]
    return starts


def serve(service_ms: ArrayLike, arrivals_ms: ArrayLike, queue: int = 1) -> Course:
    """Course of a single pipeline: which of the arriving batches it serves, and when.

    `service_ms` has one entry per arrival. Without a known boundary between prediction and adaptation the
    whole service counts as prediction.

    >>> course = serve([100, 100, 100, 100], [0, 40, 80, 120], queue=1)
    >>> course.served.tolist(), course.evicted.tolist(), course.start_ms.tolist()
    ([0, 2, 3], [1], [0.0, 100.0, 200.0])
    """
    arrivals = check.arrival_times(arrivals_ms)
    services = check.times("service_ms", service_ms, arrivals.size, like="arrivals_ms")
    feed = Schedule(arrivals.tolist(), check.queue_length(queue))
    timeline = Timeline(feed, Budget(math.inf, None, "overshoot"))
    return replay(timeline, services, np.zeros_like(services))


def _after_first(values: FloatArray) -> FloatArray:
    """Values of the batch before; 0 for the first."""
    return np.concatenate([[0.0], values[:-1]])


# -- many courses of one kind at once --------------------------------------------------------------------------


def serve_lanes(service_ms: FloatArray, arrivals_ms: FloatArray, queue: int) -> FloatArray:
    """Start of each batch in each lane, NaN where it is lost: (batches, lanes).

    What `Timeline` does in steps, without budget and fallback, to the same digits, for callers that ask thousands of
    times what other service times would have changed: a schedule, walked arrival by arrival for all lanes at once.

    service_ms: (batches, lanes). arrivals_ms: the same, or (batches, 1) where all lanes see the same arrivals.

    >>> serve_lanes(np.full((4, 1), 100.0), np.array([[0.0], [40.0], [80.0], [120.0]]), queue=1).ravel().tolist()
    [0.0, nan, 100.0, 200.0]
    """
    walk = _Walk(service_ms, queue)
    for batch, arrived_ms in enumerate(arrivals_ms):
        if queue:
            walk.serve_before(arrived_ms, batch)
            walk.admit(arrived_ms, batch)
        else:
            walk.take_or_drop(arrived_ms, batch)
    walk.serve_before(np.array([np.inf]), len(service_ms))
    return walk.start_ms


class _Walk:
    """The state of every lane. Batches that wait are neighbours: from `head` up to the last arrival."""

    def __init__(self, service_ms: FloatArray, queue: int) -> None:
        lanes = service_ms.shape[1]
        self.start_ms = np.full(service_ms.shape, np.nan)
        self._service_ms, self._queue = service_ms, queue
        self._free_ms = self._taken_ms = np.full(lanes, -np.inf)
        self._head = np.zeros(lanes, dtype=np.int64)

    def serve_before(self, now_ms: FloatArray, arrived: int) -> None:
        """Start those that wait, in lanes that become free before `now_ms`; `arrived`: how many came so far."""
        for _ in range(self._queue):
            lanes = np.flatnonzero((self._head < arrived) & (self._free_ms < now_ms))
            if not lanes.size:
                return
            heads, free_ms = self._head[lanes], self._free_ms[lanes]
            self.start_ms[heads, lanes] = free_ms
            self._free_ms[lanes] = free_ms + self._service_ms[heads, lanes]
            self._head[lanes] = heads + 1

    def admit(self, arrived_ms: FloatArray, batch: int) -> None:
        """An idle lane takes the arrival; elsewhere it queues, also where the lane becomes free this instant."""
        idle = self._free_ms < arrived_ms
        self._take(idle, arrived_ms, batch)
        self._head = np.where(idle, batch + 1, np.maximum(self._head, batch + 1 - self._queue))

    def take_or_drop(self, arrived_ms: FloatArray, batch: int) -> None:
        """Without a queue a lane that becomes free this instant takes the arrival, unless it took one of the same."""
        self._take((self._free_ms <= arrived_ms) & (self._taken_ms < arrived_ms), arrived_ms, batch)

    def _take(self, lanes: BoolArray, arrived_ms: FloatArray, batch: int) -> None:
        self.start_ms[batch] = np.where(lanes, arrived_ms, np.nan)
        self._taken_ms = np.where(lanes, arrived_ms, self._taken_ms)
        self._free_ms = np.where(lanes, arrived_ms + self._service_ms[batch], self._free_ms)
