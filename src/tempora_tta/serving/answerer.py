"""The answers to batches: by the method, and by Standard where the method cannot."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tempora_tta.engine.calls import Costs
from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.contract import UNTOLD, adapt_at, checked_action, checked_scores, predict_at
from tempora_tta.methods.guard import Guard, Misbehaved
from tempora_tta.methods.state import GeneratorState
from tempora_tta.scenarios import Turn
from tempora_tta.serving.clock import LiveClock
from tempora_tta.serving.saved_state import Facts
from tempora_tta.timing.device import synchroniser
from tempora_tta.timing.work import work_of

WARM_UP_BATCHES = 3
SIZES_S = 20.0
"""Longest time for meeting all sizes of a batch before the first request."""

T = TypeVar("T")


class NotUsable(TemporaError):
    """Scores that no client could use, or an action that is no word."""


class Failed(Exception):
    """A call into the method failed, and another is not to be made."""


@dataclass
class Answer:
    """Scores of a batch, or why it has none."""

    scores: Tensor | TemporaError
    """In the processor's memory; an error where not even Standard could answer, so that the batch is at fault."""
    phase: str
    """adapt, frozen or fallback."""
    adapts: bool = False
    """adapt() is to follow; a method that froze itself is asked, too, as in a run."""
    by_method: bool = False
    by_standard: bool = False
    """Standard stood in for the method."""


