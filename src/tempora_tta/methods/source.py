"""Clean unlabelled samples that a method may ask for when it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tempora_tta._tensors import described, is_plain
from tempora_tta.errors import TemporaError

Source = Tensor | Callable[[int], Tensor]
"""A tensor (m, channels, height, width), or a function that makes n such images."""

HOW = (
    "create, evaluate and deploy(..., source=images) take a normalised tensor, a run takes "
    "`source: a dataset` or `source: {dataset: ..., samples: N}` (on fashion its own ship along). Draw them from "
    "training images, never from the stream's"
)


def samples(source: Any, n: int, method: str) -> Tensor:
    """n images of the source, or an error that says how many are needed and how to give them."""
    if source is None:
        raise TemporaError(f"{method} needs {n} clean unlabelled samples of the source domain: {HOW}.")
    given = source(n) if callable(source) else source
    if (
        not isinstance(given, Tensor)
        or not is_plain(given)
        or given.ndim != 4
        or not given.is_floating_point()
    ):
        what = described(given) if isinstance(given, Tensor) else type(given).__name__
        raise TemporaError(f"source: {what} given; expected normalised images, floating point, (n, c, h, w).")
    if len(given) < n:
        raise TemporaError(
            f"{method} needs {n} clean samples and the source has {len(given)}: give more, or ask for fewer "
            f"(samples={len(given)} among its settings)."
        )
    if not torch.isfinite(given[:n]).all():
        raise TemporaError("source: its images hold NaN or infinity.")
    return given[:n].detach()
