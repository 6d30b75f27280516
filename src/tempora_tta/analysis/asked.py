"""The deployment that somebody asks about, from the few numbers that describe it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from tempora_tta._own_code import is_own
from tempora_tta.analysis.requirements import Requirements
from tempora_tta.errors import TemporaError, unknown
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
from tempora_tta.scenarios.grids import SERVER_QUEUE
from tempora_tta.store import Results

PACES = ("interval_ms", "fps", "rate_hz")
"""Knobs that say how batches arrive."""
RESOURCES_ONLY = "resources"
"""What is asked where nothing but energy and memory is limited."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A deployment as it is asked for: exactly one of these says what it is."""

    interval_ms: float | None = None
    """A batch arrives every so many ms."""
    fps: float | None = None
    """Frames per second of each camera."""
    rate_hz: float | None = None
    """So many batches per second on average, at random (Poisson)."""
    threshold_ms: float | None = None
    """An answer is worth half when it takes this long."""
    budget_s: float | None = None
    """Seconds of overhead that may be spent."""
    scenario: str | Scenario | None = None
    """One of the run's own by its label, `module:Class`, or a scenario."""
    cameras: int = 1
    """How many cameras share the pipeline, with `fps`."""
    queue: int | None = None
    """Batches that may wait where they come at a pace; 1, or 16 at random."""

    def of(self, results: Results, required: Requirements, spell: Callable[[str], str] = str) -> Scenario:
        """The scenario. Without one, what is `required` of responses is asked of random arrivals at half of what
        standard inference could take; limits on nothing but energy and memory, of a stream that waits. `spell`
        writes a knob as the user did."""
        given = self._which(required, spell)
        if given == RESOURCES_ONLY:
            return Offline()
        if given == "scenario":
            return _named(results, self.scenario)
        if given == "threshold_ms":
            return Continuous(threshold_ms=self.threshold_ms)
        if given == "budget_s":
            assert self.budget_s is not None
            return Amortised(budget_ms=1000 * self.budget_s, rule=_rule(results))
        if given == "rate_hz":
            arrivals = Poisson(utilisation=0.5) if self.rate_hz is None else Poisson(rate_hz=self.rate_hz)
            return Deployment(arrivals=arrivals, queue=SERVER_QUEUE if self.queue is None else self.queue)
        return Discrete(
            interval_ms=self._interval_ms(results, spell), queue=1 if self.queue is None else self.queue
        )

    def _which(self, required: Requirements, spell: Callable[[str], str]) -> str:
        choices = [field.name for field in fields(self) if field.name not in ("cameras", "queue")]
        given = [name for name in choices if getattr(self, name) is not None]
        if not given and required.given:
            given = ["rate_hz" if required.of_responses else RESOURCES_ONLY]
        if len(given) != 1:
            several = f"{' and '.join(map(spell, given))} are different deployments"
            what = several if given else "no deployment given"
            raise TemporaError(f"{what}: say one of {', '.join(map(spell, choices))}")
        for knob, value, paces in (
            ("cameras", self.cameras, ("fps",)),
            ("queue", 1 if self.queue is None else self.queue, PACES),
        ):
            if value != 1 and given[0] not in paces:
                raise TemporaError(
                    f"{spell(knob)} {value}: only with {' or '.join(map(spell, paces))}; leave it out with "
                    f"{spell(given[0])}"
                )
        return given[0]

    def _interval_ms(self, results: Results, spell: Callable[[str], str]) -> float | None:
        if self.fps is None:
            return self.interval_ms
        if not (self.fps > 0 and self.cameras > 0):
            raise TemporaError(
                f"{spell('fps')} {self.fps:g} {spell('cameras')} {self.cameras}: both must be above 0"
            )
        return float(1000 * results.manifest["batch_size"] / (self.fps * self.cameras))


def _named(results: Results, scenario: str | Scenario | None) -> Scenario:
    """The scenario that the run calls so, or a user's class with its defaults."""
    if isinstance(scenario, Scenario):
        return scenario
    by_label = {one.label: one for one in results.scenarios}
    if scenario in by_label:
        return by_label[scenario]
    if isinstance(scenario, str) and is_own(scenario):
        return from_spec(scenario)
    raise unknown("scenario of this run", str(scenario), by_label)


def _rule(results: Results) -> str:
    """The budget rule that the run uses."""
    budgets = [scenario.deployment() for scenario in results.scenarios if scenario.deployment().has_budget]
    waiting = [deployment.rule for deployment in budgets if deployment.arrivals == "on_completion"]
    return waiting[0] if waiting else Amortised.rule
