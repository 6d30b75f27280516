"""The door of a live pipeline: what no network takes is refused here, before it counts as an arrival."""

from __future__ import annotations

import math
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tempora_tta._tensors import described, is_plain
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from tempora_tta.engine.pipeline.requests import Request, Response


class Door:
    """Looks at what clients hand in."""

    def __init__(self, device: torch.device, shape: tuple[int, ...] | None) -> None:
        self._device = device
        self._shape = shape
        """Of one image; None until one was answered."""

    def learn_from(self, request: Request) -> None:
        """What the first answer was for has the right shape. One that nobody could answer says nothing."""
        if self._shape is not None:
            return

        def learn(future: Future[Response]) -> None:
            if future.exception() is None and not future.result().dropped:
                self._shape = self._shape or request.shape

        Future.add_done_callback(request, learn)  # at once; a client's callbacks wait for the lock

    @torch.inference_mode(False)  # a copy that is made inside of it could not be learned from
    def admit(self, x: Any) -> tuple[Tensor, bool, Tensor | None]:
        """A copy on the device, with a batch's dimension; whether it was a single image; and the sum by which its
        values are still to be checked, None where they are known to be finite.

        A copy, because cameras reuse their buffers and adaptation goes on after the answer. Of values on a GPU only
        the sum is asked for, and the worker looks at it: here the client would wait for the batch being served.
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
        single = self._is_single(given)
        on_processor = given.device.type == "cpu"
        if on_processor and not all_finite(given):
            raise TemporaError(
                "submit() was given NaN or infinite values: check how the images were normalised"
            )
        batch = (given[None] if single else given).to(self._device, torch.float32, copy=True)
        if batch.is_cuda:
            _hand_over(batch)
        return batch, single, None if on_processor else batch.sum()

    def _is_single(self, given: Tensor) -> bool:
        shape = tuple(given.shape)
        if self._shape is None:
            if len(shape) not in (3, 4) or 0 in shape:
                raise TemporaError(
                    f"submit() was given a tensor of shape {shape}: give an image (channels, height, width) or a "
                    "batch of them"
                )
            return len(shape) == 3
        if shape == self._shape:
            return True
        if shape[1:] == self._shape and shape[0] > 0:
            return False
        raise TemporaError(
            f"submit() was given a tensor of shape {shape}: give an image of shape {self._shape}, or a batch (n, "
            f"{', '.join(map(str, self._shape))}), as before; to serve others, deploy with example=, a batch of them"
        )


def _hand_over(batch: Tensor) -> None:
    """From the client's stream of work on a GPU to the worker's, the default one of the device: a client with a
    stream of its own waits until the copy is there."""
    own, workers = torch.cuda.current_stream(batch.device), torch.cuda.default_stream(batch.device)
    if own != workers:
        own.synchronize()
        batch.record_stream(workers)


def all_finite(x: Tensor, total: Tensor | None = None) -> bool:
    """Whether no value is NaN or infinite. One of them would show in the sum (`total`, if it is there already), which
    takes a fraction of the time; a sum can also be too large by itself, and only then is every value looked at."""
    return math.isfinite((x.sum() if total is None else total).item()) or bool(torch.isfinite(x).all())
