"""What goes into a live pipeline and what comes out of it: requests, their answers, and batches made of them."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tempora.errors import TemporaError


@dataclass(frozen=True)
class Answer:
    """What became of one request."""

    scores: Tensor | None
    """In the processor's memory: (C) for one image, (n, C) for a batch; None where it was dropped."""
    dropped: bool
    response_ms: float | None
    """From `submit` to the answer; None where it was dropped."""
    fallback: bool = False
    """The pipeline lost it, and the fallback answered."""


class Courier:
    """Runs the callbacks of clients in a thread of its own: a slow one keeps nobody's answer back."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def carry(self, call: Callable[[], object]) -> None:
        with self._lock:
            closed = self._closed
            if not closed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="tempora-courier", daemon=True)
                    self._thread.start()
                self._calls.put(call)
        if closed:
            call()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def close(self, timeout_s: float) -> None:
        """Deliver what is left; a callback that never returns is not waited for longer than this."""
        with self._lock:
            self._closed, thread = True, self._thread
            self._calls.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)


class Request(Future[Answer]):
    """The future of an `Answer`. It cannot be cancelled: every request ends once, answered, dropped or refused."""

    def __init__(self, x: Tensor, single: bool, checked: bool, submitted_ms: float, courier: Courier) -> None:
        super().__init__()
        self.x: Tensor | None = x
        """A batch, of one image if `single`; let go of with the answer."""
        self.single, self.size = single, len(x)
        self.checked = checked
        """Whether its values are known to be finite."""
        self.submitted_ms = submitted_ms
        self.kappa = 0.0
        """What its answer was worth."""
        self.adapted = False
        self.label: Tensor | None = None
        self._courier = courier
        self.set_running_or_notify_cancel()

    def add_done_callback(self, fn: Callable[[Future[Answer]], object]) -> None:
        super().add_done_callback(lambda future: self._courier.carry(lambda: _quietly(fn, future)))


def _quietly(call: Callable[[Future[Answer]], object], future: Future[Answer]) -> None:
    """As futures do: what is wrong with a client's callback is logged and ends nothing."""
    try:
        call(future)
    except Exception:
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


class Door:
    """Looks at what clients hand in, before it counts as an arrival."""

    def __init__(self, device: torch.device, shape: tuple[int, ...] | None) -> None:
        self._device = device
        self._shape = shape
        """Of one image; None until the first one shows it."""

    def admit(self, x: Any) -> tuple[Tensor, bool, bool]:
        """A copy on the device, with a batch's dimension; whether it was a single image; whether it was checked.

        A copy, because cameras reuse their buffers and adaptation goes on after the answer. Values on a GPU are
        checked by the worker: here the client would wait for the batch that is being served.
        """
        try:
            given = torch.as_tensor(x).detach()
        except (TypeError, ValueError, RuntimeError) as error:
            raise TemporaError(
                f"submit() was given a {type(x).__name__} that is no tensor ({error}): give an image or a batch of "
                "images, normalised float32"
            ) from None
        if not given.is_floating_point():
            raise TemporaError(
                f"submit() was given {given.dtype}: give normalised floating-point images, as the network wants them"
            )
        single = self._is_single(given)
        on_processor = given.device.type == "cpu"
        if on_processor and not bool(torch.isfinite(given).all()):
            raise TemporaError(
                "submit() was given NaN or infinite values: check how the images were normalised"
            )
        batch = (given[None] if single else given).to(self._device, torch.float32, copy=True)
        return batch, single, on_processor

    def _is_single(self, given: Tensor) -> bool:
        shape = tuple(given.shape)
        if self._shape is None:
            if len(shape) not in (3, 4) or 0 in shape:
                raise TemporaError(
                    f"submit() was given a tensor of shape {shape}: give an image (channels, height, width) or a "
                    "batch of them"
                )
            self._shape = shape[-3:]
        if shape == self._shape:
            return True
        if shape[1:] == self._shape and shape[0] > 0:
            return False
        raise TemporaError(
            f"submit() was given a tensor of shape {shape}: give an image of shape {self._shape}, or a batch (n, "
            f"{', '.join(map(str, self._shape))})"
        )