class Answerer:
    """A method, and Standard to stand in for it. Used by the worker thread alone; knows neither queue nor lock.

    The guard and the checks of a run stand around every call into the method: what would fail the method there has it
    replaced by Standard here.
    """

    def __init__(self, method: Method, standard: Method, fallback: str | None = None) -> None:
        self.method, self.standard = method, standard
        self.device = method.model.device
        self.costs = Costs()
        """Times of the method's work so far, for methods that want to know."""
        self.failure: str | None = None
        """The reason for which Standard replaced the method; None: it did not."""
        self._fallback = fallback
        self._synchronise = synchroniser(self.device)
        # Other threads are at work, too: only what belongs to the worker's own can be the method's doing.
        self._guard = Guard(method.name, own_thread=True)
        self._froze_it = False
        """The budget is used up: the method did not freeze itself."""

    @cached_property
    def identity(self) -> dict[str, str]:
        """Facts that have to be the same where a state is loaded. Standard keeps the weights as they were given."""
        return {
            "method": self.method.name,
            "settings": repr(self.method.settings),
            "model": self.method.model.name,
            "weights": self.standard.model.weights_hash()[:16],
        }

    def facts(self, spent_ms: float) -> Facts:
        """Facts that are kept with a saved state."""
        froze_itself = self.method.frozen and not self._froze_it
        return Facts(**self.identity, device=self.device.type, froze_itself=froze_itself, spent_ms=spent_ms)

    def replace(self, failure: str) -> None:
        """Have Standard answer from now on; said once."""
        if self.failure is None and self.method.name != self.standard.name:
            self.failure = failure
            say(
                f"{self.method.name} was replaced by Standard: {failure}. Answers go on without adaptation; "
                "load() of a saved state brings the method back"
            )

    def answer(self, x: Tensor, turn: Turn, moment: Callable[[], Moment]) -> Answer:
        """Scores of a batch: by the method, or else by Standard. Its phase says whether the method was learning."""
        asked = not turn.fallback or self._fallback == "latest"
        failure, phase = None, "fallback" if turn.fallback else "frozen"
        try:
            if asked and self.failure is None:
                try:
                    return self._by_latest(x, moment) if turn.fallback else self._by_method(x, turn, moment)
                except Failed as failed:
                    failure = str(failed)
                except TemporaError:  # this batch does not suit the method (too small, say); the next one may
                    pass
            scores = usable(self.standard.predict(x), len(x), self.standard)
        except BaseException as error:
            if not isinstance(error, TemporaError) or isinstance(error, NotUsable):
                error = TemporaError(f"the network cannot answer this batch: {type(error).__name__}: {error}")
            return Answer(error, phase)
        if failure is not None:  # what Standard can answer, the method should
            self.replace(failure)
        return Answer(scores, phase, by_standard=asked)

    def adapt(self, moment: Callable[[], Moment]) -> str:
        """Do the rest of the work on the last batch; says what was done."""
        try:
            return self._adapt(moment)
        except Failed as failed:
            self.replace(str(failed))
            return "none"

    def count_prediction(self, predict_ms: float) -> None:
        """Note what the prediction just made took."""
        self.costs.predicted(work_of(self.method)[0], predict_ms)

    def count_adaptation(self, action: str, predict_ms: float, adapt_ms: float) -> float | None:
        """Note what the adaptation just done took; returns how much it was of, if the method says so."""
        mode, amount = work_of(self.method)
        # A prediction that holds the adaptation is part of what the adaptation costs.
        held = self.method.action_in_predict is not None
        self.costs.adapted(mode, action, predict_ms + adapt_ms if held else adapt_ms)
        return amount

    def warm_up(self, example: Tensor, clock: LiveClock) -> None:
        """Take both through an example, adapting and frozen, so that no client pays for what is done the first time,
        and count what the method's work takes.

        No other thread is at work yet, so this is where state of the whole process is looked at, too.
        """
        self._guard, guard = Guard(self.method.name), self._guard
        learns_from_parts = False
        try:
            for _ in range(WARM_UP_BATCHES):
                on_host(self.standard.predict(example))
                learns_from_parts |= self._go_through(example, clock)
            self._call("freeze", self.method.freeze)
            with suppress(TemporaError):
                self._predicted(example, lambda: UNTOLD)
            self._call("reset", self.method.reset)
        except Failed as failed:
            self.replace(str(failed))
        self._guard = guard
        if learns_from_parts and self.failure is None and self.device.type == "cuda":
            self._meet_sizes(example)
        self._synchronise()

    def snapshot(self) -> Any:
        """The method's state, to be saved."""
        if self.failure is not None:
            raise TemporaError(f"nothing to save: the method was replaced by Standard ({self.failure})")
        try:
            return self.method.snapshot()
        except Exception as error:
            raise TemporaError(
                f"{self.method.name} has no state that could be saved (snapshot() raised {type(error).__name__}: "
                f"{error}): mend its snapshot()"
            ) from error

    def restore(self, snapshot: Any, facts: Facts, place: str) -> None:
        """Go on from a saved state, with the method, if it was replaced. The present state stays if that one does not
        fit."""
        own = self.method.snapshot()
        try:
            if facts.device != self.device.type:
                snapshot = _with_own_generators(snapshot, own)
            self.method.restore(snapshot)
            self._synchronise()
        except Exception as error:
            self.method.restore(own)
            raise TemporaError(
                f"{place} does not fit {self.method.name} on {self.method.model.name} ({error}): deploy what it was "
                "saved from"
            ) from None
        if not facts.froze_itself:
            self.method.unfreeze()
        self._froze_it, self.failure = False, None

    def _by_method(self, x: Tensor, turn: Turn, moment: Callable[[], Moment]) -> Answer:
        if not turn.adapting and not self.method.frozen:
            self._call("freeze", self.method.freeze)
            self._froze_it = True
        phase = "frozen" if self.method.frozen else "adapt"
        adapts = turn.adapting and not self._done_with_the_answer
        return Answer(self._predicted(x, moment), phase, adapts, by_method=True)

    def _by_latest(self, x: Tensor, moment: Callable[[], Moment]) -> Answer:
        """Ask the method, frozen for this batch alone."""
        kept = self._call("snapshot", self.method.snapshot)
        self._call("freeze", self.method.freeze)
        try:
            return Answer(self._predicted(x, moment), "fallback", by_method=True)
        finally:
            self._call("restore", lambda: self.method.restore(kept))

    @property
    def _done_with_the_answer(self) -> bool:
        """adapt() is not overridden, so it is not called: all of the work is in the prediction."""
        return getattr(self.method.adapt, "__func__", None) is Method.adapt and not self.method.time_aware

    def _predicted(self, x: Tensor, moment: Callable[[], Moment]) -> Tensor:
        return self._call(
            "predict", lambda: usable(predict_at(self.method, x, self._told(moment)), len(x), self.method)
        )

    def _adapt(self, moment: Callable[[], Moment]) -> str:
        def adapt() -> str:
            action = adapt_at(self.method, self._told(moment))
            self._synchronise()
            return _usable_action(self.method, action)

        return self._call("adapt", adapt)

    def _told(self, moment: Callable[[], Moment]) -> Moment:
        return moment() if self.method.time_aware else UNTOLD

    def _call(self, name: str, work: Callable[[], T]) -> T:
        """Call into the method. Raises Failed, but for a batch that does not suit its predict()."""
        try:
            with self._guard(name):
                return work()
        except (NotUsable, Misbehaved) as error:
            raise Failed(str(error).removeprefix(f"{self.method.name}: ")) from error
        except BaseException as error:
            if name == "predict" and isinstance(error, TemporaError):
                raise
            raise Failed(f"{name}() raised {type(error).__name__}: {error}") from error

    def _go_through(self, x: Tensor, clock: LiveClock) -> bool:
        """Predict and adapt without a client; returns whether the method steps on a part of the batch."""
        begun_ms = clock.now_ms()
        try:
            self._predicted(x, lambda: UNTOLD)
        except TemporaError:  # the example does not suit it
            return False
        emission_ms = clock.now_ms()
        self.count_prediction(emission_ms - begun_ms)
        action = self._adapt(lambda: UNTOLD)
        amount = self.count_adaptation(action, emission_ms - begun_ms, clock.now_ms() - emission_ms)
        return amount is not None and amount < len(x) and self.method.family == "gradient-based"

    def _meet_sizes(self, x: Tensor) -> None:
        """Take the network forward and back through every size of a batch, the larger ones first.

        A GPU's library looks for a way to compute a convolution when its shape comes for the first time in a thread,
        which takes as long as several batches; a method that steps on what it keeps meets one shape after the other.
        """
        begin_s = time.monotonic()
        for size in range(len(x), 0, -1):
            part = x[:size].clone().requires_grad_()
            with torch.enable_grad():
                scores = self.standard.model(part)
            torch.autograd.grad(scores.sum(), part)
            self._synchronise()
            if time.monotonic() - begin_s > SIZES_S:
                break


