"""A fallback on a device of its own: it answers lost batches beside the pipeline, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from torch import Tensor

from tempora.engine.pipeline.live_time import Lived
from tempora.engine.pipeline.requests import Unit
from tempora.engine.pipeline.saved_state import for_device
from tempora.engine.pipeline.scores import (
    NOT_FINITE,
    Outcome,
    Refused,
    cannot_take,
    predicted,
    usable,
)
from tempora.engine.pipeline.shared import Shared
from tempora.methods import Method, Moment
from tempora.methods.guard import Guard
from tempora.scenarios import Turn


class Beside:
    """A fallback on a device of its own (`free`): Standard, or the method in its latest state, frozen."""

    def __init__(self, standard: Method, latest: Method | None = None) -> None:
        self._standard = standard
        self._method = latest or standard
        self._latest = latest is not None
        self._lock = threading.Lock()
        self._published: Any = None
        self._guard = Guard(self._method.name, own_thread=True)
        self._method.freeze()

    def publish(self, method: Method) -> None:
        """adapt() has finished: this is the latest state now."""
        if self._latest:
            snapshot = method.snapshot()
            with self._lock:
                self._published = snapshot

    def answer(self, unit: Unit, moment: Callable[[], Moment]) -> Outcome:
        try:
            if not all(request.is_finite for request in unit.requests):
                raise NOT_FINITE
            x = unit.inputs().to(self._method.model.device)
            with self._lock:
                snapshot, self._published = self._published, None
            if snapshot is not None:
                own = self._method.snapshot()
                self._method.restore(for_device(snapshot, own, self._method.model.device))
                self._method.freeze()
            return Outcome(self._scores(x, moment), "fallback")
        except BaseException as error:
            return Outcome(Refused(cannot_take(error)), "fallback")

    def _scores(self, x: Tensor, moment: Callable[[], Moment]) -> Tensor:
        if self._latest:
            with suppress(Exception):
                with self._guard("predict"):
                    scores = predicted(self._method, x, moment)
                return usable(scores, len(x), self._method)
        return usable(self._standard.predict(x), len(x), self._standard)


def serve_beside(shared: Shared, beside: Beside) -> None:
    """Answer what was lost, in that order, until the end."""
    lost = shared.elsewhere
    assert lost is not None
    while True:
        with shared.lock:
            while not lost:
                if shared.ended:
                    return
                shared.work_there.wait()
            unit, lost_ms = lost[0]
            picked_ms = shared.clock.now_ms()
        turn = Turn(unit.number, unit.arrived_ms, lost_ms, adapting=False, timed=True, fallback=True)
        outcome = beside.answer(unit, partial(shared.moment, turn))
        emission_ms = shared.clock.now_ms()
        with shared.lock:
            if lost and lost[0][0] is unit:  # and was not dropped meanwhile
                lost.popleft()
                shared.replies.emit(unit, outcome, emission_ms)
                times = (unit.arrived_ms, lost_ms, picked_ms, emission_ms, emission_ms)
                shared.note(Lived(unit.number, "fallback", *times, "none"))
            shared.say_if_quiet()
