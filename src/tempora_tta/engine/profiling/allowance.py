"""How much of the time that a profile was given has passed."""

from __future__ import annotations

import time

LEAST_SHARE = 0.75
"""Of the time given, for the rounds: starting up and warming up may take the rest of it and no more."""
MOST_WAIT = 2.0
"""Where others use the processor too, seconds are those that we had of it, until so many times as many are over."""


class Allowance:
    """`seconds` from `waited_s` ago; of this process's processor time, if that is what is recorded."""

    def __init__(self, seconds: float, waited_s: float, by_processor: bool) -> None:
        self._seconds, self._by_processor = seconds, by_processor
        self._wall_s = time.monotonic() - waited_s
        processor_s = time.process_time()
        self._processor_s = processor_s - min(waited_s, processor_s)

    def rounds_begin(self) -> None:
        """Whatever came before has taken a quarter at most."""
        most_s = (1 - LEAST_SHARE) * self._seconds
        self._wall_s = max(self._wall_s, time.monotonic() - most_s)
        self._processor_s = max(self._processor_s, time.process_time() - most_s)

    @property
    def up(self) -> float:
        """The share that has passed; above 1, the time is up."""
        wall = (time.monotonic() - self._wall_s) / self._seconds
        if not self._by_processor:
            return wall
        return max((time.process_time() - self._processor_s) / self._seconds, wall / MOST_WAIT)
