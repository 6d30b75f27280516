"""One method over one stream, on the timeline of one deployment.

The engine owns the clock. It has the batch ready on the device, hands prediction and adaptation to the clock, and
looks at the predictions only after both are done. It never looks inside a method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tempora_tta.engine.calls import Calls
from tempora_tta.engine.predictions import note_predictions
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Moment
from tempora_tta.methods.apart import COLLECTED
from tempora_tta.methods.contract import UNTOLD
from tempora_tta.scenarios import Budget, Resolved, Timeline, Turn
from tempora_tta.store import ADAPTED, FALLBACK, FROZEN, Trace
from tempora_tta.store.trace import arrivals
from tempora_tta.timing.work import NO_WORK, Work

Progress = Callable[[Trace, int], None]
"""Called after every batch with the trace so far and the batch's index; may raise to stop the pass."""


class Row(NamedTuple):
    """One served batch: its scores, times and work. An attempt that is undone takes all of it along."""

    phase: int
    scores: Tensor
    predict_ms: float
    adapt_ms: float = 0.0
    action: str = "none"
    stepped: bool = False
    work: Work = NO_WORK

    def times(self, factor: float) -> tuple[float, float]:
        """Its times as a deployment meets them. Two products, as in a replay: a budget may end on a last digit."""
        return self.predict_ms * factor, 0.0 if math.isnan(self.adapt_ms) else self.adapt_ms * factor


@dataclass
class BudgetWatch:
    """Follows one budget through an offline pass and keeps the state that the model would have frozen in.

    Under `strict` the batch that overruns the budget is undone, so the state before every batch has to be kept
    until the budget is used up; under `overshoot` the state after the last allowed batch is enough.
    """

    deployment: Resolved
    budget: Budget = field(init=False)
    cutoff: int | None = None
    state: Any = None

    def __post_init__(self) -> None:
        self.budget = Budget(self.deployment.budget_ms, self.deployment.baseline_ms, self.deployment.rule)

    def before(self, index: int, snapshot: Callable[[], Any]) -> None:
        if self.cutoff is not None:
            return
        if not self.budget.allows_adaptation:
            self.cutoff, self.state = index, snapshot()
        elif self.budget.undoes:
            self.state = snapshot()

    def after(self, index: int, adapted: bool, predict_ms: float, adapt_ms: float) -> None:
        if self.cutoff is None and not self.budget.charge(predict_ms + adapt_ms if adapted else 0.0):
            self.cutoff = index


class LatestState:
    """Keeps the state after the last finished adapt(), which answers lost batches, frozen (fallback `latest`).

    On this pipeline (`charged`) that is the present state. On a device of its own (`free`) batches are lost while
    the next one is still being worked on, so the state before that one is kept too. A deployment has the copy at
    hand: nothing of this is inside the clock.
    """

    def __init__(self, calls: Calls, resolved: Resolved) -> None:
        self._calls = calls
        self.answers = resolved.fallback == "latest"
        self._looks_back = self.answers and resolved.fallback_cost == "free"
        self._before: Any = None
        self._finish_ms = float("-inf")

    def before(self, turn: Turn) -> None:
        """The pipeline takes a batch; a frozen model will be the same after it."""
        self._before = self._calls.snapshot() if self._looks_back and turn.adapting else None

    def served(self, finish_ms: float) -> None:
        """It is done with it, adapt() and all."""
        self._finish_ms = finish_ms

    def predict(self, turn: Turn, x: Tensor, moment: Moment) -> Tensor:
        """The scores that the method gives in the state of the turn's start, frozen."""
        now = self._calls.snapshot()
        if self._before is not None and turn.start_ms < self._finish_ms:
            self._calls.restore(self._before)
        self._calls.freeze()
        found = self._calls.scores(x, moment)
        self._calls.restore(now)
        return found


