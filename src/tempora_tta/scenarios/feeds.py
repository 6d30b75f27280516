"""Arrivals of batches, and the choice of the one that the pipeline picks up next.

A feed is asked with the instant the pipeline became free: which batches were lost until then, which one waits, which
one an idle pipeline takes next. Everything that distinguishes the paper's scenarios in time is here: a closed loop
whose next batch comes when the last one is predicted or done, or a schedule that does not wait.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar, overload

from tempora_tta.errors import TemporaError

NEVER_BUSY_MS = float("-inf")
"""Before its first batch the pipeline is idle, which is not the same as becoming free at time 0."""


class Pickup(NamedTuple):
    """The batch that the pipeline takes next."""

    batch: int
    arrived_ms: float
    start_ms: float
    wait_ms: float
    forced: bool
    """The pipeline had sat idle before this start although arrivals were dropped meanwhile."""


T = TypeVar("T")


class Recent(Generic[T]):
    """A list that can forget its beginning; positions go on counting from there."""

    def __init__(self) -> None:
        self._kept: list[T] = []
        self._forgotten = 0

    def __len__(self) -> int:
        return self._forgotten + len(self._kept)

    def __iter__(self) -> Iterator[T]:
        return iter(self._kept)

    @overload
    def __getitem__(self, position: int) -> T: ...
    @overload
    def __getitem__(self, position: slice) -> list[T]: ...
    def __getitem__(self, position: int | slice) -> T | list[T]:
        if isinstance(position, slice):
            start, stop, step = position.indices(len(self))
            return self._kept[max(0, start - self._forgotten) : max(0, stop - self._forgotten) : step]
        return self._kept[position if position < 0 else position - self._forgotten]

    def append(self, entry: T) -> None:
        self._kept.append(entry)

    def forget(self, before: int) -> None:
        """Let go of the entries before a position."""
        if before > self._forgotten:
            del self._kept[: before - self._forgotten]
            self._forgotten = before


class Feed(Protocol):
    along: Sequence[Pickup]
    """Batches that are taken together with the last one, and answered with it."""

    @property
    def evicted(self) -> list[int] | Recent[int]:
        """Batches that the pipeline lost, in the order of loss."""

    def take(self, emission_ms: float, adapt_ms: float, finish_ms: float) -> Pickup | None:
        """The next batch for a pipeline whose last one was emitted, adapted on for so long, and then done.

        None: no batch is left, or known yet.
        """

    def waiting(self, now_ms: float, emitted: bool) -> int:
        """Count the batches that wait at `now_ms`; `emitted`: the one in hand is predicted."""

    @property
    def known(self) -> int:
        """Number of batches that have arrived, or are known to come."""


class ClosedLoop:
    """The stream waits for the pipeline: the next batch arrives when the last one is predicted, or done.

    `on_prediction` is the paper's greedy user (Continuous), `on_completion` the offline stream.
    """

    along: Sequence[Pickup] = ()

    def __init__(self, num_batches: int, on_prediction: bool) -> None:
        self.evicted: list[int] = []
        self.known = num_batches
        self.on_prediction = on_prediction
        self._next = 0

    def take(self, emission_ms: float, adapt_ms: float, finish_ms: float) -> Pickup | None:
        batch = self._next
        if batch == self.known:
            return None
        self._next = batch + 1
        if batch == 0:
            return Pickup(0, 0.0, 0.0, 0.0, False)
        if self.on_prediction:
            return Pickup(batch, emission_ms, finish_ms, adapt_ms, False)
        return Pickup(batch, finish_ms, finish_ms, 0.0, False)

    def waiting(self, now_ms: float, emitted: bool) -> int:
        return int(self.on_prediction and emitted and self._next < self.known)


class Schedule:
    """Batches arrive at given times; up to `queue` of them wait while the pipeline is busy.

    A full queue evicts its oldest; queue 0 drops the arrival itself (Alfarra et al.'s single-model protocol).
    Arrivals may be known from the start or become known as they happen (`offer`): what comes of them is the same.
    Of those that wait, a pipeline that becomes free takes `together` at most. A `live` one can forget what is over,
    because it may run for months.
    """

    def __init__(
        self, arrivals_ms: Sequence[float], queue: int, live: bool = False, together: int = 1
    ) -> None:
        self.evicted: list[int] | Recent[int] = Recent() if live else []
        self.lost_ms: list[float] | Recent[float] = Recent() if live else []
        """Times at which they were lost."""
        self.arrivals_ms: list[float] | Recent[float] = Recent() if live else list(arrivals_ms)
        self.queue, self.together = queue, together
        self.along: Sequence[Pickup] = ()
        self._waiting: deque[int] = deque()
        self._next = 0
        self._evicted_before = 0

    @property
    def known(self) -> int:
        return len(self.arrivals_ms)

    def offer(self, arrived_ms: float) -> int:
        """A batch arrives; returns its number."""
        if self.arrivals_ms and arrived_ms < self.arrivals_ms[-1]:
            raise TemporaError(
                f"arrived_ms={arrived_ms}: comes before the last arrival at {self.arrivals_ms[-1]}; "
                "offer batches in the order in which they arrive"
            )
        self.arrivals_ms.append(arrived_ms)
        return len(self.arrivals_ms) - 1

    def take(self, emission_ms: float, adapt_ms: float, finish_ms: float) -> Pickup | None:
        self.admit_until(finish_ms)
        arrivals_ms, following = self.arrivals_ms, self._next
        if not self._waiting and following == len(arrivals_ms):
            return None
        dropped = len(self.evicted) > self._evicted_before
        self._evicted_before = len(self.evicted)
        if self._waiting:
            taken, *self.along = (
                self._pickup(finish_ms) for _ in range(min(self.together, len(self._waiting)))
            )
            return taken
        self.along = ()
        # An idle pipeline takes the first arrival of an instant; the others of that instant queue.
        arrived_ms = arrivals_ms[following]
        self._next = upcoming = following + 1
        if upcoming < len(arrivals_ms) and arrivals_ms[upcoming] == arrived_ms:
            self.admit_until(arrived_ms, busy=True)
        return Pickup(following, arrived_ms, arrived_ms, 0.0, dropped)

    def _pickup(self, start_ms: float) -> Pickup:
        batch = self._waiting.popleft()
        arrived_ms = self.arrivals_ms[batch]
        return Pickup(batch, arrived_ms, start_ms, start_ms - arrived_ms, False)

    def admit_until(self, free_ms: float, busy: bool = False) -> None:
        """Let the arrivals up to the instant in which the pipeline becomes free queue, or be lost.

        Without a queue it takes the first arrival of that very instant, unless it is `busy` again at once.
        """
        # Arrivals of the very instant in which the pipeline becomes free are queued before it picks;
        # without a queue it takes the first of them instead.
        inclusive = self.queue > 0 or busy
        arrivals_ms, following, last = self.arrivals_ms, self._next, len(self.arrivals_ms)
        while following < last and (
            (arrived_ms := arrivals_ms[following]) < free_ms or (inclusive and arrived_ms == free_ms)
        ):
            self._admit(following, arrived_ms)
            following += 1
        self._next = following

    def admit_before(self, now_ms: float) -> None:
        """The arrivals before `now_ms` found the pipeline busy."""
        while self._next < len(self.arrivals_ms) and self.arrivals_ms[self._next] < now_ms:
            self._admit(self._next, self.arrivals_ms[self._next])
            self._next += 1

    def forget(self, told: int) -> None:
        """Let go of arrivals that are over, and of all losses but those after the first `told`."""
        if not isinstance(self.arrivals_ms, Recent):
            raise RuntimeError("only a live schedule forgets: the others are asked for their whole course")
        unsettled = [self._next - 1, *self._waiting, *self.evicted[told : told + 1]]
        self.arrivals_ms.forget(min(unsettled))
        for losses in (self.evicted, self.lost_ms):
            if isinstance(losses, Recent):
                losses.forget(told)

    def arrived(self, batch: int) -> float:
        return self.arrivals_ms[batch]

    def ready(self, free_ms: float) -> bool:
        """Tell whether a batch waits, or arrives at the instant at which the pipeline becomes free."""
        upcoming = self.arrivals_ms[self._next : self._next + 1]
        return bool(self._waiting) or upcoming == [free_ms]

    def next_arrival_ms(self, now_ms: float, interval_ms: float) -> float:
        """The first known arrival after `now_ms`; where none is known, when it is due at this interval."""
        upcoming = self._next
        while upcoming < len(self.arrivals_ms) and self.arrivals_ms[upcoming] <= now_ms:
            upcoming += 1
        if upcoming < len(self.arrivals_ms):
            return self.arrivals_ms[upcoming]
        last_ms = self.arrivals_ms[-1]
        return last_ms + interval_ms * (math.floor((now_ms - last_ms) / interval_ms) + 1)

    def waiting(self, now_ms: float, emitted: bool) -> int:
        count, upcoming = len(self._waiting), self._next
        while (
            count < self.queue and upcoming < len(self.arrivals_ms) and self.arrivals_ms[upcoming] <= now_ms
        ):
            count, upcoming = count + 1, upcoming + 1
        return count

    def _admit(self, batch: int, arrived_ms: float) -> None:
        if not self.queue:
            self._lose(batch, arrived_ms)
            return
        if len(self._waiting) == self.queue:
            self._lose(self._waiting.popleft(), arrived_ms)
        self._waiting.append(batch)

    def _lose(self, batch: int, lost_ms: float) -> None:
        self.evicted.append(batch)
        self.lost_ms.append(lost_ms)
