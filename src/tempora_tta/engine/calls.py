"""Guarded calls into a method on a stream, their times from a clock, and what a time-aware method is told.

The guard is around the clock, never inside it: nothing done here next to a call is part of a measured time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from tempora_tta.data import Stream
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.contract import UNTOLD, adapt_at, checked_action, checked_scores, predict_at
from tempora_tta.methods.guard import Guard
from tempora_tta.scenarios import Resolved, Timeline, Turn
from tempora_tta.timing import Clock
from tempora_tta.timing.work import (
    ADAPT,
    FROZEN,
    NO_WORK,
    PREDICT,
    Owner,
    Phase,
    Piece,
    Work,
    at_once,
    work_of,
)


@dataclass
class Mean:
    """A running mean."""

    count: int = 0
    total: float = 0.0

    def add(self, value: float) -> None:
        self.count, self.total = self.count + 1, self.total + value

    @property
    def mean(self) -> float:
        return self.total / self.count


@dataclass
class Costs:
    """Mean times of a method's work so far, its warm-up included."""

    by_action: dict[str, Mean] = field(default_factory=dict)
    by_mode: dict[str, Mean] = field(default_factory=dict)

    def predicted(self, mode: str, predict_ms: float) -> None:
        """Count a prediction; `mode` is what `work` named, if it did."""
        if mode:
            self.by_mode.setdefault(mode, Mean()).add(predict_ms)

    def adapted(self, mode: str, action: str, adapt_ms: float) -> None:
        """Count an adaptation that returned `action`."""
        self.by_action.setdefault(action, Mean()).add(adapt_ms)
        if mode:
            self.by_mode.setdefault(mode, Mean()).add(adapt_ms)

    def copy(self) -> Costs:
        return Costs(
            *(
                {name: Mean(mean.count, mean.total) for name, mean in means.items()}
                for means in (self.by_action, self.by_mode)
            )
        )


