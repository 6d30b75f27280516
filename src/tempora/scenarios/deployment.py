"""A deployment: when batches arrive, how many may wait, how value decays, how much overhead may be spent.

`Deployment` holds the knobs as the user gave them, absolute or relative to lambda; `resolve` puts lambda in
and gives a `Resolved` deployment, whose timeline a pass or a replay is driven by. The paper's three
archetypes (archetypes.py) are settings of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tempora.errors import TemporaError, unknown
from tempora.scenarios import _validate as check
from tempora.scenarios._validate import FloatArray
from tempora.scenarios.budget import Budget
from tempora.scenarios.feeds import ClosedLoop, Feed, Schedule
from tempora.scenarios.timeline import Course, Timeline, replay
from tempora.scenarios.utility import Score, score_course

CLOSED_LOOPS = ("on_completion", "on_prediction")


@dataclass(frozen=True)
class Resolved:
    """A deployment with numbers in every knob, over a stream of `num_batches`."""

    arrivals: str
    """`on_completion`, `on_prediction` or `scheduled`."""
    arrivals_ms: tuple[float, ...] | None
    interval_ms: float | None
    queue: int
    threshold_ms: float
    budget_ms: float
    rule: str
    baseline_ms: float | None
    num_batches: int

    @property
    def untimed_tail(self) -> bool:
        """Nobody needs the times of frozen batches when the stream waits and value does not decay."""
        return self.arrivals == "on_completion" and math.isinf(self.threshold_ms)

    def timeline(self) -> Timeline:
        """A fresh timeline at the start of the stream."""
        feed: Feed
        if self.arrivals_ms is not None:
            feed = Schedule(self.arrivals_ms, self.queue)
        else:
            feed = ClosedLoop(self.num_batches, on_prediction=self.arrivals == "on_prediction")
        budget = Budget(self.budget_ms, self.baseline_ms, self.rule)
        return Timeline(feed, budget, self.num_batches, self.untimed_tail)

    def score(self, course: Course, served_accuracy: FloatArray) -> Score:
        """Score a course; `served_accuracy` aligns with `course.served`."""
        return score_course(course, served_accuracy, self.threshold_ms, self.baseline_ms)


class Scenario(ABC):
    """Anything that can be run and scored: a `Deployment`, or an archetype that stands for one."""

    protocol: ClassVar[str]
    parameter: ClassVar[str]
    """The knob that this protocol varies, under its name in milliseconds; empty where there is none."""

    @abstractmethod
    def deployment(self) -> Deployment:
        """The deployment behind the scenario."""

    @property
    @abstractmethod
    def label(self) -> str:
        """A short name for tables and axes, as the user gave the parameter: `ρ 50 %`, `T 100 ms`, `B 1 s`."""

    def resolve(self, *, num_batches: int, baseline_ms: float | None = None) -> Resolved:
        """Put numbers into every knob; relative ones need lambda (`baseline_ms`)."""
        return self.deployment().resolve(num_batches=num_batches, baseline_ms=baseline_ms)

    def not_applicable(self, baseline_ms: float) -> str | None:
        """Why the scenario has no meaning at this lambda (its threshold is not above it), or None."""
        threshold_ms = self.deployment().threshold(baseline_ms)
        return None if threshold_ms > baseline_ms else _threshold_message(threshold_ms, baseline_ms)


@dataclass(frozen=True, kw_only=True)
class Deployment(Scenario):
    """The general deployment: any knobs together, each absolute or relative to lambda.

    Worked example: a camera with arrivals, patience and a budget.

    >>> camera = Deployment(interval_ms=60, queue=1, threshold_ms=100, budget_ms=100)
    >>> score = camera.score(accuracy=[0.5] * 8, predict_ms=42, adapt_ms=58,
    ...                      frozen_accuracy=[0.4] * 8, frozen_ms=38, baseline_ms=40)
    >>> round(score.utility, 6), score.terms["availability"], score.terms["spent_ms"]
    (0.33571, 0.875, 120.0)
    """

    protocol: ClassVar[str] = "deployment"
    parameter: ClassVar[str] = ""

    arrivals: str | Sequence[float] | None = None
    """`on_completion`, `on_prediction`, or recorded arrival times in ms; leave out with an interval."""
    interval_ms: float | None = None
    utilisation: float | None = None
    """lambda / interval."""
    queue: int = 1
    threshold_ms: float | None = None
    threshold_x: float | None = None
    """T / lambda."""
    budget_ms: float | None = None
    budget_x: float | None = None
    """B / (lambda N)."""
    budget_baselines: float | None = None
    """B / lambda."""
    rule: str = "overshoot"
    name: str | None = None
    """Replaces the label."""

    def __post_init__(self) -> None:
        self._check_arrivals()
        check.name(self.name)
        check.queue_length(self.queue)
        check.budget_rule(self.rule)
        check.at_most_one(threshold_ms=self.threshold_ms, threshold_x=self.threshold_x)
        check.at_most_one(
            budget_ms=self.budget_ms, budget_x=self.budget_x, budget_baselines=self.budget_baselines
        )
        for name in ("threshold_ms", "threshold_x", "budget_ms", "budget_x", "budget_baselines"):
            if (value := getattr(self, name)) is not None:
                check.non_negative(name, value)
        if self.has_budget and self.rule == "strict" and self.arrivals != "on_completion":
            raise TemporaError(
                "rule='strict' with arrivals that do not wait: strict knows what a batch will cost before it "
                "runs, which no live system can; use rule='overshoot', or arrivals='on_completion'"
            )

    def _check_arrivals(self) -> None:
        if isinstance(self.arrivals, str):
            if self.arrivals not in CLOSED_LOOPS:
                raise unknown("arrivals", self.arrivals, [*CLOSED_LOOPS, "or give interval_ms, or times"])
        elif self.arrivals is not None:
            times = check.arrival_times(self.arrivals)
            object.__setattr__(self, "arrivals", tuple(times.tolist()))
        check.at_most_one(arrivals=self.arrivals, interval_ms=self.interval_ms, utilisation=self.utilisation)
        if self.arrivals is None and self.interval_ms is None and self.utilisation is None:
            raise TemporaError(
                "Deployment: say when batches arrive: interval_ms=, utilisation=, recorded times in "
                "arrivals=, or arrivals='on_prediction' or 'on_completion'"
            )
        if self.interval_ms is not None:
            check.positive("interval_ms", self.interval_ms)
        if self.utilisation is not None:
            check.positive("utilisation", self.utilisation, "it is lambda / interval, 1 when saturated")

    @property
    def has_budget(self) -> bool:
        budgets = (self.budget_ms, self.budget_x, self.budget_baselines)
        return any(budget is not None and math.isfinite(budget) for budget in budgets)

    @property
    def label(self) -> str:
        if self.name is not None:
            return self.name
        parts = [
            None if self.interval_ms is None else f"γ {_ms(self.interval_ms)}",
            None if self.utilisation is None else f"ρ {_percent(self.utilisation)}",
            self.arrivals if isinstance(self.arrivals, str) else None,
            "recorded arrivals" if isinstance(self.arrivals, tuple) else None,
            None if isinstance(self.arrivals, str) or self.queue == 1 else f"queue {self.queue}",
            threshold_label(self.threshold_ms, self.threshold_x),
            budget_label(self.budget_ms, self.budget_x, self.budget_baselines),
        ]
        return ", ".join(part for part in parts if part)

    def deployment(self) -> Deployment:
        return self

    def threshold(self, baseline_ms: float | None) -> float:
        """T in milliseconds; infinite without a threshold."""
        if self.threshold_ms is not None:
            return float(self.threshold_ms)
        if self.threshold_x is not None:
            return self.threshold_x * _needed(baseline_ms, "threshold_x")
        return math.inf

    def resolve(self, *, num_batches: int, baseline_ms: float | None = None) -> Resolved:
        if num_batches < 1:
            raise TemporaError(f"num_batches={num_batches}: a stream has at least one batch")
        if baseline_ms is not None:
            check.positive("baseline_ms", baseline_ms, "it is lambda, the latency of standard inference")
        threshold_ms = self.threshold(baseline_ms)
        if math.isfinite(threshold_ms):
            lambda_ms = _needed(baseline_ms, "threshold_ms")
            if threshold_ms <= lambda_ms:
                raise TemporaError(_threshold_message(threshold_ms, lambda_ms))
        interval_ms = self._interval(baseline_ms)
        arrivals_ms = self._arrival_times(num_batches, interval_ms)
        return Resolved(
            arrivals=self.arrivals if isinstance(self.arrivals, str) else "scheduled",
            arrivals_ms=arrivals_ms,
            interval_ms=interval_ms,
            queue=self.queue,
            threshold_ms=threshold_ms,
            budget_ms=self._budget(baseline_ms, num_batches),
            rule=self.rule,
            baseline_ms=baseline_ms,
            num_batches=num_batches,
        )

    def _interval(self, baseline_ms: float | None) -> float | None:
        if self.utilisation is not None:
            return _needed(baseline_ms, "utilisation") / self.utilisation
        return None if self.interval_ms is None else float(self.interval_ms)

    def _budget(self, baseline_ms: float | None, num_batches: int) -> float:
        if not self.has_budget:
            return math.inf
        lambda_ms = _needed(baseline_ms, "a budget")
        if self.budget_x is not None:
            return self.budget_x * lambda_ms * num_batches
        if self.budget_baselines is not None:
            return self.budget_baselines * lambda_ms
        assert self.budget_ms is not None
        return float(self.budget_ms)

    def _arrival_times(self, num_batches: int, interval_ms: float | None) -> tuple[float, ...] | None:
        if interval_ms is not None:
            return tuple((np.arange(num_batches) * interval_ms).tolist())
        if isinstance(self.arrivals, tuple):
            if len(self.arrivals) < num_batches:
                raise TemporaError(
                    f"arrivals hold {len(self.arrivals)} times and the stream has {num_batches} batches: "
                    "record at least one time per batch"
                )
            return self.arrivals[:num_batches]
        return None

    def score(
        self,
        *,
        accuracy: ArrayLike,
        predict_ms: ArrayLike,
        adapt_ms: ArrayLike = 0.0,
        frozen_accuracy: ArrayLike | None = None,
        frozen_ms: ArrayLike | None = None,
        baseline_ms: float | None = None,
    ) -> Score:
        """Replay a stream whose times and accuracies are known, per batch index (a number means a constant).

        A replay is exact when the method's predictions do not depend on which batches were served before
        (`history_free`); for the others it is what would happen if they did not.
        """
        accuracies = check.series("accuracy", accuracy)
        count = accuracies.size
        frozen = None if frozen_accuracy is None else check.series("frozen_accuracy", frozen_accuracy, count)
        resolved = self.resolve(num_batches=count, baseline_ms=baseline_ms)
        if isinstance(self.arrivals, tuple):
            check.series("arrivals", self.arrivals, count)
        course = replay(
            resolved.timeline(),
            check.times("predict_ms", predict_ms, count),
            check.times("adapt_ms", adapt_ms, count),
            None if frozen_ms is None else check.times("frozen_ms", frozen_ms, count),
        )
        if not resolved.untimed_tail and np.isnan(course.finish_ms).any():
            raise TemporaError("frozen_ms: needed, since frozen batches occupy this deployment's pipeline")
        return resolved.score(course, _served_accuracy(course, accuracies, frozen))


def _served_accuracy(course: Course, accuracies: FloatArray, frozen: FloatArray | None) -> FloatArray:
    """Accuracy of each served batch: of the adapting model before the cut-off, of the frozen one after it."""
    served = check.fractions("accuracy", accuracies)[course.served]
    if course.adapted.all():
        return served
    if frozen is None:
        raise TemporaError(
            f"frozen_accuracy: needed, since the budget freezes the model after {course.cutoff} batches"
        )
    used = check.fractions("frozen_accuracy", np.where(course.adapted, 0.0, frozen[course.served]))
    return np.where(course.adapted, served, used)


def threshold_label(threshold_ms: float | None, threshold_x: float | None) -> str | None:
    if threshold_ms is not None:
        return f"T {_ms(threshold_ms)}"
    return None if threshold_x is None else f"T {threshold_x:g}λ"


def budget_label(
    budget_ms: float | None, budget_x: float | None, budget_baselines: float | None
) -> str | None:
    if budget_ms is not None:
        return f"B {budget_ms / 1000:g} s"
    if budget_x is not None:
        return f"B {_percent(budget_x)} of λN"
    return None if budget_baselines is None else f"B {budget_baselines:g}λ"


def _ms(value: float) -> str:
    return f"{value:g} ms"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


def _needed(baseline_ms: float | None, knob: str) -> float:
    if baseline_ms is None:
        raise TemporaError(f"baseline_ms: needed for {knob}; give lambda, the latency of standard inference")
    return check.positive("baseline_ms", baseline_ms, "it is lambda, the latency of standard inference")


def _threshold_message(threshold_ms: float, baseline_ms: float) -> str:
    return (
        f"threshold_ms={threshold_ms:g} is not above baseline_ms={baseline_ms:g}: standard inference itself "
        "would be late; choose a threshold above lambda, or threshold_x above 1"
    )
