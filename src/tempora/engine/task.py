"""A task: all cells of one method on one stream, with as few passes as give the same results."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tempora._global_state import own_randomness
from tempora.data import Order, Stream
from tempora.engine.job import STANDARD, Job, MethodSpec, deployment_identity
from tempora.engine.observer import Observer
from tempora.engine.passes import BudgetWatch, Pass, Stopped
from tempora.engine.predicting import predictor
from tempora.engine.profiling import Replay
from tempora.engine.runtime import EAGER, compiled_graphs
from tempora.engine.sentinel import Sentinel
from tempora.engine.tails import batches_at_once
from tempora.errors import TemporaError, counted
from tempora.measure import Baseline, SteadyClock
from tempora.measure.settling import is_relative
from tempora.measure.spent import Spent
from tempora.methods import Method
from tempora.methods.guard import MethodTimedOut
from tempora.scenarios import Budget, Offline, Resolved, Scenario, route
from tempora.store import ADAPTED, Cell, RunFolder, StoredPass, Trace, pass_key
from tempora.store.atomic import CannotWrite
from tempora.store.resources import Resources
from tempora.store.verdicts import INVALID, WARN, Verdict, worst

OFFLINE, TAIL = "offline", "tail"
LIVE, DERIVED, REPLAYED = "live", "derived", "replayed"
MOST_ATTEMPTS = 3
"""How often a pass is made before its timing is called INVALID, or its kinds of work unknown."""


class PassMissing(Exception):
    """A task that shall only find passes has met one that has yet to be made."""


@dataclass
class Task:
    """One method on one stream: `cells()` makes the missing passes and says where each cell's batches are."""

    job: Job
    spec: MethodSpec
    source: Order
    baseline: Baseline
    folder: RunFolder
    sentinel: Callable[[], Sentinel] | None
    observer: Observer
    open_stream: Callable[[], Stream]
    learn: Callable[[Replay], None] | None = None
    """Adds a kind of work to the steady profile; None where the device that it belongs to is not at hand."""
    _method: Method | None = None
    _states: dict[int, Any] = field(default_factory=dict)
    """Snapshots of the offline pass just made, by cut-off."""
    _tail_batches: int | None = None
    _predict_with: dict[str, Any] | None = None
    """In which runtime its predictions are made, and why; None: as they are timed, or nobody has looked yet."""
    _offline_failure: Exception | None = None

    def cells(self) -> list[Cell]:
        """One cell per scenario of the job; a scenario that fails says why and the others go on."""
        found = []
        hangs: MethodTimedOut | None = None
        for index, scenario in enumerate(self.job.scenarios):
            cell = self._blank_cell(index, scenario)
            reason = self._not_applicable(scenario)
            if reason is not None:
                found.append(replace(cell, status=f"not applicable: {reason}"))
                continue
            try:
                if hangs is not None:  # waiting as long for every other scenario would say no more
                    raise hangs
                found.append(self._cell(cell))
            except (Stopped, CannotWrite, PassMissing):
                raise
            except Exception as error:
                hangs = error if isinstance(error, MethodTimedOut) else None
                found.append(replace(cell, status=f"failed: {_reason(error)}"))
        self._method = self._tail_batches = self._predict_with = None
        self._states.clear()
        return found

    def failed(self, reason: str) -> list[Cell]:
        """The cells of a task that could not be made at all."""
        return [
            replace(self._blank_cell(index, scenario), status=f"failed: {reason}")
            for index, scenario in enumerate(self.job.scenarios)
        ]

    def _not_applicable(self, scenario: Scenario) -> str | None:
        """Why the scenario has no meaning here, or None."""
        clock = self.job.clock
        if isinstance(clock, SteadyClock) and clock.profile.relative_only and not is_relative(scenario):
            return (
                "the cores were not ours while this machine was profiled, so that only scenarios relative to λ "
                "have an answer; profile with --threads 1, or give utilisation, threshold_x, budget_x"
            )
        return scenario.not_applicable(self.baseline.baseline_ms) or scenario.misfit(self.source.num_batches)

    def _blank_cell(self, index: int, scenario: Scenario) -> Cell:
        return Cell(
            method=self.spec.label,
            model=self.job.model.name,
            shift=self.source.shift,
            seed=self.source.seed,
            stream=self.source.stream,
            scenario=scenario,
            scenario_index=index,
            baseline_ms=self.baseline.baseline_ms,
        )

    def _cell(self, cell: Cell) -> Cell:
        resolved = self._resolve(cell.scenario)
        method = self._created()
        if not self.job.share or method.time_aware:
            return self._live_cell(cell, resolved, scenario_index=cell.scenario_index)
        offline = self._offline()
        way = route(
            resolved,
            self.folder.trace(offline.key).on_device(resolved).offline_course(),
            history_free=method.history_free,
            stateless=method.stateless,
        )
        if way.kind == "live":
            return self._live_cell(cell, resolved)
        if way.kind == "replay":
            lost = self._standard()._offline() if resolved.fallback is not None else None
            return self._placed(cell, REPLAYED, offline, fallback=lost)
        origin = LIVE if isinstance(cell.scenario, Offline) else DERIVED
        frozen = None if way.cutoff is None else self._frozen(method, resolved, way.cutoff)
        return self._placed(cell, origin, offline, frozen)

    def _standard(self) -> Task:
        """Standard on the same stream, whose time a fallback takes; among the methods of the job or not."""
        spec = MethodSpec(STANDARD).under(self.spec.runtime)
        fresh: dict[str, Any] = dict.fromkeys(
            ("_method", "_tail_batches", "_predict_with", "_offline_failure")
        )
        return replace(self, spec=spec, _states={}, **fresh)

    def live_pass(self, index: int) -> StoredPass:
        """A pass of its own for the scenario of that number, whatever it might share."""
        resolved = self._resolve(self.job.scenarios[index])
        return self._live(resolved, **({"scenario_index": index} if self._created().time_aware else {}))

    def _live_cell(self, cell: Cell, resolved: Resolved, **more: Any) -> Cell:
        return self._placed(cell, LIVE, self._live(resolved, **more))

    def _live(self, resolved: Resolved, **more: Any) -> StoredPass:
        """A pass on the deployment's own clock. Unshared, the scenario's number keeps equal passes apart."""
        time_aware = self._created().time_aware
        knobs = deployment_identity(resolved, time_aware)
        if time_aware:
            more["warmup_batches"] = self.job.warmup_batches  # it is told what they cost
        identity = self._identity(LIVE, deployment=knobs, **more)
        return self._pass(identity, lambda run: run.live(resolved))

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
        standard = self.job.standard(self.spec.runtime)
        if method.stateless and resolved.untimed_tail and standard is not None:
            return pass_key(self.job.identity(standard, self.source, OFFLINE))
        timed = self.job.clock.fills_tails or not resolved.untimed_tail
        identity = self._identity(TAIL, cutoff=cutoff, timed=timed)
        return self._pass(identity, lambda run: run.tail(cutoff, self._states.get(cutoff), timed))

    def _offline(self) -> StoredPass:
        """The shared pass, made on first use; the states its budgets froze in are kept for their tails."""
        resolved = self._resolve(Offline())

        def make(run: Pass) -> Trace:
            watches = list(self._watches())
            trace = run.offline(resolved, watches)
            self._states = {watch.cutoff: watch.state for watch in watches if watch.cutoff is not None}
            return trace

        if self._offline_failure is not None:  # every scenario asks for this pass; once is enough to know
            raise self._offline_failure
        try:
            return self._pass(self._identity(OFFLINE), make)
        except Exception as error:
            self._offline_failure = error
            raise

    def _watches(self) -> list[BudgetWatch]:
        """Of the budgets of all scenarios, during the offline pass: the state in which they run out is where a frozen
        tail starts, also on a schedule that has lost nothing until then."""
        applicable = [
            self._resolve(scenario)
            for scenario in self.job.scenarios
            if self._not_applicable(scenario) is None
        ]
        return [
            BudgetWatch(
                Budget(resolved.budget_ms, resolved.baseline_ms, resolved.rule),
                resolved.residuals,
            )
            for resolved in applicable
            if resolved.has_budget
        ]

    def _pass(self, identity: dict[str, Any], make: Callable[[Pass], Trace]) -> StoredPass:
        """The stored pass with this identity, made now if it is not there."""
        stored = self._stored(identity)
        if stored is not None:
            return stored
        attempts = 0
        while True:
            attempts += 1
            trace, facts = self._attempt(identity, make)
            if attempts == MOST_ATTEMPTS or not self._worth_another(trace, facts):
                break
        if attempts > 1:
            facts["attempts"] = attempts
        if isinstance(self.job.clock, SteadyClock) and self.job.clock.unknown:
            self.observer.note(f"{self.source.shift}: {facts['verdict']['reasons'][0]}")
        return self.folder.write_pass(identity, trace, facts)

    def _stored(self, identity: dict[str, Any]) -> StoredPass | None:
        """The pass, if it is there and the times that it was driven by are still those of the profile."""
        found = self.folder.passes().get(pass_key(identity))
        clock = self.job.clock
        if (
            found is not None
            and isinstance(clock, SteadyClock)
            and not clock.still_holds(found.facts.get("times", {}))
        ):
            self.folder.remove_pass(found.key)
            return None
        return found

    def _worth_another(self, trace: Trace, facts: dict[str, Any]) -> bool:
        """Whether the pass should be made again: something disturbed it, or its kinds of work now have times."""
        if facts.get("verdict", {}).get("status") == INVALID:
            return True
        clock = self.job.clock
        learn = None if self.spec.times_as else self.learn  # another's times are not its own to measure
        if not isinstance(clock, SteadyClock) or not clock.unknown or learn is None:
            return False
        for index in dict.fromkeys(clock.unknown.values()):
            served = (*(other for other in range(index) if trace.phase[other] == ADAPTED), index)
            resets = tuple(
                then
                for last, then in zip((-1, *served), served, strict=False)
                if self.source.resets_between(last, then)
            )
            learn(Replay(self.spec.label, self.source.shift, self.source.seed, served, resets))
        return True

    def _attempt(
        self, identity: dict[str, Any], make: Callable[[Pass], Trace]
    ) -> tuple[Trace, dict[str, Any]]:
        """Make a pass once; the pass, and what was noticed."""
        stream = self.open_stream()
        method = self._predictor(stream)
        if self._tail_batches is None:
            guard = self.job.guard(self.spec)
            self._tail_batches = batches_at_once(method, stream, self.job.tail_batches, guard)
        run = Pass(
            method,
            self.spec.label,
            stream,
            self.job.clock,
            progress=self._on_batch,
            tail_batches=self._tail_batches,
            standard=cache(lambda: self._standard()._beside(stream)),
            times_as=self.spec.times_as,
            timeout_s=self.job.method_timeout_s,
        )
        self.observer.pass_started(identity["kind"], stream.num_batches)
        timed = identity.get("timed", True)
        spent, compiled = Spent(self.job.device), 0

        def work() -> Trace:
            nonlocal compiled
            before = compiled_graphs()
            with spent:
                trace = make(run)
            compiled = compiled_graphs() - before
            return trace

        facts: dict[str, Any]
        with own_randomness(self.source.seed):
            if not timed:
                trace, facts = work(), {}
            elif self.sentinel is None:
                clock = self.job.clock
                if isinstance(clock, SteadyClock):
                    clock.begin()
                if method.time_aware:  # it knows what its work costs, so the pass depends on those times too
                    run.warm_up(self.job.warmup_batches)
                    if isinstance(clock, SteadyClock):
                        clock.unknown.clear()  # a kind that only the warm-up met cannot be looked for in the stream
                trace, facts = work(), {}
            else:
                trace, facts = self.sentinel().around(work, lambda: run.warm_up(self.job.warmup_batches))
        self._look_at_scores(run, trace)
        facts |= {
            "history_free": method.history_free,
            "stateless": method.stateless,
            "family": method.family,
            "time_aware": method.time_aware,
            "batch_statistics": method.statistics is not None,
        }
        if self.source.walk.over_many:
            facts["segments"] = [
                {**dataclasses.asdict(segment), "name": segment.name} for segment in self.source.segments
            ]
        if self._predict_with is not None:
            facts["predict_with"] = self._predict_with
        if self.job.measured:
            facts |= self._measured_facts(spent)
        elif isinstance(self.job.clock, SteadyClock):
            facts |= self._steady_facts(self.job.clock)
        if run.non_finite_batches:
            facts["non_finite_batches"] = run.non_finite_batches
            facts["non_finite_samples"] = run.non_finite_samples
        if self.job.measured and timed and compiled:
            facts["compiled_while_timed"] = compiled
            self.observer.note(
                f"{self.spec.label} on {self.source.shift}: torch.compile worked inside timed batches, which are "
                "slower for it; more warm-up batches keep that out"
            )
        return trace, facts

    def _steady_facts(self, clock: SteadyClock) -> dict[str, Any]:
        """Which entries of the profile drove the pass, how sure they are, and which were missing."""
        label = self.spec.times_as or self.spec.label
        spent = clock.profile.spent.get(label)
        standard = clock.profile.spent.get(STANDARD)
        resources = Resources(
            spent.watts if spent else None,
            standard.watts if standard else None,
            spent.peak_memory_bytes if spent else None,
        )
        facts: dict[str, Any] = {
            "times": dict(clock.used),
            "timing_uncertainty": clock.profile.uncertainty(label),
            "updated_parameters": sum(tensor.numel() for tensor in self._created().trainable.values()),
            "peak_memory_bytes": resources.memory_bytes,
            **resources.to_facts(),
        }
        if clock.unknown:
            kinds = ", ".join(" ".join(filter(None, kind[1:])) for kind in clock.unknown)
            reason = f"the profile has no time for {kinds} of {self.spec.label}: each costs a step"
            facts["verdict"] = Verdict(WARN, (reason,)).to_json()
        return facts

    def _beside(self, stream: Stream) -> Pass:
        """Ready to predict beside the pass of another method."""
        run = Pass(self._predictor(stream), self.spec.label, stream, self.job.clock)
        run.warm_up(1)
        return run

    def _look_at_scores(self, run: Pass, trace: Trace) -> None:
        """NaN is no prediction: all of them fail the pass, some are said."""
        served = int(trace.served.sum())
        if run.non_finite_samples == served * run.stream.batch_size:
            raise TemporaError(
                f"{self.spec.label}: every score it gave was NaN or infinite: lower its lr, or leave it out"
            )
        if run.non_finite_samples:
            self.observer.note(
                f"{self.spec.label} on {self.source.shift}: NaN or infinite scores in {run.non_finite_batches} of "
                f"{counted(served, 'batch')} ({counted(run.non_finite_samples, 'sample')})"
            )

    def _measured_facts(self, spent: Spent) -> dict[str, Any]:
        return {
            "baseline": self.baseline.to_json(),
            "peak_memory_bytes": spent.peak_memory_bytes,
            "energy_joules": spent.energy_joules,
            "updated_parameters": sum(tensor.numel() for tensor in self._created().trainable.values()),
            "made_at": time.strftime("%Y-%m-%dT%H:%M:%S"),
        }

    def _on_batch(self, trace: Trace, index: int) -> None:
        self.observer.batch_done(trace, index)
        if self.observer.stop_requested:
            raise Stopped

    def _created(self) -> Method:
        if self._method is None:
            self._method = self.job.create(self.spec, self.source.seed)
        return self._method

    def _predictor(self, stream: Stream) -> Method:
        """The method in the runtime that predicts, once it was seen to agree with the one that is timed."""
        if self.job.predict_with == EAGER or self._predict_with is not None:
            return self._created()
        self._method, self._predict_with = predictor(self.job, self.spec, stream)
        assert self._predict_with is not None
        if not self._predict_with["used"]:
            self.observer.note(
                f"{self.spec.label} on {self.source.shift}: {self.job.predict_with} agrees with "
                f"{self._predict_with['agreement']:.1%} of the timed runtime's first predictions, so these are "
                "made as they are timed"
            )
        return self._method

    def _resolve(self, scenario: Scenario) -> Resolved:
        return scenario.resolve(
            num_batches=self.source.num_batches,
            baseline_ms=self.baseline.baseline_ms,
            seed=self.source.seed,
            shift=self.source.shift,
        )

    def _identity(self, kind: str, **more: Any) -> dict[str, Any]:
        return self.job.identity(self.spec, self.source, kind, **more)


def _reason(error: Exception) -> str:
    """Ours say all that a user needs; others' names do."""
    return str(error) if isinstance(error, TemporaError) else f"{type(error).__name__}: {error}"
