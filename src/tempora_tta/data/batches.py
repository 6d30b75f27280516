"""Batches given from Python: a shift whose pictures are tensors already."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from tempora_tta._tensors import described, is_plain
from tempora_tta.data.fingerprint import digest
from tempora_tta.data.images import Geometry
from tempora_tta.data.order import Order
from tempora_tta.data.sampler import as_given
from tempora_tta.data.shift import Shift
from tempora_tta.data.stream import Stream
from tempora_tta.data.threads import in_threads
from tempora_tta.errors import TemporaError, TemporaWarning


def from_batches(
    name: str,
    batches: Iterable[tuple[Any, Any]],
    num_classes: int | None = None,
    device: str | torch.device = "cpu",
    seed: int = 2025,
) -> Stream:
    """A stream from a list of (x normalised float32, y int64), served in the order given.

    All batches have the same size; a smaller last one is left out (see `.dropped`). `seed` decides nothing
    here: it only labels the results.
    """
    return open_given(given_order(given_shift(name, batches, num_classes), seed), device)


def given_shift(
    name: str,
    batches: Iterable[tuple[Any, Any]],
    num_classes: int | None = None,
    severity: int | None = None,
) -> Shift:
    """The samples of all batches as a shift, for orders of any kind."""
    if not isinstance(batches, Iterable):
        raise TemporaError(f"batches of {name!r} are a {type(batches).__name__}: expected a list of (x, y)")
    batches = list(batches)
    if not batches:
        raise TemporaError(f"batches of {name!r}: the list is empty; give at least one (x, y)")
    checked = [_check(name, i, batch, num_classes) for i, batch in enumerate(batches)]
    images, labels = [x for x, _ in checked], [y for _, y in checked]
    dropped = _drop_odd_batch(name, images, labels)
    _check_memory(name, [x for x, _ in checked])
    every_label = np.concatenate(labels)
    return Shift(
        name=name,
        labels=every_label,
        num_classes=int(every_label.max()) + 1 if num_classes is None else num_classes,
        source=GivenImages(images, dropped),
        fingerprint=_fingerprint(images, labels),
        severity=severity,
        normalised=True,
    )


def given_order(shift: Shift, seed: int) -> Order:
    """The batches of a given shift, as they were given."""
    source = shift.source
    assert isinstance(source, GivenImages)
    return as_given(shift, source.batch_size, seed, source.dropped)


def given_shape(shift: Shift) -> tuple[int, ...]:
    """The shape of one of its pictures."""
    assert isinstance(shift.source, GivenImages)
    return tuple(shift.source.batches[0].shape[1:])


def open_given(order: Order, device: str | torch.device) -> Stream:
    """The stream of an order of given shifts. Those of one are all on the device, those of many go there in turn."""
    device = torch.device(device)
    sources = [shift.source for shift in order.shifts if isinstance(shift.source, GivenImages)]
    return Stream(order, _Given(sources, device if len(sources) == 1 else None), device)


class GivenImages:
    """Pictures in batches, normalised already."""

    slow_to_read: ClassVar[bool] = False

    def __init__(self, batches: Sequence[torch.Tensor], dropped: int = 0) -> None:
        self.batches, self.dropped = list(batches), dropped

    @property
    def batch_size(self) -> int:
        return len(self.batches[0])

    def __len__(self) -> int:
        return self.batch_size * len(self.batches)

    def read(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        """The pictures at `indices`. They are as the model takes them already, so the geometry has no part in it."""
        return _gather(self.batches, indices).cpu().numpy()


class _Given:
    """Given pictures, as a stream takes them."""

    def __init__(self, sources: Sequence[GivenImages], device: torch.device | None) -> None:
        """`device`: where to keep them; None: where they are."""
        self._batches = [
            one.batches if device is None else [x.to(device) for x in one.batches] for one in sources
        ]

    def batch(self, order: Order, i: int) -> torch.Tensor:
        """A copy: a method that writes into its input spoils no later pass."""
        which, samples = order.samples(i)
        if order.given:
            return self._batches[0][i].clone()
        chosen = torch.empty((len(which), *self._batches[0][0].shape[1:]), device=self._batches[0][0].device)
        for number in np.unique(which):
            places = np.flatnonzero(which == number)
            chosen[torch.from_numpy(places)] = _gather(self._batches[number], samples[places])
        return chosen

    def serve(self, order: Order) -> bool:
        """Always: all of the shifts is there."""
        return True


def _gather(batches: Sequence[torch.Tensor], samples: np.ndarray) -> torch.Tensor:
    size = len(batches[0])
    return torch.stack([batches[sample // size][sample % size] for sample in samples.tolist()])


def _fingerprint(images: Sequence[torch.Tensor], labels: Sequence[np.ndarray]) -> str:
    """Batches are hashed several at once: a shift of photographs has gigabytes."""
    pairs = list(zip(images, labels, strict=True))
    return digest(*in_threads(lambda pair: digest(pair[0].cpu().numpy(), pair[1]), pairs))


def _check(name: str, i: int, batch: Any, num_classes: int | None) -> tuple[torch.Tensor, np.ndarray]:
    """Batch `i` as (float32 tensor, int64 labels), or the error that says what is wrong with it."""
    where = f"batch {i} of {name!r}"
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise TemporaError(f"{where} is a {type(batch).__name__}: expected a pair (x, y)")
    x, y = (_tensor(where, part) for part in batch)
    if not is_plain(x) or x.dtype != torch.float32 or x.ndim < 2:
        raise TemporaError(
            f"{where}: x is {described(x)}: expected dense, normalised float32 images (batch, channels, height, "
            "width)"
        )
    whole = is_plain(y) and not (y.is_floating_point() or y.is_complex() or y.dtype == torch.bool)
    if not whole or y.ndim != 1 or len(y) != len(x):
        raise TemporaError(
            f"{where}: y is {described(y)}, for {len(x)} images: expected one integer label per image (int64)"
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


def _check_memory(name: str, images: Sequence[torch.Tensor]) -> None:
    """Refuse a buffer that a loader fills again for each batch: all of them would be the last one."""
    first: dict[tuple[torch.device, int], int] = {}
    for i, x in enumerate(images):
        other = first.setdefault((x.device, x.data_ptr()), i)
        if other != i:
            raise TemporaError(
                f"batches {other} and {i} of {name!r} lie in the same memory, so both hold the same images: give "
                "each batch a tensor of its own (x.clone())"
            )


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