@dataclass
class Pass:
    """Makes traces of one method over its stream; each starts from a reset."""

    calls: Calls
    progress: Progress | None = None
    tail_batches: int = 1
    """Batches that a frozen model predicts at once where their times are not measured."""
    standard: Callable[[], Calls] | None = None
    """Standard over the same stream, ready to predict: a fallback takes its time, or is it."""
    non_finite_batches: int = field(default=0, init=False)
    """Served batches that have samples whose best score is not a finite number."""
    non_finite_samples: int = field(default=0, init=False)
    """Such samples."""
    _ahead: dict[int, Tensor] = field(default_factory=dict, init=False)
    """Scores of the next frozen batches, predicted together with one before them."""
    _last_adapting: int = field(default=-1, init=False)
    """The last batch that the method could adapt on."""

    def drive(self, deployment: Resolved, budgets: Iterable[BudgetWatch] = ()) -> Trace:
        """Serve the batches that the deployment's timeline says; each budget keeps the state in which it runs out."""
        timeline, trace, budgets = deployment.timeline(), self._begin(), list(budgets)
        latest, standard = LatestState(self.calls, deployment), self._standard_for(deployment)
        undoes = deployment.has_budget and deployment.rule == "strict"
        while (turn := timeline.next()) is not None:
            factor = self._factor(turn.batch, deployment)
            if turn.fallback and standard is None:  # guessed at random, which takes no time and has no scores
                timeline.record(0.0, 0.0)
                trace.phase[turn.batch], trace.stepped[turn.batch] = FALLBACK, 0
                trace.predict_ms[turn.batch] = trace.adapt_ms[turn.batch] = 0.0
                trace.residual[turn.batch] = self._residual(turn.batch)
                continue
            if turn.fallback and standard is not None:
                row = self._rescued(turn, standard, latest, self._moment(turn, timeline, deployment))
                timeline.record(*row.times(factor))
                self._write(trace, turn.batches, row)
                continue
            snapshot = cache(self.calls.snapshot)  # all that keep the state before this batch share it
            for budget in budgets:
                budget.before(turn.batch, snapshot)
            latest.before(turn)
            before = snapshot() if undoes and turn.adapting else None
            row = self._serve(turn, timeline, deployment, factor)
            if not timeline.record(*row.times(factor), adapted=row.phase == ADAPTED):
                self.calls.restore(before)  # strict: over budget, so it never happened
                trace.attempt_predict_ms[turn.batch] = row.predict_ms
                trace.attempt_adapt_ms[turn.batch] = row.adapt_ms
                row = self._serve(turn._replace(adapting=False), timeline, deployment, factor)
                timeline.record(*row.times(factor), adapted=False)
            elif turn.adapting:
                latest.served(timeline.free_ms)
            for budget in budgets:
                budget.after(
                    turn.batch, row.phase == ADAPTED, *row.times(self._factor(turn.batch, budget.deployment))
                )
            self._write(trace, turn.batches, row)
        _place(trace, timeline)
        trace.arrived_ms[:] = arrivals(deployment, trace.arrived_ms)
        return trace

    def tail(self, cutoff: int, state: Any, timed: bool) -> Trace:
        """Predict the batches from `cutoff` on with the model frozen there.

        Without its `state` (a resumed run has lost it) the batches before the cut-off are gone through again.
        """
        trace = self._begin()
        if state is None:
            for index in range(cutoff):
                self._reset_for(index)
                self.calls.go_through(self.calls.stream.batch(index))
        else:
            self.calls.restore(state)
        self.calls.freeze()
        for index in range(cutoff, trace.num_batches):
            self._write(trace, (index,), self._frozen((index,), timed, in_order=True))
        return trace

    def _begin(self) -> Trace:
        self.calls.begin()
        self.non_finite_batches = self.non_finite_samples = 0
        self._ahead.clear()
        self._last_adapting = -1
        return Trace.empty(self.calls.stream.num_batches, self.calls.stream.batch_size)

    def _serve(self, turn: Turn, timeline: Timeline, deployment: Resolved, factor: float) -> Row:
        """Predict a batch and adapt on it; or, where the budget is used up, only predict it with the frozen model."""
        if turn.adapting:
            return self._adapting(turn, timeline, deployment, factor)
        self.calls.freeze()
        timed = self.calls.clock.looks_up or not deployment.untimed_tail
        return self._frozen(
            turn.batches, timed, in_order=deployment.waits, moment=self._moment(turn, timeline, deployment)
        )

    def _adapting(self, turn: Turn, timeline: Timeline, deployment: Resolved, factor: float) -> Row:
        calls, index = self.calls, turn.batch
        self._reset_for(turn.batches[-1])
        x = self._images(turn.batches)
        moment = self._moment(turn, timeline, deployment)
        froze_itself = calls.method.frozen
        scores, predict_ms = calls.predict(index, x, moment, froze_itself)
        said = calls.said
        now_ms = turn.start_ms + predict_ms * factor
        action, adapt_ms = calls.adapt(index, calls.moment(now_ms, turn, timeline, deployment, emitted=True))
        calls.count(said[0], predict_ms * factor, action, adapt_ms * factor)
        work = said if calls.said == NO_WORK else calls.said
        stepped = not froze_itself and calls.method.learned(action)
        return Row(FROZEN if froze_itself else ADAPTED, scores, predict_ms, adapt_ms, action, stepped, work)

    def _images(self, batches: Sequence[int]) -> Tensor:
        """Frames that are answered at once are one batch."""
        own = [self.calls.stream.batch(index) for index in batches]
        return own[0] if len(own) == 1 else torch.cat(own)

    def _frozen(self, batches: Sequence[int], timed: bool, in_order: bool, moment: Moment = UNTOLD) -> Row:
        """`in_order`: every batch after this one will be served too, so that some may be predicted ahead."""
        calls, index = self.calls, batches[0]
        if timed and not (calls.clock.looks_up and in_order):
            return Row(FROZEN, *calls.predict(index, self._images(batches), moment, frozen=True))
        scores = self._scores_ahead(index, moment)
        if timed:
            return Row(FROZEN, scores, calls.frozen_ms(index))
        return Row(FROZEN, scores, math.nan, math.nan)

    def _rescued(self, turn: Turn, standard: Calls, latest: LatestState, moment: Moment) -> Row:
        """Answer a lost batch, by Standard or in the latest state, in the time that Standard takes."""
        x = self.calls.stream.batch(turn.batch)
        scores, predict_ms = standard.predict(turn.batch, x, UNTOLD)
        return Row(FALLBACK, latest.predict(turn, x, moment) if latest.answers else scores, predict_ms)

    def _scores_ahead(self, index: int, moment: Moment) -> Tensor:
        """Scores of a frozen batch, several predicted at once where no prediction changes by it."""
        stream = self.calls.stream
        if index not in self._ahead:
            group = range(index, min(index + self.tail_batches, stream.num_batches))
            batches = [stream.batch(i) for i in group]
            x = torch.cat(batches) if len(batches) > 1 else batches[0]
            scores = self.calls.checked(self.calls.scores(x, moment), len(x))
            self._ahead = dict(zip(group, scores.split(stream.batch_size), strict=True))
        return self._ahead.pop(index)

    def _reset_for(self, index: int) -> None:
        """Apply the stream's own reset before a batch, also if it was due at one that was skipped since.

        It takes no time and leaves a frozen model alone. What a budget freezes in is the state before it.
        """
        if (
            self.calls.stream.order.resets_between(self._last_adapting, index)
            and not self.calls.method.frozen
        ):
            self.calls.reset()
        self._last_adapting = index

    def _standard_for(self, deployment: Resolved) -> Calls | None:
        """Standard, where a fallback answers lost batches: made before the first batch, not while one waits."""
        if deployment.waits or not deployment.takes_standards_time:
            return None
        if self.standard is None:
            raise TemporaError(
                f"fallback={deployment.fallback!r} takes Standard's time, and this pass has no Standard"
            )
        return self.standard()

    def _moment(self, turn: Turn, timeline: Timeline, deployment: Resolved) -> Moment:
        return self.calls.moment(turn.start_ms, turn, timeline, deployment)

    def _residual(self, index: int) -> float:
        return self.calls.clock.residual(self.calls.stream.name, self.calls.stream.seed, index)

    def _factor(self, index: int, deployment: Resolved) -> float:
        """The device's own variation of a batch's times, where the deployment asks for it; else 1."""
        factor = self._residual(index) if deployment.residuals else 1.0
        return 1.0 if math.isnan(factor) else factor

    def _write(self, trace: Trace, batches: Sequence[int], row: Row) -> None:
        """Write what a turn answered into the trace, after the clock has stopped."""
        size = self.calls.stream.batch_size
        scores = self.calls.checked(row.scores, size * len(batches)).split(size)
        action = COLLECTED if row.phase == ADAPTED else row.action
        answered = row._replace(adapt_ms=0.0, action=action, stepped=False)
        residual = self._residual(batches[0])
        for index, own in zip(batches, scores, strict=True):
            last = (
                row if index == batches[-1] else answered
            )  # what adapts does after the answer to all of them
            self._write_one(trace, index, last._replace(scores=own), residual)

    def _write_one(self, trace: Trace, index: int, row: Row, residual: float) -> None:
        scores = row.scores
        if non_finite := int((~torch.isfinite(scores.amax(dim=1))).sum()):  # -inf rules classes out, and may
            self.non_finite_batches += 1
            self.non_finite_samples += non_finite
        note_predictions(trace, index, scores, self.calls.stream)
        trace.phase[index], trace.action[index], trace.stepped[index] = row.phase, row.action, row.stepped
        trace.predict_ms[index], trace.adapt_ms[index] = row.predict_ms, row.adapt_ms
        trace.mode[index], amount = row.work
        trace.amount[index] = math.nan if amount is None else amount
        trace.residual[index] = residual
        if self.progress is not None:
            self.progress(trace, index)


def _place(trace: Trace, timeline: Timeline) -> None:
    """Write the timeline's arrivals, starts, emissions and finishes into the rows."""
    course = timeline.course()
    timed = ~np.isnan(course.predict_ms)
    for name in ("arrived_ms", "start_ms", "emission_ms", "finish_ms"):
        getattr(trace, name)[course.served[timed]] = getattr(course, name)[timed]
