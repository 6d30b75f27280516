"""Batches given from Python, with the same face as a stream."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from tempora.data.groups import group_of
from tempora.data.shift import digest
from tempora.errors import TemporaError, TemporaWarning


def from_batches(
    name: str,
    batches: Iterable[tuple[Any, Any]],
    num_classes: int | None = None,
    device: str | torch.device = "cpu",
    seed: int = 2025,
) -> GivenBatches:
    """A stream from a list of (x normalised float32, y int64), served in the order given.

    All batches have the same size; a smaller last one is left out (see `.dropped`). `seed` decides nothing
    here: it only labels the results.
    """
    if not isinstance(batches, Iterable):
        raise TemporaError(f"batches of {name!r} are a {type(batches).__name__}: expected a list of (x, y)")
    batches = list(batches)
    if not batches:
        raise TemporaError(f"batches of {name!r}: the list is empty; give at least one (x, y)")
    checked = [_check(name, i, batch, num_classes) for i, batch in enumerate(batches)]
    images, labels = [x for x, _ in checked], [y for _, y in checked]
    dropped = _drop_odd_batch(name, images, labels)
    return GivenBatches(name, images, labels, dropped, num_classes, torch.device(device), seed)


class GivenBatches:
    """Batches that are tensors already. Made by `from_batches`; follows the `BatchSource` protocol."""

    def __init__(
        self,
        name: str,
        images: list[torch.Tensor],
        labels: list[np.ndarray],
        dropped: int,
        num_classes: int | None,
        device: torch.device,
        seed: int,
    ) -> None:
        self.name, self.group, self.seed = name, group_of(name), seed
        self.fingerprint = digest(*(x.cpu().numpy() for x in images), *labels)
        self.batch_size, self.num_batches, self.dropped = len(labels[0]), len(labels), dropped
        self.order = np.arange(self.batch_size * self.num_batches)
        self.classes: np.ndarray | None = None
        self.num_classes = num_classes
        self.device = device
        self._images = [x.to(device) for x in images]
        self._labels = labels

    def batch(self, i: int) -> torch.Tensor:
        """A copy of batch `i` on the device: a method that writes into its input spoils no later pass."""
        return self._images[self._at(i)].clone()

    def labels(self, i: int) -> np.ndarray:
        """The int64 labels of batch `i`: for scoring, never for a method."""
        return self._labels[self._at(i)]

    def close(self) -> None:
        """Let go of the tensors."""
        self._images = []

    def _at(self, i: int) -> int:
        if not 0 <= i < self.num_batches:
            raise IndexError(f"batch {i} of {self.name!r}: it has {self.num_batches}")
        return i


def _check(name: str, i: int, batch: Any, num_classes: int | None) -> tuple[torch.Tensor, np.ndarray]:
    """Batch `i` as (float32 tensor, int64 labels), or the error that says what is wrong with it."""
    where = f"batch {i} of {name!r}"
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise TemporaError(f"{where} is a {type(batch).__name__}: expected a pair (x, y)")
    x, y = (_tensor(where, part) for part in batch)
    if x.dtype != torch.float32 or x.ndim < 2:
        raise TemporaError(
            f"{where}: x has type {x.dtype} and shape {tuple(x.shape)}: expected normalised float32 images "
            "(batch, channels, height, width)"
        )
    if y.ndim != 1 or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool or len(y) != len(x):
        raise TemporaError(
            f"{where}: y has type {y.dtype} and shape {tuple(y.shape)} for {len(x)} images: "
            "expected one integer label per image"
        )
    if not torch.isfinite(x).all():
        raise TemporaError(f"{where}: x holds NaN or infinite values; check how it was normalised")
    labels = y.cpu().numpy().astype(np.int64)
    if len(labels) and (labels.min() < 0 or (num_classes is not None and labels.max() >= num_classes)):
        limit = "0 or more" if num_classes is None else f"0 to {num_classes - 1}"
        raise TemporaError(f"{where}: labels range from {labels.min()} to {labels.max()}: expected {limit}")
    return x, labels


def _tensor(where: str, part: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(part).detach()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TemporaError(
            f"{where} holds a {type(part).__name__} that is no tensor: expected (x, y), tensors or arrays"
        ) from None


def _drop_odd_batch(name: str, images: list[torch.Tensor], labels: list[np.ndarray]) -> int:
    """Remove a smaller last batch and return its size; every other difference in shape is an error."""
    first = tuple(images[0].shape)
    if not first[0]:
        raise TemporaError(f"batch 0 of {name!r} is empty: give at least one image")
    for i, x in enumerate(images):
        shape = tuple(x.shape)
        odd_last = i == len(images) - 1 and shape[0] < first[0]
        if shape[1:] != first[1:] or (shape[0] != first[0] and not odd_last):
            raise TemporaError(
                f"batch {i} of {name!r} has shape {shape}, batch 0 has {first}: all batches must have "
                "one shape (only the last may be smaller; it is left out)"
            )
    if len(images[-1]) == first[0]:
        return 0
    images.pop()
    odd = len(labels.pop())
    left = f"the last of the batches of {name!r} has {odd} images instead of {first[0]} and is left out"
    warnings.warn(left, TemporaWarning, stacklevel=3)
    return odd
