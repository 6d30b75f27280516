"""Requests to a live pipeline, their responses, and what a client hands in with them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tempora_tta._tensors import described, is_plain
from tempora_tta.errors import TemporaError


@dataclass(frozen=True)
class Response:
    """The end of one request: scores, or nothing where it was dropped."""

    scores: Tensor | None
    """In the processor's memory: (C) for one image, (n, C) for a batch; None where it was dropped."""
    dropped: bool
    response_ms: float | None
    """Time from `submit` to the answer; None where it was dropped."""
    fallback: bool = False
    """The pipeline lost it, and the fallback answered."""


@dataclass(frozen=True)
class ServedBatch:
    """The course of one batch, in the pipeline's own milliseconds."""

    batch: int
    phase: str
    """adapt, frozen or fallback."""
    arrived_ms: float
    start_ms: float
    """The pipeline was free for it."""
    picked_ms: float
    """The worker had it in hand."""
    emission_ms: float
    finish_ms: float
    action: str

    @property
    def predict_ms(self) -> float:
        """Until the answer, as the timeline is told: getting hold of the batch is part of it."""
        return max(0.0, self.emission_ms - self.start_ms)

    @property
    def adapt_ms(self) -> float:
        return max(0.0, self.finish_ms - self.emission_ms)


class Request(Future[Response]):
    """The future of a `Response`. It cannot be cancelled: every request ends once, answered, dropped or refused."""

    def __init__(
        self, owner: object, x: Tensor, single: bool, total: Tensor | None, submitted_ms: float
    ) -> None:
        super().__init__()
        self.owner = owner
        """The pipeline that it was submitted to."""
        self.x: Tensor | None = x
        """A batch, of one image if `single`; let go of when it ends."""
        self.single, self.size, self.shape = single, len(x), tuple(x.shape[1:])
        """A single image or not, the number of images, and the shape of one."""
        self.total = total
        """The sum of its values, on their device, where they are still to be checked; None: they are finite."""
        self.submitted_ms = self.arrived_ms = submitted_ms
        """`arrived_ms`: when the batch that it is part of was handed to the timeline."""
        self.outcome: Response | TemporaError | None = None
        """End of the request; the client is told when the pipeline's lock is free again."""
        self.adapted, self.kappa = False, 0.0
        """True if its batch was adapted on; then the worth of its answer."""
        self.label: Tensor | None = None
        self.set_running_or_notify_cancel()

    @property
    def is_finite(self) -> bool:
        """Waits for the device, where its values are there and unknown."""
        return self.total is None or (self.x is not None and all_finite(self.x, self.total))

    def deliver(self) -> None:
        """Tell the client how it ended. For the pipeline only."""
        if isinstance(self.outcome, Response):
            super().set_result(self.outcome)
        else:
            super().set_exception(self.outcome)

    def set_result(self, result: Response) -> None:
        """Refuse: the pipeline would find its request ended by its client."""
        raise TemporaError(
            "set_result() of a request: the pipeline ends it; make a Future of your own for your result"
        )

    def set_exception(self, exception: BaseException | None) -> None:
        """Refuse, as `set_result` does."""
        raise TemporaError(
            "set_exception() of a request: the pipeline ends it; make a Future of your own for your error"
        )

    def add_done_callback(self, fn: Callable[[Future[Response]], object]) -> None:
        """Call `fn` at the end. What it raises is logged and ends nothing, not even if it calls exit."""

        def quietly(future: Future[Response]) -> None:
            try:
                fn(future)
            except BaseException:
                logging.getLogger("tempora_tta").exception("the callback of a client failed")

        super().add_done_callback(quietly)


@torch.inference_mode(False)  # a copy that is made inside of it could not be learned from
def admitted(
    x: Any, device: torch.device, shape: tuple[int, ...] | None
) -> tuple[Tensor, bool, Tensor | None]:
    """A copy on the device, with a batch's dimension; whether it was a single image; and the sum by which its values
    are still to be checked, None where they are known to be finite. What no network takes is refused.

    A copy, because cameras reuse their buffers and adaptation goes on after the answer. Of values on a GPU only the
    sum is asked for, and the worker looks at it: here the client would wait for the batch being served.
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
    if not is_plain(given):
        raise TemporaError(
            "submit() was given a tensor without values of its own, or of a type or layout that no network "
            f"takes ({described(given)}): give dense float32 images"
        )
    single = _is_single(tuple(given.shape), shape)
    on_processor = given.device.type == "cpu"
    if on_processor and not all_finite(given):
        raise not_finite()
    batch = (given[None] if single else given).to(device, torch.float32, copy=True)
    if batch.is_cuda:
        _hand_over(batch)
    return batch, single, None if on_processor else batch.sum()


def not_finite() -> TemporaError:
    """The refusal of values that no network takes."""
    return TemporaError("submit() was given NaN or infinite values: check how the images were normalised")


def other_shape() -> TemporaError:
    """The refusal of an image unlike those that it came with."""
    return TemporaError(
        "submit() was given images of two shapes before one of them was answered: give images of one shape, or "
        "deploy with example=, a batch of them"
    )


def _is_single(given: tuple[int, ...], known: tuple[int, ...] | None) -> bool:
    """Tell one image from a batch; `known` is the shape of one image, as soon as one was answered."""
    if known is None:
        if len(given) not in (3, 4) or 0 in given:
            raise TemporaError(
                f"submit() was given a tensor of shape {given}: give an image (channels, height, width) or a "
                "batch of them"
            )
        return len(given) == 3
    if given == known:
        return True
    if given[1:] == known and given[0] > 0:
        return False
    raise TemporaError(
        f"submit() was given a tensor of shape {given}: give an image of shape {known}, or a batch (n, "
        f"{', '.join(map(str, known))}), as before; to serve others, deploy with example=, a batch of them"
    )


def _hand_over(batch: Tensor) -> None:
    """Pass a batch from the client's stream of work on a GPU to the worker's, the default one of the device: a client
    with a stream of its own waits until the copy is there."""
    own, workers = torch.cuda.current_stream(batch.device), torch.cuda.default_stream(batch.device)
    if own != workers:
        own.synchronize()
        batch.record_stream(workers)


def all_finite(x: Tensor, total: Tensor | None = None) -> bool:
    """Tell whether no value is NaN or infinite.

    One would show in the sum (`total`, if it is there already), which takes a fraction of the time. A sum can also be
    too large by itself, and only then is every value looked at.
    """
    return math.isfinite((x.sum() if total is None else total).item()) or bool(torch.isfinite(x).all())


def classes(y: Any, images: int, num_classes: int) -> Tensor:
    """One class per image, from what a client says was right."""
    try:
        truth = torch.as_tensor(y).detach().cpu().reshape(-1)
    except (TypeError, ValueError, RuntimeError):
        raise TemporaError(
            f"label() was given a {type(y).__name__}: give a class, or one per image"
        ) from None
    if truth.numel() != images:
        raise TemporaError(
            f"label() was given {truth.numel()} classes for {images} images: give one per image"
        )
    whole = is_plain(truth) and truth.dtype != torch.bool
    whole = whole and not (truth.is_floating_point() or truth.is_complex())
    if not whole or bool(((truth.long() < 0) | (truth.long() >= num_classes)).any()):
        raise TemporaError(
            f"label() was given {y!r:.60}: a class is a whole number from 0 to {num_classes - 1}"
        )
    return truth.long()
