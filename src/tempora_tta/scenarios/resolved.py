"""A deployment with numbers in every knob: what passes, replays and scores are driven by."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tempora_tta.errors import TemporaError
from tempora_tta.scenarios._validate import FloatArray
from tempora_tta.scenarios.course import Course, Score, Value, score_course
from tempora_tta.scenarios.feeds import ClosedLoop, Feed, Schedule
from tempora_tta.scenarios.timeline import FREE, Budget, Timeline

RANDOM = "random"


@dataclass(frozen=True)
class Resolved:
    """A deployment with numbers in every knob, over a stream of `num_batches`."""

    arrivals: str
    """`on_completion`, `on_prediction` or `scheduled`."""
    arrivals_ms: tuple[float, ...] | None
    interval_ms: float | None
    """The mean time between scheduled arrivals, where it is known."""
    queue: int
    threshold_ms: float
    deadline_ms: float
    budget_ms: float
    rule: str
    baseline_ms: float | None
    num_batches: int
    periodic: bool = False
    """The arrivals follow from the interval alone."""
    fallback: str | None = None
    """Model that answers lost batches: `latest`, `standard` or `random`; None: no model."""
    fallback_cost: str = FREE
    classes: int | None = None
    """Classes that a random fallback chooses from."""
    residuals: bool = False
    """A clock that knows the device's own variation applies it here."""
    waited_ms: tuple[float, ...] = (0.0,)
    """Time that each frame of a batch has waited when the batch arrives; of one given as such, its one."""
    at_once: int | None = None
    """Frames that are answered together at most, as they come, and learned from together; None: whole batches are
    answered, and learned from."""

    @property
    def waits(self) -> bool:
        """The stream waits for the pipeline, so that nothing is ever lost."""
        return self.arrivals_ms is None

    @property
    def has_budget(self) -> bool:
        return math.isfinite(self.budget_ms)

    @property
    def guesses(self) -> bool:
        """Lost batches are answered at random, in no time."""
        return self.fallback == RANDOM

    @property
    def chance(self) -> float:
        """Share of random answers that is right."""
        if self.classes is None:
            raise TemporaError("classes: needed with fallback='random'; give the number of classes")
        return 1 / self.classes

    @property
    def takes_standards_time(self) -> bool:
        """A model answers lost batches, in the time of standard inference."""
        return self.fallback is not None and not self.guesses

    @property
    def counts_frames(self) -> bool:
        """A batch holds several frames, each with a response of its own."""
        return len(self.waited_ms) > 1

    @property
    def value(self) -> Value:
        return Value(self.threshold_ms, self.deadline_ms, self.baseline_ms, self.waited_ms)

    @property
    def untimed_tail(self) -> bool:
        """The times of frozen batches have no use when the stream waits and value does not decay."""
        return self.arrivals == "on_completion" and not self.value.decays

    def stretched(self, factor: float) -> Resolved:
        """The same deployment in front of a device whose work takes `factor` times as long: all its times do, too."""
        return replace(
            self,
            arrivals_ms=None if self.arrivals_ms is None else tuple(factor * ms for ms in self.arrivals_ms),
            interval_ms=None if self.interval_ms is None else factor * self.interval_ms,
            threshold_ms=factor * self.threshold_ms,
            deadline_ms=factor * self.deadline_ms,
            budget_ms=factor * self.budget_ms,
            baseline_ms=None if self.baseline_ms is None else factor * self.baseline_ms,
            waited_ms=tuple(factor * ms for ms in self.waited_ms),
        )

    def timeline(self, live: bool = False) -> Timeline:
        """A fresh timeline at the start of the stream; `live`: its arrivals will be offered as they happen."""
        feed: Feed
        if self.arrivals_ms is not None:
            feed = Schedule(() if live else self.arrivals_ms, self.queue, live, self.at_once or 1)
        else:
            feed = ClosedLoop(self.num_batches, on_prediction=self.arrivals == "on_prediction")
        budget = Budget(self.budget_ms, self.baseline_ms, self.rule)
        fallback = self.fallback_cost if self.fallback else None
        return Timeline(feed, budget, self.untimed_tail, fallback, self.at_once is not None)

    def score(self, course: Course, right: FloatArray) -> Score:
        """Score a course. `right` aligns with `course.served`: accuracies, or (batches, samples) of what is right."""
        return score_course(course, right, self.value)
