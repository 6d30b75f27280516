"""The deployment that a user asks about, in the user's units, and the limits that a method has to keep there."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from tempora_tta._own_code import is_own
from tempora_tta.errors import TemporaError, unknown, wrong
from tempora_tta.scenarios import (
    Amortised,
    Continuous,
    Deployment,
    Discrete,
    Offline,
    Poisson,
    Scenario,
    from_spec,
)
from tempora_tta.scenarios.deployment import BATCH
from tempora_tta.scenarios.grids import SERVER_QUEUE
from tempora_tta.store import Results

RESOURCES = {
    "budget_j": ("overhead_j", "overhead", "J"),
    "memory_mb": ("memory_mb", "memory", "MB"),
}
"""Limit -> the column that it is about, its name and its unit."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A deployment and its limits. Knobs combine freely, but for two paces or two patiences.

    Args:
        interval_ms: milliseconds between batches.
        fps: frames per second of each camera. Frames are then what counts, each from its own arrival on.
        cameras: how many cameras share the pipeline, with `fps`.
        answer: `batch`, or, with `fps`, `at_once`: each frame as it comes, learning apart.
        rate_hz: images per second on average, in batches that arrive at random (Poisson).
        deadline_ms: an answer after this time is worth nothing.
        threshold_ms: an answer that takes this long is worth half.
        budget_s: seconds of computing that adapting may add.
        budget_x: the same as a share of plain computing time.
        queue: batches that may wait, with a pace; 1, or 16 with `rate_hz`.
        scenario: a scenario, the label of one of the run's own, or `module:Class`, instead of all of these.
        p90_ms: time within which 90 % of all arrivals are answered; likewise `p95_ms` and `p99_ms`.
        availability: least share of the arrivals that is answered at all.
        budget_j: joules that adapting may take over a stream.
        memory_mb: megabytes that the method may hold on the device, its network included.
        shifts: only these shifts of the run.
    """

    interval_ms: float | None = None
    fps: float | None = None
    cameras: int = 1
    answer: str = BATCH
    rate_hz: float | None = None
    deadline_ms: float | None = None
    threshold_ms: float | None = None
    budget_s: float | None = None
    budget_x: float | None = None
    queue: int | None = None
    scenario: str | Scenario | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    availability: float | None = None
    budget_j: float | None = None
    memory_mb: float | None = None
    shifts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shifts", tuple(self.shifts or ()))
        self._check_one_of("interval_ms", "fps", "rate_hz")
        self._check_one_of("deadline_ms", "threshold_ms")
        self._check_one_of("budget_s", "budget_x")
        described = [name for name in _KNOBS if getattr(self, name) is not None]
        if self.scenario is not None and (described or self.cameras != 1):
            raise TemporaError(
                f"scenario and {', '.join(described) or 'cameras'}: describe one deployment only"
            )
        if self.cameras != 1 and self.fps is None:
            raise TemporaError(
                f"cameras={self.cameras!r}: only with fps, which says how many frames each takes"
            )
        if self.answer != BATCH and self.fps is None:
            raise TemporaError(f"answer={self.answer!r}: only with fps, whose frames are answered")
        if self.queue is not None and not self.has_pace:
            raise TemporaError(
                f"queue={self.queue!r}: only with interval_ms, fps or rate_hz, when batches may wait"
            )
        for name in (*_KNOBS, "p90_ms", "p95_ms", "p99_ms"):
            value = getattr(self, name)
            if value is not None and name != "queue" and not 0 < value < math.inf:
                raise wrong(name, value, "must be a number above 0")
        if self.availability is not None and not 0 < self.availability <= 1:
            raise wrong("availability", self.availability, "is a share above 0, at most 1, as in 0.99")
        for name in RESOURCES:
            limit = getattr(self, name)
            if limit is not None and not 0 <= limit < math.inf:
                raise wrong(name, limit, "is a limit; give a number, 0 or above")

    def _check_one_of(self, *names: str) -> None:
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise TemporaError(
                f"{' and '.join(given)} are different deployments: say one of {', '.join(names)}"
            )

    @property
    def has_pace(self) -> bool:
        return any(getattr(self, name) is not None for name in ("interval_ms", "fps", "rate_hz"))

    @property
    def limits_ms(self) -> dict[int, float]:
        """Percentile -> milliseconds."""
        given = {90: self.p90_ms, 95: self.p95_ms, 99: self.p99_ms}
        return {percent: limit_ms for percent, limit_ms in given.items() if limit_ms is not None}

    @property
    def limited(self) -> bool:
        return bool(self.limits_ms) or any(
            getattr(self, name) is not None for name in ("availability", *RESOURCES)
        )

    @property
    def given(self) -> dict[str, Any]:
        """The question as plain data."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        kept = {
            name: value
            for name, value in known.items()
            if value not in (None, ()) and (name, value) not in (("cameras", 1), ("answer", BATCH))
        }
        if isinstance(self.scenario, Scenario):
            kept["scenario"] = self.scenario.label
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}

    def deployment(self, results: Results) -> Scenario | None:
        """Return the scenario on this run's batches; None where only limits on responses are given."""
        if self.scenario is not None:
            return _named(results, self.scenario)
        budget_ms = None if self.budget_s is None else 1000.0 * self.budget_s
        patience: dict[str, Any] = {"deadline_ms": self.deadline_ms, "threshold_ms": self.threshold_ms}
        budget: dict[str, Any] = {"budget_ms": budget_ms, "budget_x": self.budget_x}
        patient = self.deadline_ms is not None or self.threshold_ms is not None
        budgeted = self.budget_s is not None or self.budget_x is not None
        if not self.has_pace:
            if budgeted and not patient:
                return Amortised(**budget, rule=_rule(results))
            if self.threshold_ms is not None and not budgeted:
                return Continuous(threshold_ms=self.threshold_ms)
            if patient:
                return Deployment(arrivals="on_prediction", **patience, **budget)
            if not self.limited:
                raise TemporaError(
                    "no deployment given: say when images come (fps, rate_hz, interval_ms), how long an answer may "
                    "take (deadline_ms, threshold_ms), what adapting may cost (budget_s), or a scenario"
                )
            return None if self.limits_ms or self.availability is not None else Offline()
        queue: dict[str, Any] = {} if self.queue is None else {"queue": self.queue}
        if self.interval_ms is not None and not patient and not budgeted:
            return Discrete(interval_ms=self.interval_ms, **queue)
        if self.rate_hz is not None:
            size = int(results.manifest["batch_size"])
            queue = queue or {"queue": SERVER_QUEUE}
            return Deployment(arrivals=Poisson(rate_hz=self.rate_hz / size), **queue, **patience, **budget)
        pace: dict[str, Any] = (
            {"interval_ms": self.interval_ms}
            if self.fps is None
            else {"fps": self.fps, "cameras": self.cameras, "answer": self.answer}
        )
        return Deployment(**pace, **queue, **patience, **budget)


_KNOBS = (*("interval_ms", "fps", "rate_hz", "deadline_ms", "threshold_ms", "budget_s", "budget_x", "queue"),)


def _named(results: Results, scenario: str | Scenario) -> Scenario:
    """Return the scenario that the run calls so, or a user's class with its defaults."""
    if isinstance(scenario, Scenario):
        return scenario
    by_label = {one.label: one for one in results.scenarios}
    if scenario in by_label:
        return by_label[scenario]
    if is_own(scenario):
        return from_spec(scenario)
    raise unknown("scenario of this run", scenario, by_label)


def _rule(results: Results) -> str:
    """Return the budget rule that the run uses."""
    budgets = [scenario.deployment() for scenario in results.scenarios if scenario.deployment().has_budget]
    waiting = [deployment.rule for deployment in budgets if deployment.waits]
    return waiting[0] if waiting else Amortised.rule
