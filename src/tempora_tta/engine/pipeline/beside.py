"""A fallback on a device of its own: it answers lost batches beside the pipeline, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from tempora_tta.engine.pipeline.attempts import failure_of, tried
from tempora_tta.engine.pipeline.live_time import Lived
from tempora_tta.engine.pipeline.requests import Unit
from tempora_tta.engine.pipeline.saved_state import for_device
from tempora_tta.engine.pipeline.scores import NOT_FINITE, Outcome, Refused, cannot_take, usable
from tempora_tta.engine.pipeline.shared import Shared
from tempora_tta.engine.pipeline.watched import Watched, say
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.guard import Guard
from tempora_tta.scenarios import Turn


class Beside:
    """A fallback on a device of its own (`free`): Standard, or the method in its latest state, frozen."""

    def __init__(self, standard: Method, latest: Method | None = None) -> None:
        self._standard = standard
        self.latest = latest
        """None: Standard answers, because it was asked for or because the method failed here."""
        self._stands_in = latest is not None
        """Who answers in the place of `latest` does it for the method."""
        self._lock = threading.Lock()
        self._published: Any = None
        self._guard = Guard(standard.name if latest is None else latest.name, own_thread=True)

    def publish(self, method: Method) -> None:
        """adapt() has finished: this is the latest state now."""
        if self.latest is not None:
            snapshot = method.snapshot()
            with self._lock:
                self._published = snapshot

    def answer(self, unit: Unit, moment: Callable[[], Moment]) -> Outcome:
        """Scores of a lost batch, and why the method is not to be asked here again, if it is not."""
        try:
            if not all(request.is_finite for request in unit.requests):
                raise NOT_FINITE
            x = unit.inputs().to(self._standard.model.device)
            scores, failure = self._by_latest(x, moment)
            if scores is not None:
                return Outcome(scores, "fallback")
            scores = usable(self._standard.predict(x), len(x), self._standard)
            return Outcome(scores, "fallback", by_standard=self._stands_in, failure=failure)
        except BaseException as error:
            return Outcome(Refused(cannot_take(error)), "fallback")

    def _by_latest(self, x: Tensor, moment: Callable[[], Moment]) -> tuple[Tensor | None, str | None]:
        if (latest := self.latest) is None:
            return None, None
        if (failure := self._brought_up(latest)) is not None:
            return None, failure
        return tried(latest, x, moment, self._guard)

    def _brought_up(self, latest: Method) -> str | None:
        """Put the latest state into the method here, frozen; why that cannot be done."""
        with self._lock:
            snapshot, self._published = self._published, None

        def take_over() -> None:
            latest.restore(for_device(snapshot, latest.snapshot(), latest.model.device))

        failure = None if snapshot is None else failure_of(latest, "restore", take_over, self._guard)
        if failure is None and (snapshot is not None or not latest.frozen):
            failure = failure_of(latest, "freeze", latest.freeze, self._guard)
        return failure


class BesideWorker(Watched):
    """Answers what was lost, in that order, until the end. A method that hangs here or fails is replaced by Standard;
    where that hangs, too, what is lost is dropped from then on."""

    def __init__(self, shared: Shared, beside: Beside, too_long_ms: float) -> None:
        self._shared, self._beside = shared, beside
        super().__init__("tempora-fallback", too_long_ms)

    def _work(self, generation: int) -> None:
        try:
            while (lost := self._next(generation)) is not None:
                self._serve(*lost, generation)
        except BaseException as error:  # a fault of ours, or the device is gone
            with self._shared.lock:
                if generation == self._generation:
                    self._generation += 1
                    self._thread = None
                    self._give_up(f"it broke: {type(error).__name__}: {error}")

    def _next(self, generation: int) -> tuple[Unit, float] | None:
        shared = self._shared
        with shared.lock:
            while generation == self._generation:
                if shared.elsewhere:
                    self.picked_ms = shared.clock.now_ms()
                    return shared.elsewhere[0]
                if shared.served:
                    return None
                shared.work_there.wait()
        return None

    def _serve(self, unit: Unit, lost_ms: float, generation: int) -> None:
        shared = self._shared
        turn = Turn(unit.number, unit.arrived_ms, lost_ms, adapting=False, timed=True, fallback=True)
        outcome = self._beside.answer(unit, partial(shared.moment, turn))
        with shared.lock:
            if generation != self._generation:
                return
            emission_ms, picked_ms = shared.clock.now_ms(), self.picked_ms
            assert picked_ms is not None, "a batch is in hand"
            self.picked_ms = None
            if shared.elsewhere and shared.elsewhere[0][0] is unit:  # and was not dropped meanwhile
                shared.elsewhere.popleft()
                shared.replies.emit(unit, outcome, emission_ms)
                times = (unit.arrived_ms, lost_ms, picked_ms, emission_ms, emission_ms)
                shared.note(Lived(unit.number, "fallback", *times, "none"))
            if outcome.failure is not None:
                self._replace(outcome.failure)
            shared.say_if_quiet()

    def _hangs(self, failure: str) -> bool:
        if self._beside.latest is None:
            self._give_up(failure)
            return False
        self._replace(failure)
        return True

    def _replace(self, failure: str) -> None:
        """The pipeline itself goes on with its method: it may be this device that does not suit it."""
        latest, self._beside.latest = self._beside.latest, None
        if latest is not None:
            self._shared.replies.tally.fallback_failure = failure
            say(
                f"{latest.name} was replaced by Standard as the fallback: {failure}. What is lost is answered "
                "without adaptation until you deploy again"
            )

    def _give_up(self, failure: str) -> None:
        self._shared.replies.tally.fallback_failure = failure
        self._shared.without_fallback()
        say(f"the fallback does not answer: {failure}. What is lost is dropped from now on; deploy again")
