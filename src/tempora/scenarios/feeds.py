"""When batches arrive, and which one the pipeline picks up next.

A feed is asked once per service, with the instant the pipeline became free, and answers with the batch
to serve and when its service starts. Everything that distinguishes the paper's scenarios in time is here:
a closed loop whose next batch comes when the last one is predicted or done, or a schedule that does not wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

NEVER_BUSY_MS = float("-inf")
"""Before its first batch the pipeline is idle, which is not the same as becoming free at time 0."""


Pickup = tuple[int, float, float, float, bool]
"""What the pipeline takes next: batch, arrived_ms, start_ms, wait_ms, and whether the pipeline had sat idle
before this start although arrivals were dropped meanwhile (forced idling). A plain tuple, because replays of
long streams make millions of them."""


class Feed(Protocol):
    evicted: list[int]

    def take(self, emission_ms: float, adapt_ms: float, finish_ms: float) -> Pickup | None:
        """The next batch for a pipeline whose last one was emitted, adapted on for so long, and then done.

        None: the stream is over.
        """

    def waiting(self, now_ms: float) -> int:
        """How many batches wait in the queue at `now_ms`."""


class ClosedLoop:
    """The stream waits for the pipeline: the next batch arrives when the last one is predicted, or done.

    `on_prediction` is the paper's greedy user (Continuous), `on_completion` the offline stream.
    """

    def __init__(self, num_batches: int, on_prediction: bool) -> None:
        self.evicted: list[int] = []
        self._num_batches = num_batches
        self.on_prediction = on_prediction
        self._next = 0

    def take(self, emission_ms: float, adapt_ms: float, finish_ms: float) -> Pickup | None:
        batch = self._next
        if batch == self._num_batches:
            return None
        self._next = batch + 1
        if batch == 0:
            return 0, 0.0, 0.0, 0.0, False
        if self.on_prediction:
            return batch, emission_ms, finish_ms, adapt_ms, False
        return batch, finish_ms, finish_ms, 0.0, False

    def waiting(self, now_ms: float) -> int:
        return 0


class Schedule:
    """Batches arrive at given times; up to `queue` of them wait while the pipeline is busy.

    A full queue evicts its oldest; queue 0 drops the arrival itself (Alfarra et al.'s single-model protocol).
    """

    def __init__(self, arrivals_ms: Sequence[float], queue: int) -> None:
        self.evicted: list[int] = []
        self._arrivals_ms = arrivals_ms
        self._queue = queue
        self._waiting: deque[int] = deque()
        self._next = 0
        self._last = len(arrivals_ms)
        self._evicted_before = 0

    def take(self, emission_ms: float, adapt_ms: float, finish_ms: float) -> Pickup | None:
        arrivals_ms, following, last = self._arrivals_ms, self._next, self._last
        while following < last and arrivals_ms[following] < finish_ms:
            self._admit(following)
            following += 1
        if self._queue:
            # Arrivals of the very instant in which the pipeline becomes free are queued before it picks;
            # without a queue it takes the first of them instead.
            following = self._admit_all_at(finish_ms, following)
        dropped = len(self.evicted) > self._evicted_before
        self._evicted_before = len(self.evicted)

        if self._waiting:
            self._next = following
            batch = self._waiting.popleft()
            arrived_ms = arrivals_ms[batch]
            return batch, arrived_ms, finish_ms, finish_ms - arrived_ms, False
        if following == last:
            return None
        # An idle pipeline takes the first arrival of an instant; the others of that instant queue.
        arrived_ms = arrivals_ms[following]
        self._next = self._admit_all_at(arrived_ms, following + 1)
        return following, arrived_ms, arrived_ms, 0.0, dropped

    def _admit_all_at(self, instant_ms: float, following: int) -> int:
        """Queue the arrivals of one instant; returns the first that comes later."""
        while following < self._last and self._arrivals_ms[following] == instant_ms:
            self._admit(following)
            following += 1
        return following

    def waiting(self, now_ms: float) -> int:
        count, upcoming = len(self._waiting), self._next
        while (
            count < self._queue
            and upcoming < len(self._arrivals_ms)
            and self._arrivals_ms[upcoming] <= now_ms
        ):
            count, upcoming = count + 1, upcoming + 1
        return count

    def _admit(self, batch: int) -> None:
        if not self._queue:
            self.evicted.append(batch)
            return
        if len(self._waiting) == self._queue:
            self.evicted.append(self._waiting.popleft())
        self._waiting.append(batch)