def _with_own_generators(snapshot: Any, own: Any) -> Any:
    """A state from another kind of device: random generators of one do not fit the other."""
    state = {
        name: own["state"][name] if isinstance(value, GeneratorState) else value
        for name, value in snapshot["state"].items()
    }
    return {**snapshot, "state": state, "generator": own["generator"]}


def usable(scores: object, samples: int, method: Method) -> Tensor:
    """Scores in the processor's memory, if they are those of a run: a row per image, a column per class; and each
    row has a best class."""
    try:
        on_processor = on_host(checked_scores(method.name, scores, samples, method.model.num_classes))
    except TemporaError as error:
        raise NotUsable(str(error).removeprefix(f"{method.name}: ")) from None
    if not have_a_best_class(on_processor):
        raise NotUsable("its scores are not finite")
    return on_processor


def _usable_action(method: Method, action: object) -> str:
    try:
        return checked_action(method.name, action)
    except TemporaError as error:
        raise NotUsable(str(error)) from None


def have_a_best_class(scores: Tensor) -> bool:
    """Tell whether the best score of every row is finite; -inf rules classes out, and may.

    Of scores in the processor's memory, by numpy, in this thread: torch would wake a thread per core for it, and they
    would be in the way of what comes next.
    """
    values = (scores.float() if scores.dtype == torch.bfloat16 else scores).numpy()
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(values.max(axis=1)).all())


def on_host(scores: Tensor) -> Tensor:
    """A copy in the processor's memory; waits until the device has the scores."""
    return scores.detach().to("cpu", copy=True)


def say(what: str) -> None:
    """Warn; a program that makes errors of warnings would end the thread that serves, so there it is logged."""
    try:
        warnings.warn(what, TemporaWarning, stacklevel=3)
    except TemporaWarning:
        logging.getLogger("tempora_tta").error(what)
