"""A deployment: when batches arrive, how many may wait, what a response is worth, how much overhead may be spent, and
who answers the batches that are lost.

`Deployment` holds the knobs as the user gave them, absolute or relative to lambda; `resolve` puts lambda in
and gives a `Resolved` deployment, whose timeline a pass or a replay is driven by. The paper's three
archetypes (paper.py) are settings of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tempora_tta.errors import TemporaError, counted, unknown, wrong
from tempora_tta.scenarios import _validate as check
from tempora_tta.scenarios._validate import FloatArray
from tempora_tta.scenarios.arrivals import Arrivals, Frames, Periodic, Recorded, from_plain
from tempora_tta.scenarios.cards import ScenarioCard
from tempora_tta.scenarios.course import Course, Score
from tempora_tta.scenarios.replaying import replay
from tempora_tta.scenarios.resolved import RANDOM, Resolved
from tempora_tta.scenarios.timeline import CHARGED, FREE

CLOSED_LOOPS = ("on_completion", "on_prediction")
PACES = ("arrivals", "interval_ms", "utilisation", "fps")
"""Knobs that say when batches arrive; one of them does."""
LATEST, STANDARD = "latest", "standard"
FALLBACKS = (LATEST, STANDARD, RANDOM)
COSTS = (FREE, CHARGED)
BATCH, AT_ONCE = "batch", "at_once"
ANSWERS = (BATCH, AT_ONCE)
USUAL_SIZE = 64
"""Frames of a batch to learn from, where frames are answered at once and nothing else is said."""


class Scenario(ABC):
    """Anything that can be run and scored: a `Deployment`, or an archetype that stands for one."""

    protocol: ClassVar[str]
    parameter: ClassVar[str]
    """The knob that this protocol varies, under its name in milliseconds; empty where there is none."""
    card: ClassVar[ScenarioCard | None] = None
    """Name, order and explanation; fields that it leaves out follow from protocol and parameter."""

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
        self,
        *,
        num_batches: int,
        batch_size: int | None = None,
        baseline_ms: float | None = None,
        seed: int = 2025,
        shift: str = "",
    ) -> Resolved:
        """Put numbers into every knob: relative ones need lambda (`baseline_ms`), frames the run's `batch_size`;
        random arrivals are drawn from the run's seed and the shift."""
        return self.deployment().resolve(
            num_batches=num_batches, batch_size=batch_size, baseline_ms=baseline_ms, seed=seed, shift=shift
        )

    def not_applicable(self, baseline_ms: float) -> str | None:
        """Reason why the scenario has no meaning at this lambda (its threshold is not above it), or None."""
        threshold_ms = self.deployment().threshold(baseline_ms)
        return None if threshold_ms > baseline_ms else _threshold_message(threshold_ms, baseline_ms)

    def misfit(self, num_batches: int, batch_size: int) -> str | None:
        """Reason why a stream of this many batches of this size cannot have the scenario, or None.

        Its recorded times end before, or it counts the frames of batches of another size, or answers them at once.
        """
        deployment = self.deployment()
        if deployment.at_once:
            return None if batch_size == 1 else _at_once_message(batch_size)
        schedule = deployment.schedule
        if isinstance(schedule, Frames) and schedule.batch_size not in (None, batch_size):
            return _size_message(schedule.batch_size, batch_size)
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
    fps: float | None = None
    """Frames per second of each camera. Frames are then what counts: each has a response of its own, from its own
    arrival on, and a batch arrives when its last frame fills it."""
    cameras: int = 1
    """They take frames in turn, with `fps`."""
    batch_size: int | None = None
    """Frames of a batch, with `fps`. In a run it is the run's own, unless frames are answered at once."""
    answer: str = BATCH
    """`batch`, or, with `fps`, `at_once`: frames are answered as they come, by the frozen model, all that wait
    together, and learned from afterwards, whenever `batch_size` of them (64) were answered. In batches of 1 only."""
    queue: int = 1
    """Batches that may wait."""
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
    """Model that answers a lost batch: `latest` (the method's last state, frozen), `standard`, or `random`, which
    takes no time and is right as often as chance is; None: no model."""
    fallback_cost: str | None = None
    """`free` (default): on a device of its own. `charged`: on this pipeline, whenever it becomes free."""
    classes: int | None = None
    """Classes that a `random` answer chooses from. In a run they are the run's own."""
    residuals: bool | None = None
    """Count the device's own variation; None: where the tail is the answer (deadlines, queue 0)."""
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
        elif self.fallback == RANDOM and self.fallback_cost == CHARGED:
            raise TemporaError(
                "fallback_cost='charged' with fallback='random': random answers take no time; leave it out",
                about="fallback_cost",
            )
        if self.classes is not None:
            check.whole("classes", self.classes)
            if self.fallback != RANDOM:
                raise TemporaError(
                    f"classes={self.classes}: only a random fallback chooses from them; leave it out",
                    about="classes",
                )
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
        paces = {name: getattr(self, name) for name in PACES}
        check.at_most_one(**paces)
        if all(pace is None for pace in paces.values()):
            raise TemporaError(
                "Deployment: say when batches arrive: interval_ms=, utilisation=, fps= (frames), or arrivals= a "
                "schedule such as Poisson(...), recorded times, 'on_prediction' or 'on_completion'"
            )
        self._check_frames()
        if self.interval_ms is not None:
            check.positive("interval_ms", self.interval_ms)
        if self.utilisation is not None:
            check.positive("utilisation", self.utilisation, "it is lambda / interval, 1 when saturated")

    def _check_frames(self) -> None:
        if self.fps is not None:
            check.positive("fps", self.fps, "it is frames per second of each camera")
        for name, value, only in (("cameras", self.cameras, 1), ("batch_size", self.batch_size, None)):
            if value == only:
                continue
            check.whole(name, value)
            if self.fps is None:
                raise TemporaError(
                    f"{name}={value!r} without fps: say how many frames each camera takes in a second, fps=30, or "
                    f"leave {name} out",
                    about=name,
                )
        if self.answer not in ANSWERS:
            raise unknown("answer", str(self.answer), ANSWERS, about="answer")
        if self.at_once and self.fps is None:
            raise TemporaError(
                "answer='at_once' without fps: single frames are what is answered; say how many each camera takes in "
                "a second, fps=30, or leave answer out",
                about="answer",
            )

    @property
    def at_once(self) -> int | None:
        """Frames that are learned from together, where they are answered at once; else None."""
        return (self.batch_size or USUAL_SIZE) if self.answer == AT_ONCE else None

    @property
    def waits(self) -> bool:
        """The stream waits for the pipeline, so that nothing is ever lost."""
        return isinstance(self.arrivals, str)

    @property
    def schedule(self) -> Arrivals | None:
        """Arrivals of batches by themselves; None where the stream waits."""
        if isinstance(self.arrivals, str):
            return None
        if isinstance(self.arrivals, Arrivals):
            return self.arrivals
        if isinstance(self.arrivals, tuple):
            return Recorded(self.arrivals)
        if self.fps is not None:
            size = 1 if self.at_once else self.batch_size
            return Frames(fps=self.fps, cameras=self.cameras, batch_size=size)
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
            f"at once, learning from {self.at_once}" if self.at_once else None,
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

    def among(self, classes: int) -> Deployment:
        """Take the run's classes, where random answers choose from them."""
        if self.fallback != RANDOM or self.classes is not None:
            return self
        return replace(self, classes=classes)

    def _deadline(self, baseline_ms: float | None) -> float:
        if self.deadline_x is not None:
            return self.deadline_x * check.baseline(baseline_ms, "deadline_x")
        return math.inf if self.deadline_ms is None else float(self.deadline_ms)

    def in_batches_of(self, size: int | None) -> Deployment:
        """Take the run's batches: where frames count, a batch has `size` of them."""
        if self.fps is None or size is None:
            return self
        if self.batch_size not in (None, size):
            raise TemporaError(_size_message(self.batch_size, size), about="batch_size")
        return replace(self, batch_size=size)

    def resolve(
        self,
        *,
        num_batches: int,
        batch_size: int | None = None,
        baseline_ms: float | None = None,
        seed: int = 2025,
        shift: str = "",
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
        if self.at_once and batch_size not in (None, 1):
            raise TemporaError(_at_once_message(batch_size), about="answer")
        schedule = (self if self.at_once else self.in_batches_of(batch_size)).schedule
        times = None if schedule is None else schedule.times(num_batches, seed, shift, baseline_ms)
        by_default = math.isfinite(deadline_ms) or (schedule is not None and self.queue == 0)
        return Resolved(
            arrivals=str(self.arrivals) if schedule is None else "scheduled",
            arrivals_ms=None if times is None else tuple(times.tolist()),
            interval_ms=None if schedule is None else schedule.mean_interval(baseline_ms),
            periodic=isinstance(schedule, Frames) or (isinstance(schedule, Periodic) and not schedule.jitter),
            queue=self.queue * (self.at_once or 1),
            threshold_ms=threshold_ms,
            deadline_ms=deadline_ms,
            budget_ms=self._budget(baseline_ms, num_batches),
            rule=self.rule,
            baseline_ms=baseline_ms,
            num_batches=num_batches,
            fallback=self.fallback,
            fallback_cost=self.fallback_cost or FREE,
            classes=self.classes,
            residuals=by_default if self.residuals is None else self.residuals,
            waited_ms=schedule.waited_ms if isinstance(schedule, Frames) else (0.0,),
            at_once=self.at_once,
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
        accuracy: ArrayLike | None = None,
        predict_ms: ArrayLike,
        adapt_ms: ArrayLike = 0.0,
        frozen_accuracy: ArrayLike | None = None,
        frozen_ms: ArrayLike | None = None,
        baseline_ms: float | None = None,
        fallback_accuracy: ArrayLike | None = None,
        fallback_ms: ArrayLike | None = None,
        correct: ArrayLike | None = None,
        seed: int = 2025,
        shift: str = "",
    ) -> Score:
        """Replay a stream whose times and accuracies are known, per batch index (a number means a constant).

        A replay is exact when the method's predictions do not depend on which batches were served before
        (`history_free`); for the others it is what would happen if they did not.

        Accuracies are one number per batch. Instead of `accuracy`, `correct` says which samples are right: (batches,
        batch size) of booleans; the frozen and the fallback's accuracy may be given so, too. Where frames count, each
        is then right or wrong; with one number per batch every frame of it counts that. Where frames are answered at
        once, they come in the order of the array, `predict_ms` is the time of an answer, to any number of them, and
        `adapt_ms` that of learning, when the last of a batch was answered.

        >>> camera = Deployment(fps=10, batch_size=2, deadline_ms=60)
        >>> score = camera.score(correct=[[True, True], [False, True]], predict_ms=50)
        >>> score.utility, score.terms["responsiveness"], score.response_ms.tolist()
        (0.5, 0.5, [150.0, 50.0, 150.0, 50.0])
        """
        check.exactly_one("score", accuracy=accuracy, correct=correct)
        if correct is not None:
            right = check.right("correct", correct)
        else:
            assert accuracy is not None
            right = check.series("accuracy", accuracy)[:, None]
        count, shape = len(right), right.shape
        deployment = self if correct is None else self.in_batches_of(right.shape[1])
        frames = deployment.at_once or 1  # that are rows of their own
        right = _by_frame(right, frames)
        resolved = deployment.resolve(num_batches=len(right), baseline_ms=baseline_ms, seed=seed, shift=shift)
        if isinstance(self.arrivals, tuple):
            check.series("arrivals", self.arrivals, count)
        if resolved.guesses:
            fallback_ms, fallback_accuracy = 0.0, np.full(count, resolved.chance)
        answer_ms, frozen_each_ms, rescue_ms = (
            None if values is None else np.repeat(check.times(name, values, count), frames)
            for name, values in (
                ("predict_ms", predict_ms),
                ("frozen_ms", frozen_ms),
                ("fallback_ms", fallback_ms),
            )
        )
        assert answer_ms is not None
        learning_ms = np.zeros(len(right))
        learning_ms[frames - 1 :: frames] = check.times("adapt_ms", adapt_ms, count)
        course = replay(
            resolved.timeline(),
            answer_ms,
            learning_ms,
            frozen_each_ms,
            fallback_ms=rescue_ms,
            in_order=deployment.at_once is not None,
        )
        untimed = np.isnan(course.predict_ms)
        if (untimed & course.fallback).any():
            raise TemporaError(
                "fallback_ms: needed, since the fallback takes that long to answer lost batches"
            )
        if not resolved.untimed_tail and untimed.any():
            raise TemporaError("frozen_ms: needed, since frozen batches occupy this deployment's pipeline")
        frozen, rescued = (
            None if values is None else _by_frame(check.right(name, values, shape), frames)
            for name, values in (
                ("frozen_accuracy", frozen_accuracy),
                ("fallback_accuracy", fallback_accuracy),
            )
        )
        return resolved.score(course, _served_right(course, right, frozen, rescued))


def _by_frame(right: FloatArray, frames: int) -> FloatArray:
    """As many rows for each batch, of one frame."""
    return right if frames == 1 else np.broadcast_to(right, (len(right), frames)).reshape(-1, 1)


def _served_right(
    course: Course, right: FloatArray, frozen: FloatArray | None, rescued: FloatArray | None
) -> FloatArray:
    """Accuracy of each served batch: by the adapting model, by the frozen one, or by the fallback."""
    served = check.fractions("accuracy", right)[course.served]
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
        used = check.fractions(name, np.where(where[:, None], values[course.served], 0.0))
        served = np.where(where[:, None], used, served)
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


def _size_message(own: int | None, given: int) -> str:
    return (
        f"batch_size={own}: the batches have {given} images, and only a size that was run has an answer; run again "
        f"with batches of {own}, or leave batch_size out of the scenario"
    )


def _at_once_message(given: int | None) -> str:
    return (
        f"answer='at_once' takes single frames, and the batches have {given} images: run with batch_size 1 "
        "(--batch-size 1); the scenario's own batch_size says how many frames are learned from together"
    )


def is_relative(deployment: Deployment) -> bool:
    """Tell whether all times are multiples of lambda: ratios are then all that matters of a machine."""
    if deployment.fps is not None:
        return False
    try:
        once, twice = (
            deployment.resolve(num_batches=2, baseline_ms=baseline_ms) for baseline_ms in (1.0, 2.0)
        )
    except TemporaError:  # a threshold in milliseconds below one of them
        return False
    knobs = ("interval_ms", "threshold_ms", "deadline_ms", "budget_ms")
    pairs = [(getattr(once, knob, None), getattr(twice, knob, None)) for knob in knobs]
    pairs += zip(once.arrivals_ms or (), twice.arrivals_ms or (), strict=True)
    return all(first is None or second == 2 * first for first, second in pairs)