@dataclass
class Calls:
    """Calls into one method: `predict` and `adapt` return results and times, the others are not timed."""

    method: Method
    label: str
    stream: Stream
    clock: Clock
    times_as: str = ""
    """The method whose recorded times stand for its own."""
    timeout_s: float | None = None
    """Longest time of one call into the method; None: any."""
    costs: Costs = field(default_factory=Costs, init=False)
    """Times of its work so far, for a time-aware method."""
    said: Work = field(default=NO_WORK, init=False)
    """Mode and amount of the last timed call, as the method declared them."""
    _warm_up_costs: Costs = field(default_factory=Costs, init=False)

    def warm_up(self, batches: int) -> None:
        """Predict and adapt on perturbed copies of the first batches, freeze once, then reset.

        A time-aware method is told from its first batch on what its work took here.
        """
        self._warm_up_costs = Costs()
        self.reset()  # what it is told must not depend on an earlier pass
        for index in range(min(batches, self.stream.num_batches)):
            x = 1.1 * self.stream.batch(index).flip(-1)
            if self.method.time_aware:
                _, predict_ms = self.predict(index, x, UNTOLD, self.method.frozen)
                mode = self.said[0]
                action, adapt_ms = self.adapt(index, UNTOLD)
                self._count(self._warm_up_costs, mode, predict_ms, action, adapt_ms)
            else:
                self.go_through(x)
        self.freeze()
        self.scores(self.stream.batch(0))
        self.reset()

    def begin(self) -> None:
        """Start a pass: a reset method that knows what its warm-up cost."""
        self.reset()
        self.costs = self._warm_up_costs.copy()

    def predict(self, index: int, x: Tensor, moment: Moment, frozen: bool = False) -> tuple[Tensor, float]:
        """The scores of the batch `x`, and the milliseconds that they took."""

        def piece(_: Tensor) -> Piece:
            predicted = self._piece(PREDICT, index, self._acted)
            return Piece(self._owner, FROZEN, index) if frozen and not at_once(predicted.mode) else predicted

        with self._guard("predict"):
            scores, predict_ms = self.clock.timed(lambda: predict_at(self.method, x, moment), piece)
        if not self.clock.looks_up:
            self._listen()
        return scores, predict_ms

    def adapt(self, index: int, moment: Moment) -> tuple[str, float]:
        """The action that the method took, and its milliseconds."""
        with self._guard("adapt"):
            action, adapt_ms = self.clock.timed(
                lambda: adapt_at(self.method, moment),
                lambda action: self._piece(ADAPT, index, checked_action(self.label, action)),
            )
        if not self.clock.looks_up:
            self._listen()
        return checked_action(self.label, action), adapt_ms

    def frozen_ms(self, index: int) -> float:
        """Milliseconds of a frozen prediction, under a clock that looks them up."""
        return self.clock.timed(lambda: None, lambda _: Piece(self._owner, FROZEN, index))[1]

    def scores(self, x: Tensor, moment: Moment = UNTOLD) -> Tensor:
        """Scores of a prediction that is not timed."""
        with self._guard("predict"):
            return predict_at(self.method, x, moment)

    def checked(self, scores: Tensor, samples: int) -> Tensor:
        """The scores, if there is one for every sample and class; else an error."""
        return checked_scores(
            self.label, scores, samples, self.stream.num_classes or self.method.model.num_classes
        )

    def go_through(self, x: Tensor) -> Tensor:
        """Predict and adapt, untimed; return the scores."""
        scores = self.scores(x)
        with self._guard("adapt"):
            adapt_at(self.method, UNTOLD)
        return scores

    def reset(self) -> None:
        with self._guard("reset"):
            self.method.reset()

    def freeze(self) -> None:
        with self._guard("freeze"):
            self.method.freeze()

    def snapshot(self) -> Any:
        with self._guard("snapshot"):
            return self.method.snapshot()

    def restore(self, saved: Any) -> None:
        with self._guard("restore"):
            self.method.restore(saved)

    def count(self, mode: str, predict_ms: float, action: str, adapt_ms: float) -> None:
        """Count the times of the batch just adapted on; `mode` is that of its prediction."""
        self._count(self.costs, mode, predict_ms, action, adapt_ms)

    def moment(
        self, now_ms: float, turn: Turn, timeline: Timeline, deployment: Resolved, emitted: bool = False
    ) -> Moment:
        """Return what a time-aware method may know while the pipeline works on a batch that is predicted or not."""
        return (
            moment_at(now_ms, turn, timeline, deployment, self.costs, emitted)
            if self.method.time_aware
            else UNTOLD
        )

    def _count(self, costs: Costs, mode: str, predict_ms: float, action: str, adapt_ms: float) -> None:
        costs.predicted(mode, predict_ms)
        # A prediction that holds the adaptation is what the action cost.
        costs.adapted(self.said[0], action, predict_ms + adapt_ms if self._owner.reforwards else adapt_ms)

    def _piece(self, phase: Phase, index: int, action: str) -> Piece:
        self._listen()
        return Piece(self._owner, phase, index, self.said[0], action, self.said[1])

    def _listen(self) -> None:
        """Take what the method declares about the call just made; it is forgotten there."""
        self.said = work_of(self.method)

    @property
    def _acted(self) -> str:
        """Return what predict() did besides predicting, of a method that adapts there."""
        return self.method.action_in_predict or ""

    @cached_property
    def _owner(self) -> Owner:
        _, at, runtime = self.label.partition("@")
        return Owner(
            self.times_as or self.label,
            self.times_as or self.method.name,
            frozen_as=f"standard{at}{runtime}" if self.method.stateless else "",
            free=self.method.untimed,
            gradient_based=self.method.family == "gradient-based",
            reforwards=self.method.action_in_predict is not None,
        )

    @cached_property
    def _guard(self) -> Guard:
        return Guard(self.label, self.timeout_s)


def moment_at(
    now_ms: float, turn: Turn, timeline: Timeline, deployment: Resolved, costs: Costs, emitted: bool
) -> Moment:
    """Return what a deployment knows at `now_ms`, working on a batch whose prediction is out (`emitted`) or not."""
    queued = timeline.waiting(now_ms, emitted)
    return Moment(
        now_ms=now_ms,
        arrived_ms=turn.arrived_ms,
        queued=queued,
        spent_ms=timeline.spent_ms,
        budget_left_ms=_finite(timeline.budget_left_ms),
        baseline_ms=deployment.baseline_ms,
        threshold_ms=_finite(deployment.threshold_ms),
        interval_ms=deployment.interval_ms,
        deadline_ms=_finite(deployment.deadline_ms),
        slack_ms=_slack_ms(now_ms, timeline, deployment, queued),
        cost_ms={action: cost.mean for action, cost in costs.by_action.items()},
        mode_cost_ms={mode: cost.mean for mode, cost in costs.by_mode.items()},
        queue=deployment.queue,
    )


def _slack_ms(now_ms: float, timeline: Timeline, deployment: Resolved, queued: int) -> float | None:
    """Time until the next arrival, where it can be known: of a periodic schedule, also past the end of the stream
    (a method cannot know the end); or of a user whose next batch is there as soon as the last is predicted."""
    if deployment.waits:
        return 0.0 if queued else None
    if not deployment.periodic or deployment.interval_ms is None:
        return None
    return max(0.0, timeline.next_arrival_ms(now_ms, deployment.interval_ms) - now_ms)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
