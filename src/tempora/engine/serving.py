"""Who answers in a live pipeline: the method, and Standard where it cannot; a fallback for what was lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tempora.engine.requests import Request, Unit
from tempora.engine.saved_state import for_device
from tempora.errors import TemporaError
from tempora.measure.device import synchroniser
from tempora.methods import Method, Moment
from tempora.scenarios import Turn

WARM_UP_BATCHES = 3


@dataclass(frozen=True)
class Refused:
    """Nobody could answer, not even Standard: it is the request that is wrong."""

    error: TemporaError


@dataclass
class Outcome:
    """How a batch was answered."""

    scores: Tensor | Refused
    phase: str
    """adapt, frozen or fallback."""
    adapts: bool = False
    """adapt() is to follow."""
    by_standard: bool = False
    """Standard stood in for the method."""
    failure: str | None = None
    """Why the method is not to be asked again."""
    refused: list[Request] = field(default_factory=list)
    """Requests of the batch that were not among those predicted."""


class Operator:
    """The method of a pipeline, Standard beside it, and their device. Used by the worker thread alone."""

    def __init__(
        self,
        method: Method,
        standard: Method,
        *,
        fallback: str | None = None,
        beside: Beside | None = None,
        example: Tensor | None = None,
    ) -> None:
        self.method, self.standard, self.beside = method, standard, beside
        self.device = method.model.device
        self._synchronise = synchroniser(self.device)
        self._fallback = fallback
        self._example = example
        self._froze_it = False
        """The budget is used up: it was not the method that froze itself."""

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
        return {"method": self.method.name, "settings": repr(self.method.settings), "model": model.name}

    def facts(self) -> dict[str, Any]:
        froze_itself = self.method.frozen and not self._froze_it
        return {**self.identity, "device": self.device.type, "froze_itself": froze_itself}

    def warm_up(self) -> None:
        """Take both through an example, frozen once too, so that no client pays for what is done the first time."""
        if self._example is None:
            return
        for _ in range(WARM_UP_BATCHES):
            on_host(self.standard.predict(self._example))
            predicted(self.method, self._example, lambda: NO_MOMENT)
            self._adapt(lambda: NO_MOMENT)
        self.method.freeze()
        predicted(self.method, self._example, lambda: NO_MOMENT)
        self.method.reset()
        self._synchronise()

    def answer(self, turn: Turn, unit: Unit, moment: Callable[[], Moment], standing: bool) -> Outcome:
        """Scores of a batch, in the processor's memory. `standing`: the method was not replaced."""
        refused = [request for request in unit.requests if not request.checked and not _is_finite(request)]
        kept = Unit([request for request in unit.requests if request not in refused])
        if not kept.requests:
            return Outcome(Refused(NOT_FINITE), "frozen")
        x = kept.inputs()
        try:
            if turn.fallback:
                outcome = self._answer_lost(x, standing)
            elif standing:
                outcome = self._by_method(turn, x, moment)
            else:
                outcome = Outcome(usable(self.standard.predict(x), len(x)), "frozen", by_standard=True)
        except BaseException as error:
            return Outcome(Refused(cannot_take(error)), "fallback" if turn.fallback else "frozen")
        outcome.refused = refused
        return outcome

    def adapt(self, moment: Callable[[], Moment]) -> tuple[str, str | None]:
        """The rest of the work on the last batch: what was done, or why the method is not to be asked again."""
        try:
            action = self._adapt(moment)
            self._synchronise()
            if self.beside is not None:
                self.beside.publish(self.method)
        except BaseException as error:
            return "none", f"adapt() raised {type(error).__name__}: {error}"
        return action, None

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
        if self.beside is not None:
            self.beside.publish(self.method)

    def _by_method(self, turn: Turn, x: Tensor, moment: Callable[[], Moment]) -> Outcome:
        if not turn.adapting and not self.method.frozen:
            self.method.freeze()
            self._froze_it = True
        adapts = turn.adapting and not self.method.frozen
        scores, failure = self._tried(x, moment)
        if scores is None:  # where Standard fails too, the batch is at fault
            scores, adapts = usable(self.standard.predict(x), len(x)), False
            return Outcome(scores, "frozen", by_standard=True, failure=failure)
        return Outcome(scores, "adapt" if adapts else "frozen", adapts)

    def _answer_lost(self, x: Tensor, standing: bool) -> Outcome:
        scores, failure = None, None
        if self._fallback == "latest" and standing:
            present = self.method.snapshot()
            self.method.freeze()
            scores, failure = self._tried(x, lambda: NO_MOMENT)
            self.method.restore(present)
        if scores is None:
            scores = usable(self.standard.predict(x), len(x))
        return Outcome(scores, "fallback", failure=failure)

    def _tried(self, x: Tensor, moment: Callable[[], Moment]) -> tuple[Tensor | None, str | None]:
        """The method's scores; or none of use, and why it is not to be asked again, unless it is this batch that does
        not suit it (too small, say)."""
        try:
            return usable(predicted(self.method, x, moment), len(x)), None
        except NotUsable as failure:
            return None, str(failure)
        except TemporaError:
            return None, None
        except BaseException as error:
            return None, f"predict() raised {type(error).__name__}: {error}"

    def _adapt(self, moment: Callable[[], Moment]) -> str:
        adapt: Any = self.method.adapt
        return str(adapt(moment()) if self.method.time_aware else adapt())


