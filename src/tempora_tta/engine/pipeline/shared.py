"""What the threads of a live pipeline share, under one lock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tempora_tta.engine.calls import Costs, moment_at
from tempora_tta.engine.pipeline.collecting import Collector
from tempora_tta.engine.pipeline.line import Line
from tempora_tta.engine.pipeline.live_time import LiveClock, Lived
from tempora_tta.engine.pipeline.replies import Replies
from tempora_tta.engine.pipeline.requests import Lock, Request, Unit
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Moment
from tempora_tta.scenarios import Resolved, Turn

T = TypeVar("T")


@dataclass(frozen=True)
class Command:
    """What the worker is to do between two batches."""

    work: Callable[[], Any]
    then: Callable[[], None]
    """Follows with the lock held, unless the work failed or was left behind: what must not be done later."""
    done: Future[Any] = field(default_factory=Future)


class Shared:
    """The requests of a pipeline and where they are. Every method but `by_worker` and `moment` is called with
    the lock held."""

    def __init__(
        self,
        resolved: Resolved,
        clock: LiveClock,
        collector: Collector,
        journal: Callable[[Lived], None] | None,
    ) -> None:
        self.lock = Lock()
        self.work_there, self.minder_wakes, self.quiet = (
            threading.Condition(self.lock.held) for _ in range(3)
        )
        self.resolved, self.clock, self.collector = resolved, clock, collector
        self.line = Line(resolved)
        self.replies = Replies(resolved.value)
        self.commands: deque[Command] = deque()
        self.costs = Costs()
        """What the method's work has taken: for methods that want to know."""
        self.closing = self.dropping = False
        self.ended = False
        self._journal = journal

    def moment(self, turn: Turn, emitted: bool = False) -> Moment:
        """What a time-aware method may know now, in any thread."""
        with self.lock:
            now_ms = self.clock.now_ms()
            return moment_at(now_ms, turn, self.line.timeline, self.resolved, self.costs, emitted)

    def submit(self, request: Request) -> None:
        """A request arrives: as a batch, or as an image of one."""
        self.refuse_after_close()
        now_ms = self.clock.now_ms()
        if not self.collector.wants(request):
            self.offer([request], now_ms)
            return
        if not self.collector.fits(request):
            self.offer(self.collector.take(), now_ms)
        self.collector.add(request, now_ms)
        if self.collector.is_full:
            self.offer(self.collector.take(), now_ms)
        elif len(self.collector) == 1:
            self.minder_wakes.notify_all()

    def offer(self, requests: list[Request], now_ms: float) -> None:
        was_idle = self.line.turn is None
        self.line.offer(requests, now_ms)
        self.see_losses()
        if was_idle:
            self.work_there.notify_all()  # last: whoever wakes up has to wait for the lock

    def see_losses(self) -> None:
        """Drop what was lost by now, unless the fallback will answer it."""
        for unit in self.line.lost(self.clock.now_ms()):
            self.replies.drop(*unit.requests)

    def finish(self, row: Lived) -> None:
        """The pipeline is free again: say how long the turn took, and take the next."""
        self.line.finish(row, pick=not self.dropping)
        self.replies.tally.steps += row.phase == "adapt"
        if self._journal is not None:
            self._journal(row)
        if not self.dropping:
            self.see_losses()
            self.line.forget()
        self.say_if_quiet()

    def drop_waiting(self) -> None:
        """All but what the worker has in hand."""
        self.dropping = True
        for unit in self._taken_out(keep_turn=True):
            self.replies.drop(*unit.requests)

    def give_up(self, reason: str) -> None:
        """Nothing answers any more: refuse whatever is there, and end."""
        self.closing = True
        for unit in self._taken_out(keep_turn=False):
            for request in unit.requests:
                if not request.done():
                    self.replies.refuse(request, TemporaError(f"{reason}; deploy again"))
        for command in self.commands:
            command.done.set_exception(TemporaError(f"{reason}; deploy again"))
        self.commands.clear()
        self.work_there.notify_all()
        self.quiet.notify_all()

    def _taken_out(self, keep_turn: bool) -> list[Unit]:
        return [*self.line.clear(keep_turn), Unit(self.collector.take())]

    def by_worker(self, work: Callable[[], T], then: Callable[[], None] = lambda: None) -> T:
        """Have the worker do something between two batches, and wait for it."""
        command = Command(work, then)
        with self.lock:
            if self.closing:
                raise TemporaError("the pipeline is closed: save before close, and load into a new one")
            self.commands.append(command)
            self.work_there.notify_all()
        result: T = command.done.result()
        return result

    def refuse_after_close(self) -> None:
        if self.closing:
            raise TemporaError("the pipeline is closed: make another with tempora.deploy")

    @property
    def waiting(self) -> int:
        """Batches that have come and that nobody works on."""
        return self.line.waiting + bool(len(self.collector))

    @property
    def is_quiet(self) -> bool:
        return self.line.turn is None and not (self.waiting or self.commands)

    def say_if_quiet(self) -> None:
        if self.is_quiet:
            self.quiet.notify_all()
