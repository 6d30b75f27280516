"""Mean power of repeated work, from the device's energy counter."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_S, MOST_S = 0.5, 1.5
READ_EVERY_S = 0.03
"""Reading a GPU's counter takes milliseconds in which it does nothing."""


def mean_watts(
    work: Callable[[], object],
    joules: Callable[[], float | None],
    *,
    now_s: Callable[[], float] = time.monotonic,
) -> float | None:
    """Energy per second of work without a pause; None where nobody counts it, or the counter hardly moves.

    work: does one piece. joules: reads the counter.
    A driver's counter moves in steps of up to a tenth of a second, longer than most work: counting begins with one
    step and ends with another, at least half a second later: a run has nine methods to profile, and waits.
    """
    last = joules()
    begin_s, began = now_s(), None
    while last is not None and now_s() - begin_s < MOST_S:
        read_s = now_s()
        while now_s() - read_s < READ_EVERY_S:
            work()
        now = joules()
        if now is None or now < last:  # some counters wrap
            return None
        if now != last:
            if began is None:
                began = now_s(), now
            elif now_s() - began[0] >= LEAST_S:
                return (now - began[1]) / (now_s() - began[0])
        last = now
    return None
