"""Who answers in a live pipeline: the method, and Standard where it cannot."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tempora_tta.engine.calls import Costs
from tempora_tta.engine.pipeline.attempts import failure_of, reason, tried
from tempora_tta.engine.pipeline.live_time import LiveClock
from tempora_tta.engine.pipeline.requests import Unit
from tempora_tta.engine.pipeline.scores import (
    NOT_FINITE,
    NotUsable,
    Outcome,
    Refused,
    cannot_take,
    on_host,
    usable,
)
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.contract import UNTOLD, checked_action
from tempora_tta.methods.guard import Guard
from tempora_tta.scenarios import Turn
from tempora_tta.timing.device import synchroniser
from tempora_tta.timing.work import work_of

WARM_UP_BATCHES = 3
SIZES_S = 20.0
"""At most so long for meeting all sizes of a batch before the first request."""


class Operator:
    """The method of a pipeline, Standard, and their device. Used by the worker thread alone.

    The guard and the checks of a run stand around every call into the method: what would fail it there gives it up
    here.
    """

    def __init__(
        self,
        method: Method,
        standard: Method,
        *,
        fallback: str | None = None,
        example: Tensor | None = None,
        make: Callable[[], Method] | None = None,
    ) -> None:
        """`make`: another method like this one, for the time when a call never returns from this one."""
        self.method, self.standard = method, standard
        self.device = method.model.device
        self._synchronise = synchroniser(self.device)
        self._fallback = fallback
        self._example = example
        self._make = make
        self.left_behind = False
        """A thread hangs in a call of the method, and may go on with it at any time."""
        self._guard = Guard(method.name, own_thread=True)
        self._froze_it = False
        """The budget is used up: it was not the method that froze itself."""
        self._learns_from_parts = False
        """It steps on as many samples of a batch as it keeps, as far as its warm-up showed."""

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def is_standard(self) -> bool:
        return self.method.name == self.standard.name

    @property
    def identity(self) -> dict[str, str]:
        """What has to be the same where a state is loaded."""
        model = self.method.model
        return {
            "method": self.method.name,
            "settings": repr(self.method.settings),
            "model": model.name,
            "weights": self._weights,
        }

    @cached_property
    def _weights(self) -> str:
        """Of the source, which Standard keeps as they are."""
        return self.standard.model.weights_hash()[:16]

    def facts(self) -> dict[str, Any]:
        froze_itself = self.method.frozen and not self._froze_it
        return {**self.identity, "device": self.device.type, "froze_itself": froze_itself}

    @property
    def adapts_in_predict(self) -> bool:
        """Its prediction holds the adaptation and is what that costs."""
        return self.method.action_in_predict is not None

    @property
    def _done_with_the_answer(self) -> bool:
        """Its adapt() is the contract's own, which does nothing, so that it need not be called: all of its work is in
        the prediction, which the answer has waited for."""
        left_as_it_is = getattr(self.method.adapt, "__func__", None) is Method.adapt
        return left_as_it_is and not self.method.time_aware

    def mode(self) -> str:
        """The mode of the work just done."""
        return work_of(self.method)[0]

    def warm_up(
        self, clock: LiveClock, costs: Costs, goes_on: Callable[[], None] = lambda: None
    ) -> str | None:
        """Take both through an example, frozen once too, so that no client pays for what is done the first time, and
        count what the method's work takes. `goes_on` is called before whatever may take long.

        Says why the method is not to be asked at all, if that shows here. Nobody else is at work yet, so this is
        where state of the whole process is looked at, too.
        """
        if self._example is None:
            return None
        guard, failure = Guard(self.name), None
        for _ in range(WARM_UP_BATCHES):
            goes_on()
            on_host(self.standard.predict(self._example))
            goes_on()
            failure = failure or self._gone_through(self._example, guard, clock, costs)
        goes_on()
        failure = failure or failure_of(self.method, "freeze", self.method.freeze, guard)
        if failure is None:
            _, failure = tried(self.method, self._example, lambda: UNTOLD, guard)
        failure = failure or failure_of(self.method, "reset", self.method.reset, guard)
        if failure is None and self._learns_from_parts and self.device.type == "cuda":
            self._meet_sizes(self._example, goes_on)
        self._synchronise()
        return failure

    def _meet_sizes(self, x: Tensor, goes_on: Callable[[], None] = lambda: None) -> None:
        """Take the network forward and back through every size of a batch, the larger ones first.

        A GPU's library looks for a way to compute a convolution when its shape comes for the first time in a thread,
        which takes as long as several batches; a method that steps on what it keeps meets one shape after the other.
        """
        begin_s = time.monotonic()
        for size in range(len(x), 0, -1):
            goes_on()
            part = x[:size].clone().requires_grad_()
            with torch.enable_grad():
                scores = self.standard.model(part)
            torch.autograd.grad(scores.sum(), part)
            self._synchronise()
            if time.monotonic() - begin_s > SIZES_S:
                break

    def answer(self, turn: Turn, unit: Unit, moment: Callable[[], Moment], standing: bool) -> Outcome:
        """Scores of a batch, in the processor's memory. `standing`: the method was not replaced."""
        refused = [request for request in unit.requests if not request.is_finite]
        kept = Unit([request for request in unit.requests if request not in refused]) if refused else unit
        if not kept.requests:
            return Outcome(Refused(NOT_FINITE), "frozen")
        x = kept.inputs()
        try:
            if turn.fallback:
                outcome = self._answer_lost(x, moment, standing)
            elif standing:
                outcome = self._by_method(turn, x, moment)
            else:
                outcome = Outcome(self._by_standard(x), "frozen", by_standard=True)
        except BaseException as error:
            return Outcome(Refused(cannot_take(error)), "fallback" if turn.fallback else "frozen")
        outcome.refused = refused
        return outcome

    def adapt(self, method: Method, moment: Callable[[], Moment]) -> tuple[str, str | None]:
        """The rest of the work on the last batch, by the method that it was begun with: what was done, or why it is
        not to be asked again."""
        try:
            action = self._adapt(method, moment, self._guard)
            self._synchronise()
        except BaseException as error:
            return "none", reason(method, "adapt", error)
        return action, None

    def snapshot(self) -> Any:
        """The method's state, to be saved."""
        try:
            return self.method.snapshot()
        except Exception as error:
            raise TemporaError(
                f"{self.name} has no state that could be saved ({reason(self.method, 'snapshot', error)}): mend its "
                "snapshot()"
            ) from error

    def ready_to_load(self) -> None:
        """A method that a hanging call may go on to change is left to that call, and another takes its place."""
        if not self.left_behind:
            return
        try:
            if self._make is None:
                raise TemporaError("nobody said how")
            self.method = self._make()
        except TemporaError as error:
            raise TemporaError(
                f"a call of {self.name} hangs and may change whatever is loaded into it, and another cannot be made "
                f"({error}): deploy again, and load there"
            ) from None
        self.left_behind = False

    def restore(self, snapshot: Any, own: Any, place: str) -> None:
        """Go on from a snapshot; `own` is the present state, which stays if the other does not fit."""
        try:
            self.method.restore(snapshot)
            self._synchronise()
        except Exception as error:
            self.method.restore(own)
            raise TemporaError(
                f"{place} does not fit {self.method.name} on {self.method.model.name} ({error}): deploy what it was "
                "saved from"
            ) from None
        self._froze_it = False

    def _by_method(self, turn: Turn, x: Tensor, moment: Callable[[], Moment]) -> Outcome:
        scores, failure = None, None
        if not turn.adapting and not self.method.frozen:
            failure = failure_of(self.method, "freeze", self.method.freeze, self._guard)
            self._froze_it = failure is None
        froze_itself = self.method.frozen
        if failure is None:
            scores, failure = tried(self.method, x, moment, self._guard)
        if scores is None:  # where Standard fails too, the batch is at fault
            return Outcome(self._by_standard(x), "frozen", by_standard=True, failure=failure)
        adapts = turn.adapting and not self._done_with_the_answer
        return Outcome(scores, "frozen" if froze_itself else "adapt", adapts=adapts, by_method=True)

    def _by_standard(self, x: Tensor) -> Tensor:
        return usable(self.standard.predict(x), len(x), self.standard)

    def _answer_lost(self, x: Tensor, moment: Callable[[], Moment], standing: bool) -> Outcome:
        if self._fallback != "latest":
            return Outcome(self._by_standard(x), "fallback")
        scores, failure = self._by_latest(x, moment) if standing else (None, None)
        if scores is None:
            return Outcome(self._by_standard(x), "fallback", by_standard=True, failure=failure)
        return Outcome(scores, "fallback", by_method=True, failure=failure)

    def _by_latest(self, x: Tensor, moment: Callable[[], Moment]) -> tuple[Tensor | None, str | None]:
        """The method's scores, frozen for this batch alone."""
        method, guard, kept = self.method, self._guard, list[Any]()
        failure = failure_of(method, "snapshot", lambda: kept.append(method.snapshot()), guard)
        failure = failure or failure_of(method, "freeze", method.freeze, guard)
        if failure is not None:
            return None, failure
        scores, failure = tried(method, x, moment, guard)
        return scores, failure or failure_of(method, "restore", lambda: method.restore(kept[0]), guard)

    def _gone_through(self, x: Tensor, guard: Guard, clock: LiveClock, costs: Costs) -> str | None:
        """A batch that nobody waits for; why the method is not to be asked again."""
        began_ms = clock.now_ms()
        scores, failure = tried(self.method, x, lambda: UNTOLD, guard)
        if scores is None:
            return failure
        emission_ms = clock.now_ms()
        costs.predicted(self.mode(), emission_ms - began_ms)
        try:
            action = self._adapt(self.method, lambda: UNTOLD, guard)
        except BaseException as error:
            return reason(self.method, "adapt", error)
        self._synchronise()
        begun_ms = began_ms if self.adapts_in_predict else emission_ms
        mode, amount = work_of(self.method)
        costs.adapted(mode, action, clock.now_ms() - begun_ms)
        in_part = amount is not None and amount < len(x)
        self._learns_from_parts |= in_part and self.method.family == "gradient-based"
        return None

    def _adapt(self, method: Method, moment: Callable[[], Moment], guard: Guard) -> str:
        adapt: Any = method.adapt
        with guard("adapt"):
            action = adapt(moment()) if method.time_aware else adapt()
        try:
            return checked_action(self.name, action)
        except TemporaError as error:
            raise NotUsable(str(error)) from None