class Beside:
    """A fallback on a device of its own (`free`): Standard, or the method in its latest state, frozen."""

    def __init__(self, standard: Method, latest: Method | None = None) -> None:
        self._standard = standard
        self._method = latest or standard
        self._latest = latest is not None
        self._lock = threading.Lock()
        self._published: Any = None
        self._method.freeze()

    def publish(self, method: Method) -> None:
        """adapt() has finished: this is the latest state now."""
        if self._latest:
            snapshot = method.snapshot()
            with self._lock:
                self._published = snapshot

    def answer(self, unit: Unit) -> Outcome:
        try:
            if any(not _is_finite(request) for request in unit.requests if not request.checked):
                raise NOT_FINITE
            x = unit.inputs().to(self._method.model.device)
            with self._lock:
                snapshot, self._published = self._published, None
            if snapshot is not None:
                own = self._method.snapshot()
                self._method.restore(for_device(snapshot, own, self._method.model.device))
                self._method.freeze()
            return Outcome(self._scores(x), "fallback")
        except BaseException as error:
            return Outcome(Refused(cannot_take(error)), "fallback")

    def _scores(self, x: Tensor) -> Tensor:
        if self._latest:
            with suppress(Exception):
                return usable(predicted(self._method, x, lambda: NO_MOMENT), len(x))
        return usable(self._standard.predict(x), len(x))


def predicted(method: Method, x: Tensor, moment: Callable[[], Moment]) -> Tensor:
    """What predict() returns, which a time-aware method is told the moment for."""
    predict: Any = method.predict
    scores: Tensor = predict(x, moment()) if method.time_aware else predict(x)
    return scores


class NotUsable(TemporaError):
    """Scores that no client could use."""


def usable(scores: Any, samples: int) -> Tensor:
    """Scores in the processor's memory, a row per image, each with a best class."""
    if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) != samples:
        given = (
            f"of shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
        )
        raise NotUsable(f"its scores are {given} for {samples} images")
    found = on_host(scores)
    if not bool(torch.isfinite(found.amax(dim=1)).all()):
        raise NotUsable("its scores are not finite")
    return found


def on_host(scores: Tensor) -> Tensor:
    """Waits until the device has them."""
    return scores.detach().to("cpu", copy=True)


def cannot_take(error: BaseException) -> TemporaError:
    if isinstance(error, TemporaError) and not isinstance(error, NotUsable):
        return error
    return TemporaError(f"the network cannot answer this batch: {type(error).__name__}: {error}")


def _is_finite(request: Request) -> bool:
    return request.x is not None and bool(torch.isfinite(request.x).all())


NOT_FINITE = TemporaError("submit() was given NaN or infinite values: check how the images were normalised")
NO_MOMENT = Moment(now_ms=0.0, arrived_ms=0.0)
