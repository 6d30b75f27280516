"""The thread that looks at the clock while others are at work."""

from __future__ import annotations

from tempora_tta.engine.pipeline.shared import Shared
from tempora_tta.engine.pipeline.watched import Watched

SELDOM_MS = 60_000.0


def mind(shared: Shared, worker: Watched, too_long_ms: float) -> None:
    """Offer single images whose time is up, and notice a worker that hangs, until the end."""
    while not shared.ended:
        with shared.lock:
            now_ms = shared.clock.now_ms()
            if now_ms >= shared.collector.due_ms:
                shared.offer(shared.collector.take(), now_ms)
            worker.look_after(now_ms)
        with shared.lock:  # free in between, for callbacks
            if not shared.ended:
                # A hanging call is noticed within twice the limit, without waking up for every batch.
                sleep_ms = min(shared.collector.due_ms - shared.clock.now_ms(), too_long_ms, SELDOM_MS)
                shared.clock.wait(shared.minder_wakes, max(0.0, sleep_ms))
