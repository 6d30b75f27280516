"""Mean power of repeated work, from the device's energy counter."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_S, MOST_S = 0.5, 1.5


def mean_watts(
    work: Callable[[], float],
    joules: Callable[[], float | None],
    *,
    now_s: Callable[[], float] = time.monotonic,
) -> float | None:
    """Energy per busy second; None where nobody counts it, or the counter hardly moves.

    work: does one piece and says how many ms it was busy. joules: reads the counter.
    A driver's counter moves in steps of up to a tenth of a second, longer than most work: counting begins with one
    step and ends with another, at least half a second later: a run has nine methods to profile, and waits.
    """
    last = joules()
    begin_s, began, busy_ms = now_s(), None, 0.0
    while last is not None and now_s() - begin_s < MOST_S:
        ms, now = work(), joules()
        if now is None or now < last:  # some counters wrap
            return None
        busy_ms += ms
        if now != last:
            if began is None:
                began, busy_ms = (now_s(), now), 0.0
            elif now_s() - began[0] >= LEAST_S and busy_ms > 0:
                return 1000 * (now - began[1]) / busy_ms
        last = now
    return None
