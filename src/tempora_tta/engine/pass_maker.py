"""Making the passes of one method on one stream: once each, kept in the run folder with what was noticed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from tempora_tta._global_state import own_randomness
from tempora_tta._numbers import percent
from tempora_tta.data import Order, Stream, Streams
from tempora_tta.engine.calls import Calls
from tempora_tta.engine.job import STANDARD, Job, MethodSpec
from tempora_tta.engine.measured import Drift
from tempora_tta.engine.observer import Observer, Stopped
from tempora_tta.engine.passes import Pass
from tempora_tta.engine.predicting import batches_at_once, predictor
from tempora_tta.engine.runtime import EAGER, compiled_graphs
from tempora_tta.errors import TemporaError, counted
from tempora_tta.methods import Method
from tempora_tta.store import RunFolder, StoredPass, Trace, pass_key
from tempora_tta.store.resources import Resources
from tempora_tta.store.verdicts import INVALID, WARN, Verdict
from tempora_tta.timing import Baseline, ProfileClock
from tempora_tta.timing.profile import MethodFacts

MOST_ATTEMPTS = 3
"""How often a pass is made before its timing is called INVALID."""


class PassMissing(Exception):
    """A pass has yet to be made, and not here."""


@dataclass
class PassMaker:
    """Finds a pass in the folder, or makes it: again, if something disturbed it."""

    job: Job
    spec: MethodSpec
    source: Order
    baseline: Baseline
    folder: RunFolder
    observer: Observer
    streams: Streams | None
    """Opens the stream; None: passes are only found."""
    _method: Method | None = field(default=None, init=False)
    _tail_batches: int | None = field(default=None, init=False)
    _predict_with: dict[str, Any] | None = field(default=None, init=False)
    """Runtime of its predictions, and why; None: the timed one, or not looked at yet."""

    def method(self) -> Method:
        """The method, made on first use and kept until `release`."""
        if self._method is None:
            self._method = self.job.take(self.spec, self.source.seed)
        return self._method

    def release(self) -> None:
        """Let go of the method: the next task needs the memory."""
        self._method = self._tail_batches = self._predict_with = None

    def of_standard(self) -> PassMaker:
        """Of Standard on the same stream, whose time a fallback takes; among the methods of the job or not."""
        return replace(self, spec=MethodSpec(STANDARD).under(self.spec.runtime))

    def identity(self, kind: str, **more: Any) -> dict[str, Any]:
        """Return what tells a pass of this method on this stream from any other."""
        return self.job.identity(self.spec, self.source, kind, **more)

    def stored(self, identity: dict[str, Any], make: Callable[[Pass], Trace]) -> StoredPass:
        """The stored pass with this identity, made now if it is not there."""
        found = self._found(identity)
        if found is not None:
            return found
        for attempt in range(1, MOST_ATTEMPTS + 1):
            trace, facts = self._attempt(identity, make)
            if attempt > 1:
                facts["attempts"] = attempt
            if facts.get("verdict", {}).get("status") != INVALID:
                break
        return self.folder.write_pass(identity, trace, facts)

    def _found(self, identity: dict[str, Any]) -> StoredPass | None:
        """The pass, if it is there and the times that it was driven by are still those of the profile."""
        found = self.folder.passes().get(pass_key(identity))
        clock = self.job.clock
        if (
            found is not None
            and isinstance(clock, ProfileClock)
            and not clock.still_holds(found.facts.get("times", {}))
        ):
            self.folder.remove_pass(found.key)
            return None
        return found

    @property
    def stream(self) -> Stream:
        if self.streams is None:
            raise PassMissing
        return self.streams.open(self.source)

    @cached_property
    def _drift(self) -> Drift:
        return Drift(self.job, self.stream, self.baseline)

    def _attempt(
        self, identity: dict[str, Any], make: Callable[[Pass], Trace]
    ) -> tuple[Trace, dict[str, Any]]:
        """Make a pass once; the pass, and what was noticed."""
        run = self._prepared()
        self.observer.pass_started(identity["kind"], run.calls.stream.num_batches)
        timed = identity.get("timed", True)
        compiled = 0

        def work() -> Trace:
            nonlocal compiled
            before = compiled_graphs()
            trace = make(run)
            compiled = compiled_graphs() - before
            return trace

        facts: dict[str, Any] = {}
        with own_randomness(self.source.seed):
            if timed and self.job.measured:
                trace, facts = self._drift.around(
                    work, lambda: run.calls.warm_up(self.job.config.warmup_batches)
                )
            else:
                if timed:
                    self._begin_looked_up(run)
                trace = work()
        self._look_at_scores(run, trace)
        facts |= self._facts(run)
        if self.job.measured and timed and compiled:
            facts["compiled_while_timed"] = compiled
            self.observer.note(
                f"{self.spec.label} on {self.source.shift}: torch.compile worked inside timed batches, which are "
                "slower for it; more warm-up batches keep that out"
            )
        return trace, facts

    def _prepared(self) -> Pass:
        stream = self.stream
        method = self._predictor(stream)
        if self._tail_batches is None:
            guard = self.job.guard(self.spec)
            self._tail_batches = batches_at_once(method, stream, self.job.tail_batches, guard)
        return Pass(
            Calls(
                method,
                self.spec.label,
                stream,
                self.job.clock,
                self.spec.times_as,
                self.job.config.method_timeout_s,
            ),
            progress=self._on_batch,
            tail_batches=self._tail_batches,
            standard=cache(lambda: self.of_standard()._beside(stream)),
        )

    def _begin_looked_up(self, run: Pass) -> None:
        """Before a pass whose times are looked up."""
        clock = self.job.clock
        if isinstance(clock, ProfileClock):
            clock.begin()
        if (
            run.calls.method.time_aware
        ):  # it knows what its work costs, so the pass depends on those times too
            run.calls.warm_up(self.job.config.warmup_batches)
            if isinstance(clock, ProfileClock):
                clock.missing.clear()  # a kind that only the warm-up met cannot be looked for in the stream

    def _facts(self, run: Pass) -> dict[str, Any]:
        """Return what the folder keeps with the pass."""
        method = run.calls.method
        facts: dict[str, Any] = {
            "history_free": method.history_free,
            "stateless": method.stateless,
            "family": method.family,
            "time_aware": method.time_aware,
            "learns": method.learns,
            "batch_statistics": method.statistics is not None,
        }
        if self.source.settings.over_many:
            facts["segments"] = [
                {**dataclasses.asdict(segment), "name": segment.name} for segment in self.source.segments
            ]
        if self._predict_with is not None:
            facts["predict_with"] = self._predict_with
        if self.job.measured:
            facts |= {"baseline": self.baseline.to_json(), "made_at": time.strftime("%Y-%m-%dT%H:%M:%S")}
        elif isinstance(self.job.clock, ProfileClock):
            facts |= self._steady_facts(self.job.clock)
        if run.non_finite_batches:
            facts["non_finite_batches"] = run.non_finite_batches
            facts["non_finite_samples"] = run.non_finite_samples
        return facts

    def _on_batch(self, trace: Trace, index: int) -> None:
        self.observer.batch_done(trace, index)
        if self.observer.stop_requested:
            raise Stopped

    def _predictor(self, stream: Stream) -> Method:
        """The method in the runtime that predicts, once it was seen to agree with the one that is timed."""
        if self.job.predict_with == EAGER or self._predict_with is not None:
            return self.method()
        self._method, self._predict_with = predictor(self.job, self.spec, stream)
        assert self._predict_with is not None
        if not self._predict_with["used"]:
            self.observer.note(
                f"{self.spec.label} on {self.source.shift}: {self.job.predict_with} agrees with "
                f"{percent(self._predict_with['agreement'])} of the timed runtime's first predictions, so these are "
                "made as they are timed"
            )
        return self._method

    def _beside(self, stream: Stream) -> Calls:
        """Return standard inference, ready to predict during the pass of another method."""
        standard = Calls(self._predictor(stream), self.spec.label, stream, self.job.clock)
        standard.warm_up(1)
        return standard

    def _look_at_scores(self, run: Pass, trace: Trace) -> None:
        """NaN is no prediction: all of them fail the pass, some are said."""
        served = int(trace.served.sum())
        if run.non_finite_samples == served * run.calls.stream.batch_size:
            raise TemporaError(
                f"{self.spec.label}: every score it gave was NaN or infinite: lower its lr, or leave it out"
            )
        if run.non_finite_samples:
            self.observer.note(
                f"{self.spec.label} on {self.source.shift}: NaN or infinite scores in {run.non_finite_batches} of "
                f"{counted(served, 'batch')} ({counted(run.non_finite_samples, 'sample')})"
            )

    def _steady_facts(self, clock: ProfileClock) -> dict[str, Any]:
        """Return the entries of the profile that drove the pass, how sure they are, and which were missing."""
        label = self.spec.times_as or self.spec.label
        own, standard = (clock.profile.facts.get(name, MethodFacts()) for name in (label, STANDARD))
        facts: dict[str, Any] = {
            "times": dict(clock.used),
            "timing_uncertainty": clock.profile.uncertainty(label),
            **Resources(own.watts, standard.watts, own.memory_bytes).to_facts(),
        }
        if clock.missing:
            kinds = ", ".join(" ".join(filter(None, kind[1:])) for kind in clock.missing)
            reason = f"the profile has no time for {kinds} of {self.spec.label}: each costs a step"
            facts["verdict"] = Verdict(WARN, (reason,)).to_json()
            facts["missing"] = {str(kind): index for kind, index in clock.missing.items()}
        return facts
