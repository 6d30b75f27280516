"""The one timeline that every scenario runs on.

`Timeline` is driven step by step: it says which batch comes next, when it starts and whether it adapts; it is
told how long that took; it answers whether the batch stands. A live pass drives it with measured times,
`replaying.replay` with known ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import _validate as check
from tempora_tta.scenarios._validate import BoolArray, FloatArray
from tempora_tta.scenarios.course import Course, course_of
from tempora_tta.scenarios.feeds import NEVER_BUSY_MS, Feed, Pickup, Schedule

FREE, CHARGED = "free", "charged"
_ADAPTED, _FROZEN, _FALLBACK = range(3)


class Turn(NamedTuple):
    """The next turn of the pipeline."""

    batch: int
    arrived_ms: float
    start_ms: float
    adapting: bool
    timed: bool
    """False: this batch's times have no use (the frozen tail of a stream that waits); record NaN."""
    fallback: bool = False
    """True: the pipeline lost this batch, and the fallback answers it, from `start_ms` on."""
    along: tuple[int, ...] = ()
    """Frames that are answered at once with it."""

    @property
    def batches(self) -> tuple[int, ...]:
        """All that the turn answers, together."""
        return self.batch, *self.along


class Timeline:
    """Places one stream on the clock of a deployment.

    >>> from tempora_tta.scenarios import Discrete
    >>> timeline = Discrete(interval_ms=40).resolve(num_batches=3).timeline()
    >>> while (turn := timeline.next()) is not None:
    ...     print(turn.batch, turn.start_ms, timeline.record(predict_ms=50, adapt_ms=50))
    0 0.0 True
    2 100.0 True

    A live system does not know its arrivals beforehand: it starts from `timeline(live=True)`, tells each by `offer`,
    and asks for the next turn when the pipeline is free and something has arrived.
    """

    def __init__(
        self,
        feed: Feed,
        budget: Budget,
        untimed_tail: bool = False,
        fallback: str | None = None,
        at_once: bool = False,
    ) -> None:
        """`at_once`: a turn answers all frames that wait, as far as the feed lets it."""
        self.feed, self.at_once = feed, at_once
        self.budget = budget
        self._untimed_tail = untimed_tail
        self._fallback = fallback
        """`free`, `charged` or None: what it costs to answer lost batches."""
        self._rescued = feed if fallback is not None and isinstance(feed, Schedule) else None
        self._emission_ms = self._finish_ms = NEVER_BUSY_MS
        self._adapt_ms = 0.0
        self._pickup: Pickup | None = None
        self._along: Sequence[Pickup] = ()
        self.adapting = self.falling_back = False
        """The batch picked up may be adapted on, or is answered by the fallback."""
        self._answered = 0
        """Number of lost batches that the fallback has answered."""
        self._turn_ends = 0
        """Number that it will have answered when its present turn ends."""
        self._pickups: list[Pickup] = []
        self._predicts_ms: list[float] = []
        self._adapts_ms: list[float] = []
        self._phases: list[int] = []

    @property
    def is_plain(self) -> bool:
        """A schedule without budget and fallback: nothing but times and queue decides who is served."""
        endless = math.isinf(self.budget.budget_ms)
        return isinstance(self.feed, Schedule) and not self.at_once and self._rescued is None and endless

    @property
    def in_hand(self) -> tuple[int, ...]:
        """Batches that the present turn answers."""
        first = () if self._pickup is None else (self._pickup,)
        return tuple(pickup.batch for pickup in (*first, *self._along))

    @property
    def spent_ms(self) -> float:
        return self.budget.spent_ms

    @property
    def free_ms(self) -> float:
        """Time at which the pipeline is, or was, done with what was recorded so far."""
        return self._finish_ms

    @property
    def budget_left_ms(self) -> float:
        return max(0.0, self.budget.budget_ms - self.budget.spent_ms)

    def waiting(self, now_ms: float, emitted: bool = False) -> int:
        """Count the batches that wait at `now_ms`, while the one in hand is predicted already (`emitted`) or not."""
        return self.feed.waiting(now_ms, emitted)

    def next_arrival_ms(self, now_ms: float, interval_ms: float) -> float:
        """The next arrival after `now_ms` of a schedule with this interval; what comes after the last that is known
        keeps to it."""
        return self.schedule.next_arrival_ms(now_ms, interval_ms)

    def offer(self, arrived_ms: float) -> int:
        """A batch has arrived; returns its number. For live systems, whose arrivals are not known beforehand.

        An arrival at the very instant of a completion is offered before the completion is recorded.
        """
        schedule = self.schedule
        number = schedule.offer(arrived_ms)
        if self._pickup is not None and self._pickup.start_ms == arrived_ms:
            schedule.admit_until(
                arrived_ms, busy=True
            )  # an idle pipeline has just taken the first of this instant
        return number

    def lost(self, now_ms: float, after: int = 0) -> list[tuple[int, float]]:
        """Batches lost before `now_ms`, and their times, in order of loss, while the pipeline is busy until then.

        `after`: skip this many, which the caller already has.
        """
        schedule = self.schedule
        schedule.admit_before(now_ms)
        return list(zip(schedule.evicted[after:], schedule.lost_ms[after:], strict=True))

    def forget(self) -> None:
        """Let go of all that is over (of losses: that the fallback answered, or, without one, all): a live system may
        run for months. Its `course` then holds no more than what is left."""
        lost = len(self.feed.evicted)
        self.schedule.forget(lost if self._rescued is None else self._answered)
        for rows in (self._pickups, self._predicts_ms, self._adapts_ms, self._phases):
            del rows[:-1]

    def resume(self, spent_ms: float) -> None:
        """Go on with a budget of which at least so much was spent before: a restart refunds nothing."""
        self.budget.spent_ms = max(self.budget.spent_ms, spent_ms)

    @property
    def schedule(self) -> Schedule:
        if not isinstance(self.feed, Schedule):
            raise RuntimeError("batches of a closed loop come by themselves: nothing to offer, nothing lost")
        return self.feed

    def next(self) -> Turn | None:
        """The batch to serve now, or None when there is none, or none known yet."""
        batch = self.advance()
        if batch is None or self._pickup is None:
            return None
        timed = self.adapting or self.falling_back or not self._untimed_tail
        return Turn(
            batch,
            self._pickup.arrived_ms,
            self._pickup.start_ms,
            self.adapting,
            timed,
            self.falling_back,
            self.in_hand[1:],
        )

    def record(self, predict_ms: float, adapt_ms: float, adapted: bool | None = None) -> bool:
        """Tell how long the turn took. True: it stands.

        False (`strict` only): it overran the budget, so undo it, predict it frozen and record that instead;
        the attempt enters no timeline. `adapted=False` says that the method had frozen itself although it was
        allowed to adapt.
        """
        untimed = self._untimed_tail and not (self.adapting or self.falling_back)
        if not (untimed or (0 <= predict_ms < math.inf and 0 <= adapt_ms < math.inf)):
            raise TemporaError(
                f"predict_ms={predict_ms}, adapt_ms={adapt_ms}: times are finite milliseconds, 0 or above"
            )
        return self.record_known(predict_ms, adapt_ms, adapted)

    def record_known(self, predict_ms: float, adapt_ms: float, adapted: bool | None = None) -> bool:
        """Replays, whose times were checked together, call this directly."""
        pickup = self._pickup
        if pickup is None:
            raise RuntimeError("nothing to record: call next() first")
        service_ms = predict_ms + adapt_ms
        adapting = self.adapting if adapted is None else self.adapting and adapted
        if adapting and not self.budget.charge(service_ms, 1 + len(self._along)):
            self.adapting = False
            return False
        if not (self.falling_back and self._fallback == FREE):
            start_ms = pickup.start_ms
            self._emission_ms = start_ms + predict_ms
            self._finish_ms = start_ms + service_ms
            self._adapt_ms = adapt_ms
        self._pickup = None
        phase = _FALLBACK if self.falling_back else _ADAPTED if adapting else _FROZEN
        for answered in (pickup, *self._along):
            self._pickups.append(answered)
            self._predicts_ms.append(predict_ms)
            self._adapts_ms.append(0.0)
            self._phases.append(phase)
        self._adapts_ms[-1] = adapt_ms  # after the answer to all of them
        return True

    def advance(self) -> int | None:
        """Pick the next batch up; its index, or None. `next` says more of it, which replays know."""
        if self._pickup is not None:
            raise RuntimeError(f"batch {self._pickup.batch} was handed out and not recorded yet")
        pickup = None if self._rescued is None else self._lost_batch(self._rescued)
        self.falling_back = pickup is not None
        self._along = ()
        if pickup is None:
            pickup = self.feed.take(self._emission_ms, self._adapt_ms, self._finish_ms)
            self._along = self.feed.along
        self._pickup = pickup
        self.adapting = not self.falling_back and self.budget.allows_adaptation
        return None if pickup is None else pickup.batch

    def _lost_batch(self, feed: Schedule) -> Pickup | None:
        """The lost batch that the fallback answers now, if it is its turn.

        Free: every one, at the instant of its loss, outside the pipeline. Charged: a turn answers all that were lost
        up to its start; then a batch that waits is served, and only then, or if none waits, comes the next turn.
        """
        free_ms = self._finish_ms
        if self._answered == self._turn_ends:
            feed.admit_until(free_ms)
            turn_over = self._fallback == CHARGED and self._phases[-1:] == [_FALLBACK]
            if self._answered == len(feed.evicted) or (turn_over and feed.ready(free_ms)):
                return None
            if self._fallback == CHARGED:
                feed.admit_until(free_ms, busy=True)
            self._turn_ends = len(feed.evicted)
        batch, lost_ms = feed.evicted[self._answered], feed.lost_ms[self._answered]
        self._answered += 1
        arrived_ms, start_ms = feed.arrived(batch), free_ms if self._fallback == CHARGED else lost_ms
        return Pickup(batch, arrived_ms, start_ms, start_ms - arrived_ms, forced=False)

    def course(self) -> Course:
        """The course so far, as arrays."""
        phases = np.array(self._phases, dtype=np.int64)
        rows = np.array(self._pickups, dtype=np.float64).reshape(-1, len(Pickup._fields))
        served, arrived_ms, start_ms, wait_ms, forced = np.ascontiguousarray(rows.T)
        return course_of(
            num_batches=self.feed.known,
            served=served.astype(np.int64),
            evicted=np.array(list(self.feed.evicted), dtype=np.int64),
            arrived_ms=arrived_ms,
            start_ms=start_ms,
            wait_ms=wait_ms,
            forced=forced.astype(bool),
            predict_ms=np.array(self._predicts_ms),
            adapt_ms=np.array(self._adapts_ms),
            adapted=phases == _ADAPTED,
            fallback=phases == _FALLBACK,
            apart=(phases == _FALLBACK) & (self._fallback == FREE),
            spent_ms=self.budget.spent_ms,
        )


