"""What goes into a live pipeline and what comes out of it: requests, their answers, and batches made of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import torch
from torch import Tensor

from tempora_tta.engine.pipeline.door import all_finite
from tempora_tta.errors import TemporaError


@dataclass(frozen=True)
class Response:
    """What became of one request."""

    scores: Tensor | None
    """In the processor's memory: (C) for one image, (n, C) for a batch; None where it was dropped."""
    dropped: bool
    response_ms: float | None
    """From `submit` to the answer; None where it was dropped."""
    fallback: bool = False
    """The pipeline lost it, and the fallback answered."""


class Lock:
    """The lock of a pipeline. Callbacks of requests that ended under it run when it is free again, in the thread that
    ended them: a callback may submit, or wait for another thread that does."""

    def __init__(self) -> None:
        self.held = threading.RLock()
        """For conditions."""
        self._mine = _OfThread()

    def when_free(self, call: Callable[[], None]) -> None:
        """Run the call when this thread does not have the lock: now, or when it lets go of it."""
        with self:
            self._mine.calls.append(call)

    def __enter__(self) -> None:
        self.held.acquire()
        self._mine.depth += 1

    def __exit__(self, *error: object) -> None:
        mine = self._mine
        mine.depth -= 1
        self.held.release()
        while not mine.depth and mine.calls:
            mine.calls.pop(0)()


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.depth = 0
        self.calls: list[Callable[[], None]] = []


class Request(Future[Response]):
    """The future of a `Response`. It cannot be cancelled: every request ends once, answered, dropped or refused."""

    def __init__(
        self, x: Tensor, single: bool, total: Tensor | None, submitted_ms: float, lock: Lock
    ) -> None:
        super().__init__()
        self.x: Tensor | None = x
        """A batch, of one image if `single`; let go of with the answer."""
        self.single, self.size, self.shape = single, len(x), tuple(x.shape[1:])
        """Whether it is one image, how many there are, and of which shape."""
        self.total = total
        """The sum of its values, on their device, where nobody has checked them; None: they are finite."""
        self.submitted_ms = submitted_ms
        self.arrived_ms = submitted_ms
        """When the batch that it is part of was handed to the timeline."""
        self.kappa = 0.0
        """What its answer was worth."""
        self.adapted = False
        self.label: Tensor | None = None
        self._lock = lock
        self.set_running_or_notify_cancel()

    def is_of(self, lock: Lock) -> bool:
        """Tell whether it was made by the pipeline that has this lock."""
        return self._lock is lock

    @property
    def is_finite(self) -> bool:
        """Waits for the device, where its values are there and unknown."""
        return self.total is None or (self.x is not None and all_finite(self.x, self.total))

    def answer(self, response: Response) -> None:
        """The pipeline's to call."""
        super().set_result(response)

    def refuse(self, error: Exception) -> None:
        """The pipeline's to call."""
        super().set_exception(error)

    def set_result(self, result: Response) -> None:
        """Not for clients: the pipeline would find its request ended by somebody else."""
        raise TemporaError(
            "set_result() of a request: the pipeline ends it; make a Future of your own for your result"
        )

    def set_exception(self, exception: BaseException | None) -> None:
        """Not for clients, as `set_result`."""
        raise TemporaError(
            "set_exception() of a request: the pipeline ends it; make a Future of your own for your error"
        )

    def add_done_callback(self, fn: Callable[[Future[Response]], object]) -> None:
        super().add_done_callback(lambda future: self._lock.when_free(lambda: _quietly(fn, future)))


def _quietly(call: Callable[[Future[Response]], object], future: Future[Response]) -> None:
    """As futures do: what is wrong with a client's callback is logged and ends nothing, not even if it calls exit."""
    try:
        call(future)
    except BaseException:
        logging.getLogger("tempora").exception("the callback of a client failed")


@dataclass
class Unit:
    """What the pipeline serves in one turn: a batch as it was given, or single images that came close together."""

    requests: list[Request]
    number: int = -1
    """In the timeline."""
    arrived_ms: float = 0.0

    def inputs(self) -> Tensor:
        given = [request.x for request in self.requests if request.x is not None]
        return given[0] if len(given) == 1 else torch.cat(given)
