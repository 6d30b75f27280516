"""The state that answers for batches which a live pass lost (fallback `latest`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tempora.methods import Method
from tempora.scenarios import Resolved, Turn


class LatestState:
    """Keeps the state after the last finished adapt(), for predictions with a frozen copy of it.

    On this pipeline (`charged`) that is the present state. On a device of its own (`free`) batches are lost while
    the next one is still being worked on, so the state before that one is kept too. A deployment has the copy at
    hand: nothing of this is inside the clock.
    """

    def __init__(self, method: Method, resolved: Resolved) -> None:
        self._method = method
        self._looks_back = resolved.fallback == "latest" and resolved.fallback_cost == "free"
        self._before: Any = None
        self._finish_ms = float("-inf")

    def before(self, turn: Turn) -> None:
        """The pipeline takes a batch; a frozen model will be the same after it."""
        self._before = self._method.snapshot() if self._looks_back and turn.adapting else None

    def served(self, finish_ms: float) -> None:
        """It is done with it, adapt() and all."""
        self._finish_ms = finish_ms

    def predict(self, turn: Turn, scores: Callable[[], torch.Tensor]) -> torch.Tensor:
        """The `scores` that the method gives in the state of the turn's start, frozen."""
        now = self._method.snapshot()
        if self._before is not None and turn.start_ms < self._finish_ms:
            self._method.restore(self._before)
        self._method.freeze()
        found = scores()
        self._method.restore(now)
        return found
