"""Which passes a method's cells need, and which of them they can share without changing a result.

- One offline pass scores Offline and every closed-loop deployment without a budget, and is the adapting prefix of
  every budget. A budget adds only its frozen tail; a stateless method's frozen tail is the Standard pass.
- Arrivals on a schedule give the offline pass again where nothing is skipped. A history-free method's other
  schedules follow from its offline times; every other method needs a live pass over the batches served.
- Patience (T) changes scores, never passes. A time-aware method sees the clock, so it shares nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tempora.scenarios import Resolved, budget_cutoff
from tempora.store import ADAPTED, Trace

LIVE, DERIVED, REPLAYED = "live", "derived", "replayed"


@dataclass(frozen=True)
class Share:
    """How a cell gets its batches from the offline pass."""

    origin: str
    cutoff: int | None = None
    """Where its frozen tail begins; None: nothing is frozen."""


def share(resolved: Resolved, offline: Trace, history_free: bool) -> Share | None:
    """How the cell follows from the offline pass, or None if it needs a pass of its own."""
    has_budget = math.isfinite(resolved.budget_ms)
    if resolved.arrivals_ms is None:
        cutoff = frozen_from(resolved, offline) if has_budget else None
        return Share(DERIVED, cutoff)
    if has_budget:
        return None
    if offline.course(resolved).evicted.size == 0:
        return Share(DERIVED)
    return Share(REPLAYED) if history_free else None


def frozen_from(resolved: Resolved, offline: Trace) -> int | None:
    """The first batch that the budget leaves to the frozen model, or None if it lasts."""
    # A method that froze itself is not charged for what it predicts after that.
    service_ms = np.where(offline.phase == ADAPTED, offline.service_ms, 0.0)
    assert resolved.baseline_ms is not None
    cutoff = budget_cutoff(service_ms, resolved.baseline_ms, resolved.budget_ms, resolved.rule)
    return cutoff if cutoff < offline.num_batches else None
