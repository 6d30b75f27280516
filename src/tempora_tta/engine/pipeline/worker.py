"""The thread that owns the device: it serves one turn after the other, and obeys between two."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from tempora_tta.engine.pipeline.live_time import Lived
from tempora_tta.engine.pipeline.operator import Operator
from tempora_tta.engine.pipeline.requests import Unit
from tempora_tta.engine.pipeline.scores import Outcome
from tempora_tta.engine.pipeline.shared import Command, Shared
from tempora_tta.engine.pipeline.watched import LeftBehind, Watched, say
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Turn

FIRST_TIME_X = 10
"""Warming up, saving and loading may take so many times as long as a batch: what is done for the first time does."""


class Worker(Watched):
    """Answers, then adapts. One that hangs is left behind in its thread, and another goes on with Standard."""

    def __init__(self, shared: Shared, operator: Operator, too_long_ms: float) -> None:
        self._shared, self._operator = shared, operator
        self._emitted: Outcome | None = None
        """How the batch in hand was answered, once it was."""
        self._begun_ms = self._emission_ms = 0.0
        self._obeyed: Future[object] | None = None
        """Of the command in hand."""
        super().__init__("tempora-worker", too_long_ms)

    def goes_on(self) -> None:
        """Called in a command, before each of its calls: each has its own time. A thread that was left behind goes no
        further."""
        with self._shared.lock:
            if threading.current_thread() is not self._thread:
                raise LeftBehind("another thread has taken over")
            self.picked_ms = self._shared.clock.now_ms()

    def replace(self, failure: str) -> None:
        """From now on Standard answers; said once, and counted."""
        tally = self._shared.replies.tally
        if tally.failure is None:
            tally.failure = failure
            say(
                f"{self._operator.name} was replaced by Standard: {failure}. Answers go on without adaptation; "
                "load() of a saved state brings the method back"
            )

    def _hangs(self, failure: str) -> bool:
        """Standard goes on, unless it is Standard that hangs."""
        obeyed, self._obeyed = self._obeyed, None
        replaced = self._shared.replies.tally.failure is not None and obeyed is None
        if replaced or self._operator.is_standard:
            reason = f"the device does not answer: {failure}"
            self._give_up(reason)
            if obeyed is not None:
                obeyed.set_exception(TemporaError(f"{reason}; deploy again"))
            return False
        self._operator.left_behind = True
        self.replace(failure)
        if obeyed is not None:
            obeyed.set_exception(
                LeftBehind(f"{self._operator.name}: {failure}, and it was left behind; deploy again")
            )
        return True

    def _give_up(self, reason: str) -> None:
        self._shared.give_up(reason)

    def _work(self, generation: int) -> None:
        try:
            while (task := self._next_task(generation)) is not None:
                task()
        except BaseException as error:  # a fault of ours, or the device is gone: nobody shall wait for ever
            with self._shared.lock:
                if generation == self._generation:
                    self._generation += 1
                    self._thread = None
                    self._give_up(f"the pipeline broke: {type(error).__name__}: {error}")

    def _next_task(self, generation: int) -> Callable[[], None] | None:
        shared = self._shared
        with shared.lock:
            while generation == self._generation:
                if shared.commands:
                    return self._told(shared.commands.popleft(), generation)
                if (turn := shared.line.turn) is not None:
                    return self._taken(turn, generation)
                if shared.closing:
                    return None
                shared.work_there.wait()
        return None

    def _told(self, command: Command, generation: int) -> Callable[[], None]:
        """A command is in hand from now on: how to obey it. Called with the lock held."""
        self.picked_ms, self._allowed_ms = self._shared.clock.now_ms(), FIRST_TIME_X * self._too_long_ms
        self._obeyed = command.done
        return lambda: self._obey(command, generation)

    def _obey(self, command: Command, generation: int) -> None:
        error: BaseException | None = None
        try:
            result = command.work()
        except BaseException as raised:
            error = raised
        with self._shared.lock:
            if generation != self._generation:
                return  # whoever asked was told that it hangs
            self.picked_ms = self._obeyed = None
            if error is None:
                command.then()
                command.done.set_result(result)
            else:
                command.done.set_exception(error)
            self._shared.say_if_quiet()

    def _taken(self, turn: Turn, generation: int) -> Callable[[], None]:
        """A turn is in hand from now on: what to do about it. Called with the lock held."""
        shared = self._shared
        self.picked_ms = self._begun_ms = shared.clock.now_ms()
        self._allowed_ms = self._too_long_ms
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
                self.picked_ms = None  # callbacks of clients come next, which are not the method's doing
                shared.costs.predicted(self._operator.mode(), self._emission_ms - self._begun_ms)
                return shared.line.turn is turn
            failure = outcome.failure
            if standing and outcome.by_method and failure is None and not self._operator.is_standard:
                failure = self._too_slow(self._emission_ms - self._begun_ms)
            self._finish(turn, outcome, self._emission_ms, "none", failure)
            return False

    def _adapt(self, turn: Turn, generation: int, standing: bool) -> None:
        """The rest of the work on a batch; a method that was given up meanwhile is not asked for it."""
        shared, operator = self._shared, self._operator
        with shared.lock:
            if generation != self._generation:
                return  # left behind since the answer: by now the method may be another
            method, outcome = operator.method, self._emitted
            self.picked_ms = begun_ms = shared.clock.now_ms()
        assert outcome is not None
        action, failure = "none", None
        if standing:
            action, failure = operator.adapt(method, lambda: shared.moment(turn, emitted=True))
        with shared.lock:
            if generation != self._generation:
                return
            finish_ms = shared.clock.now_ms()
            adapt_ms = finish_ms - begun_ms
            took_ms = self._emission_ms - self._begun_ms + adapt_ms
            if standing and failure is None:
                failure = self._too_slow(took_ms)
                shared.costs.adapted(
                    operator.mode(), action, took_ms if operator.adapts_in_predict else adapt_ms
                )
            self._finish(turn, outcome, finish_ms, action, failure)

    def _too_slow(self, took_ms: float) -> str | None:
        return f"it took {took_ms:.0f} ms for one batch" if took_ms > self._too_long_ms else None

    def _finish(
        self, turn: Turn, outcome: Outcome, finish_ms: float, action: str, failure: str | None
    ) -> None:
        if failure is not None:
            self.replace(failure)
        times = (turn.arrived_ms, turn.start_ms, self._begun_ms, self._emission_ms, finish_ms)
        self.picked_ms = self._emitted = None
        self._shared.finish(Lived(turn.batch, outcome.phase, *times, action))
