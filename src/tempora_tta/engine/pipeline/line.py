"""What has arrived at a live pipeline and has not ended, on the timeline of its deployment."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

from tempora_tta.engine.pipeline.live_time import Lived
from tempora_tta.engine.pipeline.requests import Request, Unit
from tempora_tta.scenarios import Resolved, Turn


class Line:
    """Batches that are served or wait. Knows neither threads nor clocks: the pipeline calls it under its lock, and
    says what time it is.

    Its events are in one order, that of the calls. Where two have the same reading of the clock, the timeline's rules
    for one instant hold: what arrives at the very instant of a completion is there before the pipeline picks again.
    What comes after that pick, at the same reading, counts as later. So the arrivals and times that it had, given to
    a timeline that knows all arrivals beforehand, take the same course to the last digit.
    """

    def __init__(self, resolved: Resolved) -> None:
        self.timeline = driven_live(resolved).timeline(live=True)
        self.turn: Turn | None = None
        """What the worker is to do, or does."""
        self._lost_end = resolved.fallback is None
        """Lost batches leave the line; else the fallback will answer them."""
        self._units: dict[int, Unit] = {}
        """By their number in the timeline."""
        self._told = 0
        """How many losses were seen."""
        self._picked_again_ms = -math.inf
        """The last completion after which the pipeline picked."""

    def __len__(self) -> int:
        return len(self._units)

    @property
    def waiting(self) -> int:
        return len(self._units) - (self.turn is not None)

    def unit(self, turn: Turn) -> Unit:
        return self._units[turn.batch]

    def offer(self, requests: list[Request], now_ms: float) -> None:
        """A batch arrives; an idle pipeline takes it."""
        if now_ms <= self._picked_again_ms:
            now_ms = math.nextafter(self._picked_again_ms, math.inf)
        number = self.timeline.offer(now_ms)
        self._units[number] = Unit(requests, number, now_ms)
        for request in requests:
            request.arrived_ms = now_ms
        if self.turn is None:
            self.turn = self.timeline.next()

    def lost(self, now_ms: float) -> list[Unit]:
        """Batches that were lost before `now_ms` and leave the line; each is told once.

        Whether one is lost that arrives at this very instant is not known before the instant is over.
        """
        if self.turn is None and not self._units:
            return []
        found = self.timeline.lost(now_ms, self._told)
        self._told += len(found)
        return [self._units.pop(number) for number, _ in found] if self._lost_end else []

    def finish(self, row: Lived, pick: bool = True) -> None:
        """The pipeline is free again, and picks what comes next."""
        self.timeline.record(row.predict_ms, row.adapt_ms, adapted=row.phase == "adapt")
        del self._units[row.batch]
        self._picked_again_ms = self.timeline.free_ms
        self.turn = self.timeline.next() if pick else None

    def forget(self) -> None:
        """Let go of all that is over and was told: a service may run for months."""
        self.timeline.forget()

    def clear(self, keep_turn: bool) -> list[Unit]:
        """Give up whatever waits; what the worker has in hand, too, unless it is kept."""
        kept = self.turn.batch if keep_turn and self.turn is not None else None
        gone = [unit for number, unit in self._units.items() if number != kept]
        self._units = {number: unit for number, unit in self._units.items() if number == kept}
        if not keep_turn:
            self.turn = None
        return gone


def driven_live(resolved: Resolved) -> Resolved:
    """The deployment as real arrivals meet it, which nobody knows beforehand. A stream that waits loses nothing."""
    queue = sys.maxsize if resolved.waits else resolved.queue
    fallback = None if resolved.waits else resolved.fallback
    return replace(resolved, arrivals="scheduled", arrivals_ms=(), queue=queue, fallback=fallback)
