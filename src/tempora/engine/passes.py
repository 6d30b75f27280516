"""A pass: one method over one stream, on the clock of one deployment.

The engine owns the clock. It has the batch ready on the device, hands prediction and adaptation to the clock,
and looks at the predictions only after both are done. It never looks inside a method. A guard stands around every
call into one, and around the clock, so that nothing it does is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

from tempora.data import Stream
from tempora.engine.moments import Costs, moment_at
from tempora.engine.predictions import classes_of, note_predictions
from tempora.engine.rescue import LatestState
from tempora.errors import TemporaError
from tempora.measure import Batch, Clock
from tempora.measure.work import NO_WORK, Work, work_of
from tempora.methods import Method, Moment
from tempora.methods.contract import UNTOLD, adapt_at, predict_at
from tempora.methods.guard import Guard
from tempora.methods.outputs import checked_action, checked_scores
from tempora.scenarios import Budget, Resolved, Timeline, Turn
from tempora.store import ADAPTED, FALLBACK, FROZEN, Trace
from tempora.store.trace import arrivals

Progress = Callable[[Trace, int], None]
"""Called after every batch with the trace so far and the batch's index; may raise to stop the pass."""


class Stopped(Exception):
    """Somebody asked the run to stop; the pass under way is given up, finished ones stay."""


@dataclass
class BudgetWatch:
    """Follows one budget through an offline pass and keeps the state that the model would have frozen in.

    Under `strict` the batch that overruns the budget is undone, so the state before every batch has to be kept
    until the budget is used up; under `overshoot` the state after the last allowed batch is enough.
    """

    budget: Budget
    residuals: bool = False
    """Its deployment meets the device's own variation."""
    cutoff: int | None = None
    state: Any = None

    def before(self, index: int, snapshot: Callable[[], Any]) -> None:
        if self.cutoff is not None:
            return
        if not self.budget.allows_adaptation:
            self.cutoff, self.state = index, snapshot()
        elif self.budget.undoes:
            self.state = snapshot()

    def after(self, index: int, service_ms: float) -> None:
        if self.cutoff is None and not self.budget.charge(service_ms):
            self.cutoff = index


