"""What a pipeline rehearses with before it serves: an example of what will come, and lambda measured on it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempora_tta._tensors import described, is_plain
from tempora_tta.engine.pipeline.door import all_finite
from tempora_tta.engine.pipeline.scores import on_host
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.models import Classifier, check_input
from tempora_tta.timing.profile import PROVISION_X

BASELINE_BATCHES, FEWEST_BATCHES, BASELINE_S = 30, 3, 2.0
"""lambda is measured on so many batches, or on as many as fit into so long and at least a few."""


@dataclass(frozen=True)
class Example:
    """A batch to warm up with."""

    x: Tensor | None
    """None where it is not known what images look like."""
    like_those_to_come: bool
    """The user gave it, so images have its shape. A size that a network names is only the usual one."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the images to come, where it is certain."""
        return tuple(self.x.shape[1:]) if self.x is not None and self.like_those_to_come else None


def find_example(model: Classifier, standard: Method, batch_size: int | None, given: Any) -> Example:
    """The user's example, or noise of the size that the network names."""
    if given is not None:
        return Example(_checked(given, model), like_those_to_come=True)
    generator = torch.Generator().manual_seed(0)
    noise: Tensor | None
    try:
        shape = model.preprocessing.image_shape
        noise = torch.randn(batch_size or 2, *shape, generator=generator).to(model.device)
        standard.predict(noise)
    except (TemporaError, RuntimeError, AssertionError):  # unknown, or assumed and not what it takes
        if model.dtype != torch.float32:
            kind = str(model.dtype).removeprefix("torch.")
            raise TemporaError(
                f"{model.name}: its weights are {kind}, but images come as float32: give network.float()"
            ) from None
        noise = None
    return Example(noise, like_those_to_come=False)


def _checked(given: Any, model: Classifier) -> Tensor:
    try:
        x = torch.as_tensor(given).detach()
    except (TypeError, ValueError, RuntimeError):
        raise TemporaError(
            f"example={given!r:.60}: must be a batch of normalised images (n, channels, height, width)"
        ) from None
    if not is_plain(x) or not x.is_floating_point() or x.ndim != 4 or 0 in x.shape:
        raise TemporaError(
            f"example= is {described(x)}: give a batch of normalised images (n, channels, height, width), dense and "
            "float32, like those to come; one image is example=image[None]"
        )
    x = x.to(model.device, torch.float32, copy=True)
    if not all_finite(x):
        raise TemporaError("example= holds NaN or infinite values: check how the images were normalised")
    check_input(model, x.shape[1:])
    return x


def measured_baseline(standard: Method, example: Tensor) -> float:
    """lambda: the median of standard inference here, with a provision; answers in the processor's memory."""
    times_ms: list[float] = []
    for done in range(BASELINE_BATCHES):
        if done >= FEWEST_BATCHES and sum(times_ms) > 1000 * BASELINE_S:
            break
        begin = time.perf_counter_ns()
        on_host(standard.predict(example))
        times_ms.append((time.perf_counter_ns() - begin) / 1e6)
    return PROVISION_X * float(np.median(times_ms[len(times_ms) // 3 :]))
