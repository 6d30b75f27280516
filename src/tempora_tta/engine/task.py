"""A task: all cells of one method on one stream, with as few passes as give the same results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tempora_tta.engine.job import deployment_identity
from tempora_tta.engine.observer import Stopped
from tempora_tta.engine.pass_maker import PassMaker, PassMissing
from tempora_tta.engine.passes import BudgetWatch, Pass
from tempora_tta.engine.plan import rough_cost
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.guard import MethodTimedOut
from tempora_tta.scenarios import Offline, Resolved, Scenario, route
from tempora_tta.scenarios.deployment import is_relative
from tempora_tta.store import Cell, StoredPass, Trace, pass_key
from tempora_tta.store.atomic import CannotWrite
from tempora_tta.store.resources import Resources
from tempora_tta.store.verdicts import worst
from tempora_tta.timing import ProfileClock

OFFLINE, TAIL = "offline", "tail"
LIVE, DERIVED, REPLAYED = "live", "derived", "replayed"


@dataclass
class Task:
    """One method on one stream: `cells()` makes the missing passes and says where each cell's batches are."""

    passes: PassMaker
    _states: dict[int, Any] = field(default_factory=dict, init=False)
    """Snapshots of the offline pass just made, by cut-off."""
    _offline_failure: Exception | None = field(default=None, init=False)

    @property
    def name(self) -> tuple[str, str, int]:
        """Method, shift and seed."""
        return self.passes.spec.label, self.passes.source.shift, self.passes.source.seed

    @cached_property
    def cost(self) -> float:
        """About how long it takes, in batches of standard inference."""
        return rough_cost(self.passes.job, self.passes.spec, self.passes.source)

    def cells(self) -> list[Cell]:
        """One cell per scenario of the job; a scenario that fails says why and the others go on."""
        try:
            return list(self._cells())
        finally:
            self.passes.release()
            self._states.clear()

    def _cells(self) -> Iterator[Cell]:
        hangs: MethodTimedOut | None = None
        for index, scenario in enumerate(self.passes.job.scenarios):
            cell = self._blank_cell(index, scenario)
            reason = self._not_applicable(scenario)
            if reason is not None:
                yield replace(cell, status=f"not applicable: {reason}")
                continue
            try:
                if hangs is not None:  # waiting as long for every other scenario would say no more
                    raise hangs
                yield self._cell(cell)
            except (Stopped, CannotWrite, PassMissing):
                raise
            except Exception as error:
                hangs = error if isinstance(error, MethodTimedOut) else None
                yield replace(cell, status=f"failed: {_reason(error)}")

    def failed(self, reason: str) -> list[Cell]:
        """The cells of a task that could not be made at all."""
        return [
            replace(self._blank_cell(index, scenario), status=f"failed: {reason}")
            for index, scenario in enumerate(self.passes.job.scenarios)
        ]

    def _not_applicable(self, scenario: Scenario) -> str | None:
        """Say why the scenario has no meaning here; None: it has."""
        clock = self.passes.job.clock
        if (
            isinstance(clock, ProfileClock)
            and clock.profile.relative_only
            and not is_relative(scenario.deployment())
        ):
            return (
                "the cores were not ours while this machine was profiled, so that only scenarios relative to λ "
                "have an answer; profile with --threads 1, or give utilisation, threshold_x, budget_x"
            )
        return scenario.not_applicable(self.passes.baseline.baseline_ms) or scenario.misfit(
            self.passes.source.num_batches, self.passes.source.batch_size
        )

    def _blank_cell(self, index: int, scenario: Scenario) -> Cell:
        return Cell(
            method=self.passes.spec.label,
            model=self.passes.job.model.name,
            shift=self.passes.source.shift,
            seed=self.passes.source.seed,
            stream=self.passes.source.stream,
            scenario=scenario,
            scenario_index=index,
            baseline_ms=self.passes.baseline.baseline_ms,
            oracle=self.passes.spec.oracle,
        )

    def _cell(self, cell: Cell) -> Cell:
        resolved = self._resolve(cell.scenario)
        if resolved.at_once is not None:
            spec = replace(self.passes.spec, at_once=resolved.at_once)
            return Task(replace(self.passes, spec=spec))._live_cell(cell, resolved)
        method = self.passes.method()
        if not self.passes.job.config.share or method.time_aware:
            return self._live_cell(cell, resolved, scenario_index=cell.scenario_index)
        offline = self._offline()
        way = route(
            resolved,
            self.passes.folder.trace(offline.key).on_device(resolved).offline_course(),
            history_free=method.history_free,
            stateless=method.stateless,
        )
        if way.kind == "live":
            return self._live_cell(cell, resolved)
        if way.kind == "replay":
            lost = Task(self.passes.of_standard())._offline() if resolved.takes_standards_time else None
            return self._placed(cell, REPLAYED, offline, fallback=lost)
        origin = LIVE if isinstance(cell.scenario, Offline) else DERIVED
        frozen = None if way.cutoff is None else self._frozen(method, resolved, way.cutoff)
        return self._placed(cell, origin, offline, frozen)

    def _live_cell(self, cell: Cell, resolved: Resolved, **more: Any) -> Cell:
        return self._placed(cell, LIVE, self._live(resolved, **more))

    def _live(self, resolved: Resolved, **more: Any) -> StoredPass:
        """A pass on the deployment's own clock. Unshared, the scenario's number keeps equal passes apart."""
        time_aware = self.passes.method().time_aware
        knobs = deployment_identity(resolved, time_aware)
        if time_aware:
            more["warmup_batches"] = self.passes.job.config.warmup_batches  # it is told what they cost
        identity = self.passes.identity(LIVE, deployment=knobs, **more)
        return self.passes.stored(identity, lambda run: run.drive(resolved))

    def _placed(
        self,
        cell: Cell,
        origin: str,
        adapting: StoredPass,
        frozen: StoredPass | str | None = None,
        fallback: StoredPass | None = None,
    ) -> Cell:
        """The cell with its passes, the worse of their verdicts and the larger of their uncertainties."""
        placed = replace(
            cell,
            origin=origin,
            adapting_pass=adapting.key,
            frozen_pass=frozen.key if isinstance(frozen, StoredPass) else frozen,
            fallback_pass=None if fallback is None else fallback.key,
            resources=Resources.of(adapting.facts),
        )
        if isinstance(cell.scenario, Offline):
            return placed  # its accuracy is the same however long the batches took
        known = [found for found in (adapting, frozen, fallback) if isinstance(found, StoredPass)]
        verdicts = [found.facts.get("verdict", {}).get("status", "VALID") for found in known]
        return replace(
            placed,
            timing=worst(verdicts),
            timing_uncertainty=max(found.facts.get("timing_uncertainty", 0.0) for found in known),
        )

    def _frozen(self, method: Method, resolved: Resolved, cutoff: int) -> StoredPass | str:
        """The frozen tail from `cutoff`: the Standard pass where that is what it is, else a pass of its own."""
        standard = self.passes.job.standard(self.passes.spec.runtime)
        if method.stateless and resolved.untimed_tail and standard is not None:
            return pass_key(self.passes.job.identity(standard, self.passes.source, OFFLINE))
        timed = self.passes.job.clock.looks_up or not resolved.untimed_tail
        identity = self.passes.identity(TAIL, cutoff=cutoff, timed=timed)
        return self.passes.stored(identity, lambda run: run.tail(cutoff, self._states.get(cutoff), timed))

    def _offline(self) -> StoredPass:
        """The shared pass, made on first use; the states its budgets froze in are kept for their tails."""
        resolved = self._resolve(Offline())

        def make(run: Pass) -> Trace:
            watches = list(self._watches())
            trace = run.drive(resolved, watches)
            self._states = {watch.cutoff: watch.state for watch in watches if watch.cutoff is not None}
            return trace

        if self._offline_failure is not None:  # every scenario asks for this pass; once is enough to know
            raise self._offline_failure
        try:
            return self.passes.stored(self.passes.identity(OFFLINE), make)
        except Exception as error:
            self._offline_failure = error
            raise

    def _watches(self) -> list[BudgetWatch]:
        """Of the budgets of all scenarios, during the offline pass: the state in which they run out is where a frozen
        tail starts, also on a schedule that has lost nothing until then."""
        applicable = [
            self._resolve(scenario)
            for scenario in self.passes.job.scenarios
            if self._not_applicable(scenario) is None
        ]
        return [BudgetWatch(resolved) for resolved in applicable if resolved.has_budget]

    def _resolve(self, scenario: Scenario) -> Resolved:
        return scenario.resolve(
            num_batches=self.passes.source.num_batches,
            batch_size=self.passes.source.batch_size,
            baseline_ms=self.passes.baseline.baseline_ms,
            seed=self.passes.source.seed,
            shift=self.passes.source.shift,
        )


def _reason(error: Exception) -> str:
    """Ours say all that a user needs; others' names do."""
    return str(error) if isinstance(error, TemporaError) else f"{type(error).__name__}: {error}"