# -- the budget of overhead (the paper's amortised protocol) --------------------------------------------------


class Budget:
    """Charges each adapting batch with its overhead, max(0, service - baseline), until the budget is used up.

    `strict` (the paper's equation, with costs clipped at 0) never exceeds the budget: the batch that would is undone.
    `overshoot` adapts while less than the budget is spent, which any live system can follow.
    """

    def __init__(self, budget_ms: float, baseline_ms: float | None, rule: str) -> None:
        self.budget_ms = budget_ms
        self.spent_ms = 0.0
        self._baseline_ms = math.inf if baseline_ms is None else baseline_ms
        self._strict = rule == "strict"
        self._exhausted = False

    @property
    def undoes(self) -> bool:
        """Tell whether a batch may turn out not to fit after it ran."""
        return self._strict

    @property
    def allows_adaptation(self) -> bool:
        if self._strict:
            return not self._exhausted
        return self.spent_ms < self.budget_ms

    def charge(self, service_ms: float, batches: int = 1) -> bool:
        """Charge an adapted batch, or frames that were answered together. False (`strict`): it does not fit, is not
        charged and must be undone."""
        spent_ms = self.spent_ms + max(0.0, service_ms - batches * self._baseline_ms)
        if self._strict and spent_ms > self.budget_ms:
            self._exhausted = True
            return False
        self.spent_ms = spent_ms
        return True

    def afforded(self, service_ms: FloatArray, adapted: BoolArray) -> BoolArray:
        """Charge a whole stream at once: which of its batches may adapt, the first ones up to some batch.

        The same sums in the same order as `charge` batch by batch. `adapted`: those that want to.
        """
        may, spent_ms = afforded(
            service_ms, adapted, self.budget_ms, self._baseline_ms, "strict" if self._strict else "overshoot"
        )
        count = int(may.sum())
        self.spent_ms = float(spent_ms[count - 1]) if count else 0.0
        return may


