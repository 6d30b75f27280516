"""Work in a thread of its own, which another thread looks after."""

from __future__ import annotations

import logging
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable

from tempora_tta.errors import TemporaError, TemporaWarning


class LeftBehind(TemporaError):
    """A call has not come back, and nobody listens to its thread any more."""


class Watched(ABC):
    """A thread that does not come back from a call is left behind, and another takes its place, unless `_hangs` says
    that this would be of no use.

    Everything but `join` and `_work` is called with the lock of the pipeline held.
    """

    def __init__(self, name: str, too_long_ms: float) -> None:
        self._name, self._too_long_ms = name, too_long_ms
        self.picked_ms: float | None = None
        """Since when something has been in hand; None: nothing is."""
        self._allowed_ms = too_long_ms
        """How long that may take."""
        self._generation = 0
        """Threads of an earlier one hang somewhere and are not listened to any more."""
        self._thread: threading.Thread | None = self._next_thread()

    def join(self) -> None:
        """Wait for the end of its work."""
        while (thread := self._thread) is not None and thread is not threading.current_thread():
            thread.join(0.05)  # one that hangs is replaced by another, or given up
            if not thread.is_alive() and thread is self._thread:
                break

    def look_after(self, now_ms: float) -> None:
        """Called now and then: has a call ended at all?"""
        if self.picked_ms is None or now_ms - self.picked_ms <= self._allowed_ms:
            return
        failure = f"a call has not ended after {now_ms - self.picked_ms:.0f} ms"
        self._generation += 1
        self._thread = self.picked_ms = None
        if self._hangs(failure):
            try:
                self._thread = self._next_thread()
            except RuntimeError as error:  # Python is about to end, or there are too many
                self._give_up(f"{failure}, and no other thread can be started ({error})")

    def _next_thread(self) -> threading.Thread:
        generation = self._generation
        return start(lambda: self._work(generation), self._name)

    @abstractmethod
    def _work(self, generation: int) -> None:
        """What the thread of this generation does, until its end."""

    @abstractmethod
    def _hangs(self, failure: str) -> bool:
        """A thread was left behind: whether another is to go on."""

    @abstractmethod
    def _give_up(self, reason: str) -> None:
        """Nobody goes on."""


def start(work: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def say(what: str) -> None:
    """Warn; a program that makes errors of warnings would end the thread that serves, so there it is logged."""
    try:
        warnings.warn(what, TemporaWarning, stacklevel=3)
    except TemporaWarning:
        logging.getLogger("tempora").error(what)
