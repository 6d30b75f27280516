"""A deployment: when batches arrive, how many may wait, what a response is worth, how much overhead may be spent, and
who answers the batches that are lost.

`Deployment` holds the knobs as the user gave them, absolute or relative to lambda; `resolve` puts lambda in
and gives a `Resolved` deployment, whose timeline a pass or a replay is driven by. The paper's three
archetypes (archetypes.py) are settings of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tempora_tta.errors import TemporaError, counted, unknown, wrong
from tempora_tta.scenarios import _validate as check
from tempora_tta.scenarios._validate import FloatArray
from tempora_tta.scenarios.arrivals import Arrivals, Periodic, Recorded, from_plain
from tempora_tta.scenarios.cards import ScenarioCard
from tempora_tta.scenarios.course import Course
from tempora_tta.scenarios.replaying import replay
from tempora_tta.scenarios.resolved import Resolved
from tempora_tta.scenarios.timeline import CHARGED, FREE
from tempora_tta.scenarios.utility import Score

CLOSED_LOOPS = ("on_completion", "on_prediction")
FALLBACKS = LATEST, STANDARD = ("latest", "standard")
COSTS = (FREE, CHARGED)


class Scenario(ABC):
    """Anything that can be run and scored: a `Deployment`, or an archetype that stands for one."""

    protocol: ClassVar[str]
    parameter: ClassVar[str]
    """The knob that this protocol varies, under its name in milliseconds; empty where there is none."""
    card: ClassVar[ScenarioCard | None] = None
    """How it is called, ordered and explained; what it leaves out follows from protocol and parameter."""

    def full_card(self) -> ScenarioCard:
        """The card with every field filled."""
        return ScenarioCard.of(self.protocol, self.parameter, self.card)

    def value(self, resolved: Resolved) -> float | None:
        """The parameter in numbers: of the deployment where it has such a knob, else the scenario's own."""
        if not self.parameter:
            return None
        found = getattr(resolved, self.parameter, None)
        found = getattr(self, self.parameter, None) if found is None else found
        return None if found is None else float(found)

    @abstractmethod
    def deployment(self) -> Deployment:
        """The deployment behind the scenario."""

    @property
    @abstractmethod
    def label(self) -> str:
        """A short name for tables and axes, as the user gave the parameter: `ρ 50 %`, `T 100 ms`, `B 1 s`."""

    def resolve(
        self, *, num_batches: int, baseline_ms: float | None = None, seed: int = 2025, shift: str = ""
    ) -> Resolved:
        """Put numbers into every knob: relative ones need lambda (`baseline_ms`), random arrivals are drawn from the
        run's seed and the shift."""
        return self.deployment().resolve(
            num_batches=num_batches, baseline_ms=baseline_ms, seed=seed, shift=shift
        )

    def not_applicable(self, baseline_ms: float) -> str | None:
        """Why the scenario has no meaning at this lambda (its threshold is not above it), or None."""
        threshold_ms = self.deployment().threshold(baseline_ms)
        return None if threshold_ms > baseline_ms else _threshold_message(threshold_ms, baseline_ms)

    def misfit(self, num_batches: int) -> str | None:
        """Why the scenario cannot be had on a stream of so many batches (its recorded times end before), or None."""
        schedule = self.deployment().schedule
        return schedule.too_short(num_batches) if isinstance(schedule, Recorded) else None


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
    card = ScenarioCard(title="Deployment", situation="A deployment of your own", place=4)

    arrivals: str | Arrivals | Mapping[str, Any] | Sequence[float] | None = None
    """`on_completion`, `on_prediction`; Periodic, Poisson, Bursty or Recorded; or arrival times in ms. Leave it out
    with an interval or a utilisation, which mean Periodic."""
    interval_ms: float | None = None
    utilisation: float | None = None
    """lambda / interval."""
    queue: int = 1
    threshold_ms: float | None = None
    threshold_x: float | None = None
    """T / lambda."""
    deadline_ms: float | None = None
    """D: a response later than this is worth nothing."""
    deadline_x: float | None = None
    """D / lambda."""
    budget_ms: float | None = None
    budget_x: float | None = None
    """B / (lambda N)."""
    budget_baselines: float | None = None
    """B / lambda."""
    rule: str = "overshoot"
    fallback: str | None = None
    """Who answers a lost batch: `latest` (the method's last state, frozen) or `standard`; None: nobody."""
    fallback_cost: str | None = None
    """`free` (default): on a device of its own. `charged`: on this pipeline, whenever it becomes free."""
    residuals: bool | None = None
    """Whether the device's own variation counts; None: where the tail is the answer (deadlines, queue 0)."""
    name: str | None = None
    """Replaces the label."""

    def __post_init__(self) -> None:
        self._check_arrivals()
        self._check_fallback()
        check.name(self.name)
        check.queue_length(self.queue)
        check.budget_rule(self.rule)
        check.at_most_one(
            threshold_ms=self.threshold_ms,
            threshold_x=self.threshold_x,
            deadline_ms=self.deadline_ms,
            deadline_x=self.deadline_x,
        )
        check.at_most_one(
            budget_ms=self.budget_ms, budget_x=self.budget_x, budget_baselines=self.budget_baselines
        )
        for name in ("threshold_ms", "threshold_x", "budget_ms", "budget_x", "budget_baselines"):
            if (value := getattr(self, name)) is not None:
                check.non_negative(name, value)
        for name in ("deadline_ms", "deadline_x"):
            if (value := getattr(self, name)) is not None and check.non_negative(name, value) == 0:
                raise wrong(name, value, "must be above 0, or nothing is ever in time")
        if self.has_budget and self.rule == "strict" and self.arrivals != "on_completion":
            raise TemporaError(
                "rule='strict' with arrivals that do not wait: strict knows what a batch will cost before it "
                "runs, which no live system can; use rule='overshoot', or arrivals='on_completion'"
            )

    def _check_fallback(self) -> None:
        if self.fallback is None:
            if self.fallback_cost is not None:
                raise TemporaError(
                    f"fallback_cost={self.fallback_cost!r} without a fallback: say who answers lost batches, "
                    "fallback='latest' or 'standard'",
                    about="fallback_cost",
                )
        elif self.fallback not in FALLBACKS:
            raise unknown("fallback", str(self.fallback), FALLBACKS, about="fallback")
        elif self.fallback_cost not in (None, *COSTS):
            raise unknown("fallback_cost", str(self.fallback_cost), COSTS, about="fallback_cost")
        if not (self.residuals is None or isinstance(self.residuals, bool)):
            raise wrong(
                "residuals", self.residuals, "must be true or false; leave it out to let Tempora choose"
            )

    def _check_arrivals(self) -> None:
        if isinstance(self.arrivals, str):
            if self.arrivals not in CLOSED_LOOPS:
                allowed = [*CLOSED_LOOPS, "or give interval_ms, or times"]
                raise unknown("arrivals", self.arrivals, allowed, about="arrivals")
        elif isinstance(self.arrivals, Mapping):
            object.__setattr__(self, "arrivals", from_plain(self.arrivals))
        elif not (self.arrivals is None or isinstance(self.arrivals, Arrivals)):
            times = check.arrival_times(self.arrivals)
            object.__setattr__(self, "arrivals", tuple(times.tolist()))
        check.at_most_one(arrivals=self.arrivals, interval_ms=self.interval_ms, utilisation=self.utilisation)
        if self.arrivals is None and self.interval_ms is None and self.utilisation is None:
            raise TemporaError(
                "Deployment: say when batches arrive: interval_ms=, utilisation=, arrivals=Poisson(...) or another "
                "schedule or recorded times, or arrivals='on_prediction' or 'on_completion'"
            )
        if self.interval_ms is not None:
            check.positive("interval_ms", self.interval_ms)
        if self.utilisation is not None:
            check.positive("utilisation", self.utilisation, "it is lambda / interval, 1 when saturated")

    @property
    def waits(self) -> bool:
        """The stream waits for the pipeline, so that nothing is ever lost."""
        return isinstance(self.arrivals, str)

    @property
    def schedule(self) -> Arrivals | None:
        """When batches arrive by themselves; None where the stream waits."""
        if isinstance(self.arrivals, str):
            return None
        if isinstance(self.arrivals, Arrivals):
            return self.arrivals
        if isinstance(self.arrivals, tuple):
            return Recorded(self.arrivals)
        return Periodic(interval_ms=self.interval_ms, utilisation=self.utilisation)

    @property
    def has_budget(self) -> bool:
        budgets = (self.budget_ms, self.budget_x, self.budget_baselines)
        return any(budget is not None and math.isfinite(budget) for budget in budgets)

    @property
    def label(self) -> str:
        if self.name is not None:
            return self.name
        schedule = self.schedule
        parts = [
            str(self.arrivals) if schedule is None else schedule.label,
            None if schedule is None or self.queue == 1 else f"queue {self.queue}",
            threshold_label(self.threshold_ms, self.threshold_x),
            _deadline_label(self.deadline_ms, self.deadline_x),
            budget_label(self.budget_ms, self.budget_x, self.budget_baselines),
            None if self.fallback is None else f"fallback {self.fallback}",
            CHARGED if self.fallback_cost == CHARGED else None,
        ]
        return ", ".join(part for part in parts if part)

    def deployment(self) -> Deployment:
        return self

    def threshold(self, baseline_ms: float | None) -> float:
        """T in milliseconds; infinite without a threshold."""
        if self.threshold_ms is not None:
            return float(self.threshold_ms)
        if self.threshold_x is not None:
            return self.threshold_x * check.baseline(baseline_ms, "threshold_x")
        return math.inf

    def _deadline(self, baseline_ms: float | None) -> float:
        if self.deadline_x is not None:
            return self.deadline_x * check.baseline(baseline_ms, "deadline_x")
        return math.inf if self.deadline_ms is None else float(self.deadline_ms)

    def resolve(
        self, *, num_batches: int, baseline_ms: float | None = None, seed: int = 2025, shift: str = ""
    ) -> Resolved:
        check.count("num_batches", num_batches)
        if baseline_ms is not None:
            check.positive("baseline_ms", baseline_ms, "it is lambda, the latency of standard inference")
        threshold_ms = self.threshold(baseline_ms)
        if math.isfinite(threshold_ms):
            lambda_ms = check.baseline(baseline_ms, "threshold_ms")
            if threshold_ms <= lambda_ms:
                raise TemporaError(_threshold_message(threshold_ms, lambda_ms))
        deadline_ms = self._deadline(baseline_ms)
        schedule = self.schedule
        times = None if schedule is None else schedule.times(num_batches, seed, shift, baseline_ms)
        by_default = math.isfinite(deadline_ms) or (schedule is not None and self.queue == 0)
        return Resolved(
            arrivals=str(self.arrivals) if schedule is None else "scheduled",
            arrivals_ms=None if times is None else tuple(times.tolist()),
            interval_ms=None if schedule is None else schedule.mean_interval(baseline_ms),
            periodic=isinstance(schedule, Periodic) and not schedule.jitter,
            queue=self.queue,
            threshold_ms=threshold_ms,
            deadline_ms=deadline_ms,
            budget_ms=self._budget(baseline_ms, num_batches),
            rule=self.rule,
            baseline_ms=baseline_ms,
            num_batches=num_batches,
            fallback=self.fallback,
            fallback_cost=self.fallback_cost or FREE,
            residuals=by_default if self.residuals is None else self.residuals,
        )

    def _budget(self, baseline_ms: float | None, num_batches: int) -> float:
        if not self.has_budget:
            return math.inf
        lambda_ms = check.baseline(baseline_ms, "a budget")
        if self.budget_x is not None:
            return self.budget_x * lambda_ms * num_batches
        if self.budget_baselines is not None:
            return self.budget_baselines * lambda_ms
        assert self.budget_ms is not None
        return float(self.budget_ms)

    def score(
        self,
        *,
        accuracy: ArrayLike,
        predict_ms: ArrayLike,
        adapt_ms: ArrayLike = 0.0,
        frozen_accuracy: ArrayLike | None = None,
        frozen_ms: ArrayLike | None = None,
        baseline_ms: float | None = None,
        fallback_accuracy: ArrayLike | None = None,
        fallback_ms: ArrayLike | None = None,
        seed: int = 2025,
        shift: str = "",
    ) -> Score:
        """Replay a stream whose times and accuracies are known, per batch index (a number means a constant).

        A replay is exact when the method's predictions do not depend on which batches were served before
        (`history_free`); for the others it is what would happen if they did not.
        """
        accuracies = check.series("accuracy", accuracy)
        count = accuracies.size
        frozen = None if frozen_accuracy is None else check.series("frozen_accuracy", frozen_accuracy, count)
        rescued = (
            None if fallback_accuracy is None else check.series("fallback_accuracy", fallback_accuracy, count)
        )
        resolved = self.resolve(num_batches=count, baseline_ms=baseline_ms, seed=seed, shift=shift)
        if isinstance(self.arrivals, tuple):
            check.series("arrivals", self.arrivals, count)
        course = replay(
            resolved.timeline(),
            check.times("predict_ms", predict_ms, count),
            check.times("adapt_ms", adapt_ms, count),
            None if frozen_ms is None else check.times("frozen_ms", frozen_ms, count),
            fallback_ms=None if fallback_ms is None else check.times("fallback_ms", fallback_ms, count),
        )
        untimed = np.isnan(course.predict_ms)
        if (untimed & course.fallback).any():
            raise TemporaError(
                "fallback_ms: needed, since the fallback takes that long to answer lost batches"
            )
        if not resolved.untimed_tail and untimed.any():
            raise TemporaError("frozen_ms: needed, since frozen batches occupy this deployment's pipeline")
        return resolved.score(course, _served_accuracy(course, accuracies, frozen, rescued))


