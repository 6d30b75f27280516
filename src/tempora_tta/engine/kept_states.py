"""States of a method that a pass keeps: where a budget ran out, and what answers for batches that were lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from tempora_tta.engine.calls import Calls
from tempora_tta.methods import Moment
from tempora_tta.scenarios import Budget, Resolved, Turn


@dataclass
class BudgetWatch:
    """Follows one budget through an offline pass and keeps the state that the model would have frozen in.

    Under `strict` the batch that overruns the budget is undone, so the state before every batch has to be kept
    until the budget is used up; under `overshoot` the state after the last allowed batch is enough.
    """

    deployment: Resolved
    budget: Budget = field(init=False)
    cutoff: int | None = None
    state: Any = None

    def __post_init__(self) -> None:
        self.budget = Budget(self.deployment.budget_ms, self.deployment.baseline_ms, self.deployment.rule)

    def before(self, index: int, snapshot: Callable[[], Any]) -> None:
        if self.cutoff is not None:
            return
        if not self.budget.allows_adaptation:
            self.cutoff, self.state = index, snapshot()
        elif self.budget.undoes:
            self.state = snapshot()

    def after(self, index: int, adapted: bool, predict_ms: float, adapt_ms: float) -> None:
        if self.cutoff is None and not self.budget.charge(predict_ms + adapt_ms if adapted else 0.0):
            self.cutoff = index


class LatestState:
    """Keeps the state after the last finished adapt(), which answers lost batches, frozen (fallback `latest`).

    On this pipeline (`charged`) that is the present state. On a device of its own (`free`) batches are lost while
    the next one is still being worked on, so the state before that one is kept too. A deployment has the copy at
    hand: nothing of this is inside the clock.
    """

    def __init__(self, calls: Calls, resolved: Resolved) -> None:
        self._calls = calls
        self.answers = resolved.fallback == "latest"
        self._looks_back = self.answers and resolved.fallback_cost == "free"
        self._before: Any = None
        self._finish_ms = float("-inf")

    def before(self, turn: Turn) -> None:
        """The pipeline takes a batch; a frozen model will be the same after it."""
        self._before = self._calls.snapshot() if self._looks_back and turn.adapting else None

    def served(self, finish_ms: float) -> None:
        """It is done with it, adapt() and all."""
        self._finish_ms = finish_ms

    def predict(self, turn: Turn, x: Tensor, moment: Moment) -> Tensor:
        """The scores that the method gives in the state of the turn's start, frozen."""
        now = self._calls.snapshot()
        if self._before is not None and turn.start_ms < self._finish_ms:
            self._calls.restore(self._before)
        self._calls.freeze()
        found = self._calls.scores(x, moment)
        self._calls.restore(now)
        return found
