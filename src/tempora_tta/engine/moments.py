"""What a time-aware method is told: one place builds every `Moment`, of passes and of the live pipeline."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tempora_tta.methods import Moment
from tempora_tta.scenarios import Resolved, Timeline, Turn


@dataclass
class Mean:
    """A running mean."""

    count: int = 0
    total: float = 0.0

    def add(self, value: float) -> None:
        self.count, self.total = self.count + 1, self.total + value

    @property
    def mean(self) -> float:
        return self.total / self.count


@dataclass
class Costs:
    """What a method's work has taken so far, its warm-up included."""

    by_action: dict[str, Mean] = field(default_factory=dict)
    by_mode: dict[str, Mean] = field(default_factory=dict)

    def predicted(self, mode: str, predict_ms: float) -> None:
        """A prediction took so long; `mode` is what `work` named, if it did."""
        if mode:
            self.by_mode.setdefault(mode, Mean()).add(predict_ms)

    def adapted(self, mode: str, action: str, adapt_ms: float) -> None:
        """adapt() took so long and returned `action`."""
        self.by_action.setdefault(action, Mean()).add(adapt_ms)
        if mode:
            self.by_mode.setdefault(mode, Mean()).add(adapt_ms)

    def copy(self) -> Costs:
        return Costs(
            *({name: Mean(one.count, one.total) for name, one in means.items()} for means in self._all)
        )

    @property
    def _all(self) -> tuple[dict[str, Mean], dict[str, Mean]]:
        return self.by_action, self.by_mode


def moment_at(
    now_ms: float, turn: Turn, timeline: Timeline, resolved: Resolved, costs: Costs, *, emitted: bool
) -> Moment:
    """What a deployment knows at `now_ms`, while it works on a batch whose prediction is out (`emitted`) or not."""
    queued = timeline.waiting(now_ms, emitted)
    return Moment(
        now_ms=now_ms,
        arrived_ms=turn.arrived_ms,
        queued=queued,
        spent_ms=timeline.spent_ms,
        budget_left_ms=_finite(timeline.budget_left_ms),
        baseline_ms=resolved.baseline_ms,
        threshold_ms=_finite(resolved.threshold_ms),
        interval_ms=resolved.interval_ms,
        deadline_ms=_finite(resolved.deadline_ms),
        slack_ms=_slack_ms(now_ms, timeline, resolved, queued),
        cost_ms={action: cost.mean for action, cost in costs.by_action.items()},
        mode_cost_ms={mode: cost.mean for mode, cost in costs.by_mode.items()},
        queue=resolved.queue,
    )


def _slack_ms(now_ms: float, timeline: Timeline, resolved: Resolved, queued: int) -> float | None:
    """Until the next arrival, where it can be known: of a periodic schedule, also past the end of the stream, which
    nobody knows; or of a user whose next batch is there as soon as the last is predicted."""
    if resolved.waits:
        return 0.0 if queued else None
    if not resolved.periodic or resolved.interval_ms is None:
        return None
    return max(0.0, timeline.next_arrival_ms(now_ms, resolved.interval_ms) - now_ms)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
