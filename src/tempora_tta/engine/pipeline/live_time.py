"""What a live pipeline knows of time, and what it remembers of it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Protocol


class LiveClock(Protocol):
    """What the pipeline knows of time."""

    def now_ms(self) -> float: ...

    def wait(self, condition: threading.Condition, timeout_ms: float) -> None:
        """Wait, holding the condition's lock, for a notification or so long."""


class WallClock:
    """Milliseconds since it was made."""

    def __init__(self) -> None:
        self._begin_ns = time.perf_counter_ns()

    def now_ms(self) -> float:
        return (time.perf_counter_ns() - self._begin_ns) / 1e6

    def wait(self, condition: threading.Condition, timeout_ms: float) -> None:
        condition.wait(timeout_ms / 1000)


@dataclass(frozen=True)
class Lived:
    """What became of one batch, in the pipeline's own milliseconds."""

    batch: int
    phase: str
    """adapt, frozen or fallback."""
    arrived_ms: float
    start_ms: float
    """When the pipeline was free for it."""
    picked_ms: float
    """When the worker had it in hand."""
    emission_ms: float
    finish_ms: float
    action: str

    @property
    def predict_ms(self) -> float:
        """Until the answer, as the timeline is told: getting hold of the batch is part of it."""
        return max(0.0, self.emission_ms - self.start_ms)

    @property
    def adapt_ms(self) -> float:
        return max(0.0, self.finish_ms - self.emission_ms)