def _served_accuracy(
    course: Course, accuracies: FloatArray, frozen: FloatArray | None, rescued: FloatArray | None
) -> FloatArray:
    """Accuracy of each served batch: of the adapting model, of the frozen one, or of the fallback."""
    served = check.fractions("accuracy", accuracies)[course.served]
    for name, values, where, why in (
        (
            "frozen_accuracy",
            frozen,
            ~course.adapted & ~course.fallback,
            f"the budget freezes the model after {counted(course.cutoff, 'batch')}",
        ),
        ("fallback_accuracy", rescued, course.fallback, "the fallback answers batches that were lost"),
    ):
        if not where.any():
            continue
        if values is None:
            raise TemporaError(f"{name}: needed, since {why}")
        used = check.fractions(name, np.where(where, values[course.served], 0.0))
        served = np.where(where, used, served)
    return served


def threshold_label(threshold_ms: float | None, threshold_x: float | None) -> str | None:
    if threshold_ms is not None:
        return f"T {_ms(threshold_ms)}"
    return None if threshold_x is None else f"T {threshold_x:g}λ"


def _deadline_label(deadline_ms: float | None, deadline_x: float | None) -> str | None:
    if deadline_ms is not None:
        return f"D {_ms(deadline_ms)}"
    return None if deadline_x is None else f"D {deadline_x:g}λ"


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


_percent = check.percent


def _threshold_message(threshold_ms: float, baseline_ms: float) -> str:
    return (
        f"threshold_ms={threshold_ms:g} is not above baseline_ms={baseline_ms:g}: standard inference itself "
        "would be late; choose a threshold above lambda, or threshold_x above 1"
    )