def afforded(
    service_ms: FloatArray,
    adapted: BoolArray,
    budget_ms: float | FloatArray,
    baseline_ms: float | FloatArray,
    rule: str,
) -> tuple[BoolArray, FloatArray]:
    """Find the batches of a stream (or of many, a row each) that the budget lets adapt, and its sum after each."""
    overhead_ms = np.fmax(0.0, service_ms - baseline_ms)
    spent_ms = np.cumsum(np.where(adapted, overhead_ms, 0.0), axis=-1)
    if rule == "strict":
        overruns = adapted & (spent_ms > budget_ms)
    else:
        before_ms = np.concatenate([np.zeros_like(spent_ms[..., :1]), spent_ms[..., :-1]], axis=-1)
        overruns = before_ms >= budget_ms
    return ~np.logical_or.accumulate(overruns, axis=-1), spent_ms


def budget_cutoff(service_ms: ArrayLike, baseline_ms: float, budget_ms: float, rule: str = "strict") -> int:
    """The cut-off m: how many batches of a stream adapt before the budget freezes the model.

    >>> budget_cutoff([100, 100, 100], baseline_ms=40, budget_ms=100)
    1
    >>> budget_cutoff([100, 100, 100], baseline_ms=40, budget_ms=100, rule="overshoot")
    2
    """
    budget = Budget(
        check.non_negative("budget_ms", budget_ms),
        check.positive("baseline_ms", baseline_ms),
        check.budget_rule(rule),
    )
    services = check.times("service_ms", service_ms).tolist()
    for cutoff, service in enumerate(services):
        if not (budget.allows_adaptation and budget.charge(service)):
            return cutoff
    return len(services)