@dataclass
class Pass:
    """Runs one method over one stream; call one of `live`, `offline` and `tail`, each starting from a reset."""

    method: Method
    label: str
    stream: Stream
    clock: Clock
    progress: Progress | None = None
    tail_batches: int = 1
    """Batches that a frozen tail predicts at once where no clock runs."""
    times_as: str = ""
    """The method whose recorded times stand for its own."""
    standard: Callable[[], Pass] | None = None
    """Standard over the same stream, ready to predict: a fallback takes its time, or is it."""
    timeout_s: float | None = None
    """How long one call into the method may take; None: for ever."""
    non_finite_batches: int = 0
    """Served batches that have samples whose best score is not a finite number."""
    non_finite_samples: int = 0
    """Such samples."""
    _warm_up_costs: Costs = field(default_factory=Costs)
    """What its work took before the first batch, for a method that wants to know."""
    _costs: Costs = field(default_factory=Costs)
    _ahead: dict[int, torch.Tensor] = field(default_factory=dict)
    """Scores of the tail's next batches, predicted together with one before them."""
    _work: Work = NO_WORK
    """The last that the method said about its work on the batch in hand."""
    _said: Work | None = None
    """What it said about the call just made; None: nobody has asked."""
    _last_adapting: int = -1
    """The last batch that the method could adapt on."""

    def warm_up(self, batches: int) -> None:
        """Predict and adapt on perturbed copies of the first batches, frozen once too, then reset.

        A method that looks at the clock is told from its first batch on what its work took here.
        """
        self._warm_up_costs = Costs()
        self._reset()  # whatever an earlier pass left: what it is told must not depend on that
        for index in range(min(batches, self.stream.num_batches)):
            x = 1.1 * self._batch(index).flip(-1)
            if self.method.time_aware:
                self._rehearse(x, index)
            else:
                self._go_through(x)
        self._freeze()
        x = self._batch(0)
        with self._guard("predict"):
            self._predict(x, UNTOLD)
        self._reset()

    def _rehearse(self, x: torch.Tensor, index: int) -> None:
        """A batch of the warm-up, timed by the clock."""
        batch = self._named(index)
        with self._guard("predict"):
            _, predict_ms = self.clock.predict(lambda: self._predict(x, UNTOLD), batch, self.method.frozen)
        mode = self._mode_of(batch)
        with self._guard("adapt"):
            action, adapt_ms = self.clock.adapt(lambda: self._adapt(UNTOLD), batch)
        self._count(self._warm_up_costs, mode, predict_ms, self._mode_of(batch), action, adapt_ms)
        self._work = NO_WORK

    def _count(
        self, costs: Costs, mode: str, predict_ms: float, adapt_mode: str, action: str, adapt_ms: float
    ) -> None:
        costs.predicted(mode, predict_ms)
        # A prediction that holds the adaptation is what the action cost.
        whole = self.method.acted_in_predict is not None
        costs.adapted(adapt_mode, action, predict_ms + adapt_ms if whole else adapt_ms)

    def live(self, resolved: Resolved) -> Trace:
        """Drive the deployment's timeline: serve what it says, tell it how long that took."""
        timeline = resolved.timeline()
        trace = self._fresh_trace()
        latest, standard = LatestState(self.method, resolved), self._standard_for(resolved)
        undoes = math.isfinite(resolved.budget_ms) and resolved.rule == "strict"
        while (turn := timeline.next()) is not None:
            if turn.fallback and standard is not None:
                lost_to = latest if resolved.fallback == "latest" else None
                moment = self._moment(turn.start_ms, turn, timeline, resolved)
                answer_ms = self._serve_lost(trace, turn, standard, lost_to, moment)
                timeline.record(*self._on_device((answer_ms, 0.0), turn.batch, resolved))
                self._report(trace, turn.batch)
                continue
            if resolved.fallback == "latest":
                with self._guard("snapshot"):
                    latest.before(turn)
            before = self._snapshot() if undoes and turn.adapting else None
            if turn.adapting:
                self._reset_for(turn.batch)
                self._serve_adapting(trace, turn, timeline, resolved)
                adapted = bool(trace.phase[turn.batch] == ADAPTED)
                times = float(trace.predict_ms[turn.batch]), float(trace.adapt_ms[turn.batch])
                if timeline.record(*self._on_device(times, turn.batch, resolved), adapted=adapted):
                    latest.served(timeline.free_ms)
                    self._report(trace, turn.batch)
                    continue
                trace.attempt_predict_ms[turn.batch], trace.attempt_adapt_ms[turn.batch] = times
                self._restore(before)
            self._freeze()
            timed = self.clock.fills_tails or not resolved.untimed_tail
            moment = self._moment(turn.start_ms, turn, timeline, resolved)
            self._serve_frozen(trace, turn.batch, timed, in_order=resolved.arrivals_ms is None, moment=moment)
            times = float(trace.predict_ms[turn.batch]), 0.0
            timeline.record(*self._on_device(times, turn.batch, resolved))
            self._report(trace, turn.batch)
        self._place(trace, timeline)
        trace.arrived_ms[:] = arrivals(resolved, trace.arrived_ms)
        return trace

    def offline(self, resolved: Resolved, watches: Iterable[BudgetWatch] = ()) -> Trace:
        """Adapt on every batch, and let each watch keep the state its budget would have frozen."""
        timeline = resolved.timeline()
        trace = self._fresh_trace()
        watches = list(watches)
        while (turn := timeline.next()) is not None:
            snapshot = cache(self._snapshot)  # the watches of one batch share it
            for watch in watches:
                watch.before(turn.batch, snapshot)
            self._reset_for(turn.batch)
            self._serve_adapting(trace, turn, timeline, resolved)
            predict_ms, adapt_ms = float(trace.predict_ms[turn.batch]), float(trace.adapt_ms[turn.batch])
            adapted = bool(trace.phase[turn.batch] == ADAPTED)
            timeline.record(*self._on_device((predict_ms, adapt_ms), turn.batch, resolved), adapted=adapted)
            factor = float(np.nan_to_num(trace.residual[turn.batch], nan=1.0))
            for watch in watches:
                # The sum of the products, as a replay has it: a budget may end on a last digit.
                times = (
                    (predict_ms * factor, adapt_ms * factor) if watch.residuals else (predict_ms, adapt_ms)
                )
                watch.after(turn.batch, sum(times) if adapted else 0.0)
            self._report(trace, turn.batch)
        self._place(trace, timeline)
        return trace

    def tail(self, cutoff: int, state: Any, timed: bool) -> Trace:
        """Predict the batches from `cutoff` on with the model frozen there.

        Without its `state` (a resumed run has lost it) the batches before the cut-off are gone through again.
        """
        trace = self._fresh_trace()
        if state is None:
            for index in range(cutoff):
                self._reset_for(index)
                self._go_through(self._batch(index))
        else:
            self._restore(state)
        self._freeze()
        for index in range(cutoff, self.stream.num_batches):
            self._serve_frozen(trace, index, timed, in_order=True)
            self._report(trace, index)
        return trace

    def first_classes(self, batches: int) -> torch.Tensor:
        """What is predicted on the first batches, adapting on each, untimed: (samples,). Reset before and after."""
        self._reset()
        found = []
        for index in range(batches):
            x = self._batch(index)
            with self._guard("predict"):
                scores = self._predict(x, UNTOLD)
            scores = checked_scores(self.label, scores, len(x), self._classes)
            found.append(classes_of(scores, self.stream))
            with self._guard("adapt"):
                self._adapt(UNTOLD)
        self._reset()
        return torch.from_numpy(np.concatenate(found))

    def _fresh_trace(self) -> Trace:
        self._reset()
        self.non_finite_batches = self.non_finite_samples = 0
        self._costs = self._warm_up_costs.copy()
        self._ahead.clear()
        self._last_adapting = -1
        return Trace.empty(self.stream.num_batches, self.stream.batch_size)

    def _reset_for(self, index: int) -> None:
        """The stream's own reset before a batch, also if it was due at one that was skipped since.

        It takes no time and leaves a frozen model alone. What a budget freezes in is the state before it.
        """
        if self.stream.order.resets_between(self._last_adapting, index) and not self.method.frozen:
            self._reset()
        self._last_adapting = index

    def _serve_adapting(self, trace: Trace, turn: Turn, timeline: Timeline, resolved: Resolved) -> None:
        index = turn.batch
        batch = self._named(index)
        x = self._batch(index)
        moment = self._moment(turn.start_ms, turn, timeline, resolved)
        faults = self.clock.faults()
        froze_itself = self.method.frozen
        with self._guard("predict"):
            scores, predict_ms = self.clock.predict(lambda: self._predict(x, moment), batch, froze_itself)
        mode, factor = self._mode_of(batch), self._on_device((1.0, 1.0), index, resolved)[0]
        moment = self._moment(turn.start_ms + predict_ms * factor, turn, timeline, resolved, emitted=True)
        with self._guard("adapt"):
            action, adapt_ms = self.clock.adapt(lambda: self._adapt(moment), batch)
        action = checked_action(self.label, action)
        trace.page_faults[index] = self.clock.faults() - faults if faults >= 0 else -1
        self._count(self._costs, mode, predict_ms * factor, self._mode_of(batch), action, adapt_ms * factor)
        self._note_work(trace, index)
        trace.phase[index] = FROZEN if froze_itself else ADAPTED
        trace.predict_ms[index], trace.adapt_ms[index] = predict_ms, adapt_ms
        trace.action[index] = action
        trace.stepped[index] = not froze_itself and action not in self.method.idle
        self._note_predictions(trace, index, scores)

    def _serve_frozen(
        self, trace: Trace, index: int, timed: bool, in_order: bool = False, moment: Moment = UNTOLD
    ) -> None:
        """`in_order`: every batch after this one will be served too, so that some may be predicted ahead."""
        if timed and self.clock.fills_tails and in_order:
            # The time is looked up, so the batch need not be predicted by itself.
            scores = self._untimed_scores(index, moment)
            _, trace.predict_ms[index] = self.clock.predict(lambda: None, self._named(index), frozen=True)
            trace.adapt_ms[index], trace.page_faults[index] = 0.0, -1
        elif timed:
            x = self._batch(index)
            batch = self._named(index)
            faults = self.clock.faults()
            with self._guard("predict"):
                scores, trace.predict_ms[index] = self.clock.predict(
                    lambda: self._predict(x, moment), batch, frozen=True
                )
            trace.page_faults[index] = self.clock.faults() - faults if faults >= 0 else -1
            trace.adapt_ms[index] = 0.0
        else:
            scores = self._untimed_scores(index, moment)
            trace.predict_ms[index] = trace.adapt_ms[index] = math.nan
            trace.page_faults[index] = -1
        self._note_work(trace, index)
        trace.phase[index] = FROZEN
        trace.action[index], trace.stepped[index] = "none", 0
        self._note_predictions(trace, index, scores)

    def _standard_for(self, resolved: Resolved) -> Pass | None:
        """Standard, where a fallback answers lost batches: made before the first batch, not while one waits."""
        if resolved.fallback is None or resolved.waits:
            return None
        if self.standard is None:
            raise TemporaError(
                f"fallback={resolved.fallback!r} takes Standard's time, and there is no Standard beside this pass"
            )
        return self.standard()

    def _serve_lost(
        self, trace: Trace, turn: Turn, standard: Pass, latest: LatestState | None, moment: Moment
    ) -> float:
        """Answer a lost batch, by Standard or in the latest state, in the time that Standard takes; returns that."""
        index = turn.batch
        x = self._batch(index)
        scores, predict_ms = self.clock.predict(
            lambda: standard._predict(x, UNTOLD), standard._named(index), frozen=False
        )
        if latest is not None:
            with self._guard("predict"):
                scores = latest.predict(turn, lambda: self._predict(x, moment))
        self._work = NO_WORK
        self._note_work(trace, index)
        trace.phase[index], trace.action[index], trace.stepped[index] = FALLBACK, "none", 0
        trace.predict_ms[index], trace.adapt_ms[index] = predict_ms, 0.0
        self._note_predictions(trace, index, scores)
        return predict_ms

    def _untimed_scores(self, index: int, moment: Moment) -> torch.Tensor:
        if index not in self._ahead:
            group = range(index, min(index + self.tail_batches, self.stream.num_batches))
            x = torch.cat([self._batch(i) for i in group]) if len(group) > 1 else self._batch(index)
            with self._guard("predict"):
                scores = self._predict(x, moment)
            scores = checked_scores(self.label, scores, len(x), self._classes)
            self._ahead = dict(zip(group, scores.split(self.stream.batch_size), strict=True))
        return self._ahead.pop(index)

    def _note_work(self, trace: Trace, index: int) -> None:
        """The mode and amount of the batch's work, and the device's own factor on its times."""
        trace.mode[index], amount = self._work
        trace.amount[index] = math.nan if amount is None else amount
        trace.residual[index] = self.clock.residual(self.stream.name, self.stream.seed, index)
        self._work = NO_WORK

    def _on_device(
        self, times_ms: tuple[float, float], index: int, resolved: Resolved
    ) -> tuple[float, float]:
        """Steady times as this deployment meets them: with the device's own variation, where it asks for that."""
        if not resolved.residuals:
            return times_ms
        factor = self.clock.residual(self.stream.name, self.stream.seed, index)
        return times_ms if math.isnan(factor) else (times_ms[0] * factor, times_ms[1] * factor)

    def _note_predictions(self, trace: Trace, index: int, scores: torch.Tensor) -> None:
        """After the clock has stopped: what was predicted, and how much of it is right."""
        scores = checked_scores(self.label, scores, self.stream.batch_size, self._classes)
        if non_finite := int((~torch.isfinite(scores.amax(dim=1))).sum()):  # -inf rules classes out, and may
            self.non_finite_batches += 1
            self.non_finite_samples += non_finite
        note_predictions(trace, index, scores, self.stream)

    def _place(self, trace: Trace, timeline: Timeline) -> None:
        """Write the timeline's arrivals, starts, emissions and finishes into the rows."""
        course = timeline.course()
        timed = ~np.isnan(course.predict_ms)
        for name in ("arrived_ms", "start_ms", "emission_ms", "finish_ms"):
            getattr(trace, name)[course.served[timed]] = getattr(course, name)[timed]

    def _moment(
        self, now_ms: float, turn: Turn, timeline: Timeline, resolved: Resolved, emitted: bool = False
    ) -> Moment:
        """What a time-aware method may know; the others are not told and it is not worked out."""
        if not self.method.time_aware:
            return UNTOLD
        return moment_at(now_ms, turn, timeline, resolved, self._costs, emitted=emitted)

    def _named(self, index: int) -> Batch:
        _, at, runtime = self.label.partition("@")
        return Batch(
            self.times_as or self.label,
            self.times_as or self.method.name,
            self.stream.name,
            self.stream.seed,
            index,
            gradient_based=self.method.family == "gradient-based",
            reforwarded=None if self.method.acted_in_predict is None else self._acted_in_predict,
            work=self._read_work,
            frozen_as=f"standard{at}{runtime}" if self.method.stateless else "",
            free=self.method.free,
        )

    def _acted_in_predict(self) -> str:
        return str(self.method.acted_in_predict)

    def _read_work(self) -> Work:
        """What the method says that it just did; the batch keeps the last that is said about it."""
        found = work_of(self.method)
        if found != NO_WORK:
            self._work = found
        self._said = found
        return found

    def _mode_of(self, batch: Batch) -> str:
        """The mode of the call just made, which not every clock asks for."""
        found = batch.work() if self._said is None else self._said
        self._said = None
        return found[0]

    def _batch(self, index: int) -> torch.Tensor:
        return self.stream.batch(index)

    @property
    def _classes(self) -> int:
        return self.stream.num_classes or self.method.model.num_classes

    @cached_property
    def _guard(self) -> Guard:
        return Guard(self.label, self.timeout_s)

    def _go_through(self, x: torch.Tensor) -> None:
        """A batch that nobody times or scores."""
        with self._guard("predict"):
            self._predict(x, UNTOLD)
        with self._guard("adapt"):
            self._adapt(UNTOLD)

    def _reset(self) -> None:
        with self._guard("reset"):
            self.method.reset()

    def _freeze(self) -> None:
        with self._guard("freeze"):
            self.method.freeze()

    def _snapshot(self) -> Any:
        with self._guard("snapshot"):
            return self.method.snapshot()

    def _restore(self, saved: Any) -> None:
        with self._guard("restore"):
            self.method.restore(saved)

    def _predict(self, x: torch.Tensor, moment: Moment) -> torch.Tensor:
        return predict_at(self.method, x, moment)

    def _adapt(self, moment: Moment) -> str:
        return adapt_at(self.method, moment)

    def _report(self, trace: Trace, index: int) -> None:
        if self.progress is not None:
            self.progress(trace, index)
