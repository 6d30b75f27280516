"""Time, as a live pipeline knows it: a reading, and waiting."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class LiveClock(Protocol):
    """Milliseconds that never run backwards."""

    def now_ms(self) -> float: ...

    def wait(self, condition: threading.Condition, timeout_ms: float) -> None:
        """Wait, holding the condition's lock, for a notification or this long; it may return early."""


class WallClock:
    """Milliseconds since it was made."""

    def __init__(self) -> None:
        self._begin_ns = time.perf_counter_ns()

    def now_ms(self) -> float:
        return (time.perf_counter_ns() - self._begin_ns) / 1e6

    def wait(self, condition: threading.Condition, timeout_ms: float) -> None:
        condition.wait(min(timeout_ms / 1000, threading.TIMEOUT_MAX))
