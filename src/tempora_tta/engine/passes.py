"""A pass: one method over one stream, on the clock of one deployment.

The engine owns the clock. It has the batch ready on the device, hands prediction and adaptation to the clock,
and looks at the predictions only after both are done. It never looks inside a method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

from tempora_tta.data import Stream
from tempora_tta.engine.kept_states import BudgetWatch, LatestState
from tempora_tta.engine.moments import moment_at
from tempora_tta.engine.predictions import note_predictions
from tempora_tta.engine.timed_method import TimedMethod
from tempora_tta.errors import TemporaError
from tempora_tta.measure import Clock
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.contract import UNTOLD
from tempora_tta.scenarios import Resolved, Timeline, Turn
from tempora_tta.store import ADAPTED, FALLBACK, FROZEN, Trace
from tempora_tta.store.trace import arrivals

Progress = Callable[[Trace, int], None]
"""Called after every batch with the trace so far and the batch's index; may raise to stop the pass."""


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
    standard: Callable[[], TimedMethod] | None = None
    """Standard over the same stream, ready to predict: a fallback takes its time, or is it."""
    timeout_s: float | None = None
    """How long one call into the method may take; None: for ever."""
    non_finite_batches: int = field(default=0, init=False)
    """Served batches that have samples whose best score is not a finite number."""
    non_finite_samples: int = field(default=0, init=False)
    """Such samples."""
    _timed: TimedMethod = field(init=False)
    _ahead: dict[int, torch.Tensor] = field(default_factory=dict, init=False)
    """Scores of the tail's next batches, predicted together with one before them."""
    _last_adapting: int = field(default=-1, init=False)
    """The last batch that the method could adapt on."""

    def __post_init__(self) -> None:
        self._timed = TimedMethod(
            self.method, self.label, self.stream, self.clock, self.times_as, self.timeout_s
        )

    def warm_up(self, batches: int) -> None:
        """Take the method through the first batches, so that no timed one pays for what is done the first time."""
        self._timed.warm_up(batches)

    def live(self, resolved: Resolved) -> Trace:
        """Drive the deployment's timeline: serve what it says, tell it how long that took."""
        timeline = resolved.timeline()
        trace = self._fresh_trace()
        latest, standard = LatestState(self._timed, resolved), self._standard_for(resolved)
        undoes = resolved.has_budget and resolved.rule == "strict"
        while (turn := timeline.next()) is not None:
            if turn.fallback and standard is not None:
                moment = self._moment(turn.start_ms, turn, timeline, resolved)
                self._serve_lost(trace, turn, standard, latest, moment)
                self._record(timeline, trace, turn.batch, resolved)
                continue
            latest.before(turn)
            before = self._timed.snapshot() if undoes and turn.adapting else None
            if turn.adapting:
                self._serve_adapting(trace, turn, timeline, resolved)
                if self._record(timeline, trace, turn.batch, resolved):
                    latest.served(timeline.free_ms)
                    continue
                trace.attempt_predict_ms[turn.batch] = trace.predict_ms[turn.batch]
                trace.attempt_adapt_ms[turn.batch] = trace.adapt_ms[turn.batch]
                self._timed.restore(before)
            self._timed.freeze()
            timed = self.clock.fills_tails or not resolved.untimed_tail
            moment = self._moment(turn.start_ms, turn, timeline, resolved)
            self._serve_frozen(trace, turn.batch, timed, in_order=resolved.waits, moment=moment)
            self._record(timeline, trace, turn.batch, resolved)
        self._place(trace, timeline)
        trace.arrived_ms[:] = arrivals(resolved, trace.arrived_ms)
        return trace

    def offline(self, resolved: Resolved, watches: Iterable[BudgetWatch] = ()) -> Trace:
        """Adapt on every batch, and let each watch keep the state its budget would have frozen."""
        timeline = resolved.timeline()
        trace = self._fresh_trace()
        watches = list(watches)
        while (turn := timeline.next()) is not None:
            snapshot = cache(self._timed.snapshot)  # the watches of one batch share it
            for watch in watches:
                watch.before(turn.batch, snapshot)
            self._serve_adapting(trace, turn, timeline, resolved)
            for watch in watches:
                adapted = bool(trace.phase[turn.batch] == ADAPTED)
                watch.after(turn.batch, sum(_as_met(trace, turn.batch, watch.residuals)) if adapted else 0.0)
            self._record(timeline, trace, turn.batch, resolved)
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
                self._timed.go_through(self.stream.batch(index))
        else:
            self._timed.restore(state)
        self._timed.freeze()
        for index in range(cutoff, self.stream.num_batches):
            self._serve_frozen(trace, index, timed, in_order=True)
            self._report(trace, index)
        return trace

    def _fresh_trace(self) -> Trace:
        self._timed.begin()
        self.non_finite_batches = self.non_finite_samples = 0
        self._ahead.clear()
        self._last_adapting = -1
        return Trace.empty(self.stream.num_batches, self.stream.batch_size)

    def _reset_for(self, index: int) -> None:
        """The stream's own reset before a batch, also if it was due at one that was skipped since.

        It takes no time and leaves a frozen model alone. What a budget freezes in is the state before it.
        """
        if self.stream.order.resets_between(self._last_adapting, index) and not self.method.frozen:
            self._timed.reset()
        self._last_adapting = index

    def _serve_adapting(self, trace: Trace, turn: Turn, timeline: Timeline, resolved: Resolved) -> None:
        index = turn.batch
        self._reset_for(index)
        x = self.stream.batch(index)
        moment = self._moment(turn.start_ms, turn, timeline, resolved)
        faults = self.clock.faults()
        froze_itself = self.method.frozen
        scores, predict_ms = self._timed.predict(index, x, moment, froze_itself)
        mode, factor = self._timed.mode(), self._factor(index, resolved)
        moment = self._moment(turn.start_ms + predict_ms * factor, turn, timeline, resolved, emitted=True)
        action, adapt_ms = self._timed.adapt(index, moment)
        trace.page_faults[index] = self.clock.faults() - faults if faults >= 0 else -1
        self._timed.count(mode, predict_ms * factor, action, adapt_ms * factor)
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
        trace.page_faults[index] = -1
        if timed and self.clock.fills_tails and in_order:
            # The time is looked up, so the batch need not be predicted by itself.
            scores = self._untimed_scores(index, moment)
            trace.predict_ms[index], trace.adapt_ms[index] = self._timed.looked_up_ms(index), 0.0
        elif timed:
            x = self.stream.batch(index)
            faults = self.clock.faults()
            scores, trace.predict_ms[index] = self._timed.predict(index, x, moment, frozen=True)
            if faults >= 0:
                trace.page_faults[index] = self.clock.faults() - faults
            trace.adapt_ms[index] = 0.0
        else:
            scores = self._untimed_scores(index, moment)
            trace.predict_ms[index] = trace.adapt_ms[index] = math.nan
        self._note_work(trace, index)
        trace.phase[index] = FROZEN
        trace.action[index], trace.stepped[index] = "none", 0
        self._note_predictions(trace, index, scores)

    def _standard_for(self, resolved: Resolved) -> TimedMethod | None:
        """Standard, where a fallback answers lost batches: made before the first batch, not while one waits."""
        if resolved.fallback is None or resolved.waits:
            return None
        if self.standard is None:
            raise TemporaError(
                f"fallback={resolved.fallback!r} takes Standard's time, and there is no Standard beside this pass"
            )
        return self.standard()

    def _serve_lost(
        self, trace: Trace, turn: Turn, standard: TimedMethod, latest: LatestState, moment: Moment
    ) -> None:
        """Answer a lost batch, by Standard or in the latest state, in the time that Standard takes."""
        index = turn.batch
        x = self.stream.batch(index)
        scores, predict_ms = standard.predict(index, x, UNTOLD, frozen=False)
        if latest.answers:
            scores = latest.predict(turn, x, moment)
        self._timed.take_work()  # a fallback's is none of the method's
        self._note_work(trace, index)
        trace.phase[index], trace.action[index], trace.stepped[index] = FALLBACK, "none", 0
        trace.predict_ms[index], trace.adapt_ms[index] = predict_ms, 0.0
        self._note_predictions(trace, index, scores)

    def _untimed_scores(self, index: int, moment: Moment) -> torch.Tensor:
        if index not in self._ahead:
            group = range(index, min(index + self.tail_batches, self.stream.num_batches))
            batches = [self.stream.batch(i) for i in group]
            x = torch.cat(batches) if len(batches) > 1 else batches[0]
            scores = self._timed.checked(self._timed.scores(x, moment), len(x))
            self._ahead = dict(zip(group, scores.split(self.stream.batch_size), strict=True))
        return self._ahead.pop(index)

    def _note_work(self, trace: Trace, index: int) -> None:
        """The mode and amount of the batch's work, and the device's own factor on its times."""
        trace.mode[index], amount = self._timed.take_work()
        trace.amount[index] = math.nan if amount is None else amount
        trace.residual[index] = self.clock.residual(self.stream.name, self.stream.seed, index)

    def _factor(self, index: int, resolved: Resolved) -> float:
        """The device's own variation of this batch's times, where the deployment asks for it; else 1."""
        factor = self.clock.residual(self.stream.name, self.stream.seed, index) if resolved.residuals else 1.0
        return 1.0 if math.isnan(factor) else factor

    def _note_predictions(self, trace: Trace, index: int, scores: torch.Tensor) -> None:
        """After the clock has stopped: what was predicted, and how much of it is right."""
        scores = self._timed.checked(scores, self.stream.batch_size)
        if non_finite := int((~torch.isfinite(scores.amax(dim=1))).sum()):  # -inf rules classes out, and may
            self.non_finite_batches += 1
            self.non_finite_samples += non_finite
        note_predictions(trace, index, scores, self.stream)

    def _record(self, timeline: Timeline, trace: Trace, index: int, resolved: Resolved) -> bool:
        """Tell the timeline how long the batch took, and whoever watches that it is through; False, and nobody is
        told: it overran the budget and is to be undone."""
        predict_ms, adapt_ms = _as_met(trace, index, resolved.residuals)
        stands = timeline.record(predict_ms, adapt_ms, adapted=bool(trace.phase[index] == ADAPTED))
        if stands:
            self._report(trace, index)
        return stands

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
        return moment_at(now_ms, turn, timeline, resolved, self._timed.costs, emitted=emitted)

    def _report(self, trace: Trace, index: int) -> None:
        if self.progress is not None:
            self.progress(trace, index)


def _as_met(trace: Trace, index: int, residuals: bool) -> tuple[float, float]:
    """A batch's steady times as a deployment meets them: with the device's own variation, where it asks for that.

    Two products, as a replay has them: a budget may end on a last digit.
    """
    factor = float(np.nan_to_num(trace.residual[index], nan=1.0)) if residuals else 1.0
    adapt_ms = float(np.nan_to_num(trace.adapt_ms[index], nan=0.0))  # of an untimed tail
    return float(trace.predict_ms[index]) * factor, adapt_ms * factor
