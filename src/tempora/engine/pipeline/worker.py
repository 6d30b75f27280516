"""The thread that owns the device: it serves one turn after the other, and obeys between two."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tempora.engine.pipeline.live_time import Lived
from tempora.engine.pipeline.operator import Operator
from tempora.engine.pipeline.requests import Unit
from tempora.engine.pipeline.scores import Outcome
from tempora.engine.pipeline.shared import Shared, start
from tempora.errors import TemporaWarning
from tempora.scenarios import Turn


class Worker:
    """Answers, then adapts. One that hangs is left behind in its thread, and another goes on with Standard."""

    def __init__(self, shared: Shared, operator: Operator, too_long_ms: float) -> None:
        self._shared, self._operator, self._too_long_ms = shared, operator, too_long_ms
        self.picked_ms: float | None = None
        """Since when the turn has been in hand; None: it has not been taken yet."""
        self._emitted: Outcome | None = None
        """How the batch in hand was answered, once it was."""
        self._emission_ms = 0.0
        self._generation = 0
        """Threads of an earlier one hang somewhere and are not listened to any more."""
        self._thread: threading.Thread | None = self._next_thread()

    def join(self) -> None:
        """Wait for the end of its work, after `shared.closing`."""
        while (thread := self._thread) is not None and thread is not threading.current_thread():
            thread.join(0.05)  # one that hangs is replaced by another, or given up
            if not thread.is_alive() and thread is self._thread:
                break

    def look_after(self, now_ms: float) -> None:
        """Called now and then with the lock held: has a call ended at all?"""
        if self.picked_ms is not None and now_ms - self.picked_ms > self._too_long_ms:
            self._abandon(f"a call has not ended after {now_ms - self.picked_ms:.0f} ms")

    def replace(self, failure: str) -> None:
        """From now on Standard answers; said once, and counted."""
        tally = self._shared.replies.tally
        if tally.failure is None:
            tally.failure = failure
            say(
                f"{self._operator.name} was replaced by Standard: {failure}. Answers go on without adaptation; "
                "load() of a saved state brings the method back"
            )

    def _next_thread(self) -> threading.Thread:
        generation = self._generation
        return start(lambda: self._work(generation), "tempora-worker")

    def _abandon(self, failure: str) -> None:
        """The thread does not come back from a call: another takes its place, with Standard."""
        self._generation += 1
        self.picked_ms = None
        if self._shared.replies.tally.failure is not None or self._operator.is_standard:
            self._give_up(f"the device does not answer: {failure}")
            return
        self.replace(failure)
        self._thread = self._next_thread()

    def _give_up(self, reason: str) -> None:
        self._thread = None
        self._shared.give_up(reason)

    def _work(self, generation: int) -> None:
        try:
            while (task := self._next_task(generation)) is not None:
                task()
        except BaseException as error:  # a fault of ours, or the device is gone: nobody shall wait for ever
            with self._shared.lock:
                if generation == self._generation:
                    self._generation += 1
                    self._give_up(f"the pipeline broke: {type(error).__name__}: {error}")

    def _next_task(self, generation: int) -> Callable[[], None] | None:
        shared = self._shared
        with shared.lock:
            while generation == self._generation:
                if shared.commands:
                    command, done = shared.commands.popleft()
                    return lambda: self._obey(command, done)
                if (turn := shared.line.turn) is not None:
                    return self._taken(turn, generation)
                if shared.closing:
                    return None
                shared.work_there.wait()
        return None

    def _obey(self, command: Callable[[], Any], done: Future[Any]) -> None:
        try:
            result = command()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)
        with self._shared.lock:
            self._shared.say_if_quiet()

    def _taken(self, turn: Turn, generation: int) -> Callable[[], None]:
        """A turn is in hand from now on: what to do about it. Called with the lock held."""
        shared = self._shared
        self.picked_ms = shared.clock.now_ms()
        standing, unit = shared.replies.tally.failure is None, shared.line.unit(turn)
        answered = self._emitted is not None  # by a thread that hangs since

        def serve() -> None:
            if answered or self._answer(turn, unit, generation, standing):
                self._adapt(turn, generation, standing)

        return serve

    def _answer(self, turn: Turn, unit: Unit, generation: int, standing: bool) -> bool:
        """Have the batch predicted and send the answer out. True: adaptation is to follow. If not, the pipeline is
        free with it: what sending takes is part of the next turn."""
        shared = self._shared
        outcome = self._operator.answer(turn, unit, lambda: shared.moment(turn), standing)
        with shared.lock:
            if generation != self._generation:
                return False
            self._emitted, self._emission_ms = outcome, shared.clock.now_ms()
            shared.replies.emit(unit, outcome, self._emission_ms)
            if outcome.adapts:
                shared.costs.predicted(self._operator.mode(), self._emission_ms - self._begun_ms)
                return shared.line.turn is turn
            self._finish(turn, outcome, self._emission_ms, "none", outcome.failure)
            return False

    def _adapt(self, turn: Turn, generation: int, standing: bool) -> None:
        """The rest of the work on a batch; a method that was given up meanwhile is not asked for it."""
        shared, operator, outcome = self._shared, self._operator, self._emitted
        assert outcome is not None
        action, failure = "none", None
        if standing:
            action, failure = operator.adapt(lambda: shared.moment(turn, emitted=True))
        with shared.lock:
            if generation != self._generation:
                return
            finish_ms = shared.clock.now_ms()
            took_ms = finish_ms - self._begun_ms
            if standing and failure is None:
                failure = f"it took {took_ms:.0f} ms for one batch" if took_ms > self._too_long_ms else None
                adapt_ms = took_ms if operator.adapts_in_predict else finish_ms - self._emission_ms
                shared.costs.adapted(operator.mode(), action, adapt_ms)
            self._finish(turn, outcome, finish_ms, action, failure)

    @property
    def _begun_ms(self) -> float:
        assert self.picked_ms is not None, "a turn is in hand"
        return self.picked_ms

    def _finish(
        self, turn: Turn, outcome: Outcome, finish_ms: float, action: str, failure: str | None
    ) -> None:
        if failure is not None:
            self.replace(failure)
        times = (turn.arrived_ms, turn.start_ms, self._begun_ms, self._emission_ms, finish_ms)
        self.picked_ms = self._emitted = None
        self._shared.finish(Lived(turn.batch, outcome.phase, *times, action))


def say(what: str) -> None:
    """Warn; a program that makes errors of warnings would end the thread that serves, so there it is logged."""
    try:
        warnings.warn(what, TemporaWarning, stacklevel=3)
    except TemporaWarning:
        logging.getLogger("tempora").error(what)
