"""A stream: the batches of one shift in a seeded order, the same for every method, ready on the device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch

from tempora.data.cache import cache_path, cached_pixels, load
from tempora.data.contents import Progress
from tempora.data.decode import decode
from tempora.data.geometry import Geometry
from tempora.data.recycling import RecycledTensors
from tempora.data.shift import Shift
from tempora.errors import TemporaError

if TYPE_CHECKING:
    from tempora.models.preprocessing import Preprocessing

_DEVICE_SHARE = 0.5
"""The part of the free device memory that a shift may take; model, gradients and snapshots need the rest."""


@runtime_checkable
class BatchSource(Protocol):
    """What the engine runs a method over: a `Stream`, or batches given from Python (`from_batches`).

    Only the engine calls `labels`; a method sees what `batch` returns and nothing else.
    """

    name: str
    """The shift's name."""
    group: str
    """The shift's group (noise, ..., clean, natural)."""
    fingerprint: str
    """Which data this is, whatever the order."""
    seed: int
    """What decided the order."""
    batch_size: int
    num_batches: int
    dropped: int
    """Samples of the last odd batch, which is left out."""
    order: np.ndarray
    """Index in the shift of every sample that is served, in order."""
    classes: np.ndarray | None
    """The classes that scores are restricted to; None: all."""
    num_classes: int | None
    """Classes in the model's full label space; None: not known."""

    def batch(self, i: int) -> torch.Tensor:
        """Batch `i`, normalised float32 on the device. The caller synchronises."""

    def labels(self, i: int) -> np.ndarray:
        """The int64 labels of batch `i`."""

    def close(self) -> None:
        """Free the memory that the pictures take."""


def stream_order(length: int, seed: int) -> np.ndarray:
    """The order of `length` samples: numpy's default generator, seeded with `seed` alone, permutes them.

    It depends on nothing but these two numbers, so all corruptions of one test set come in the same order.
    """
    return np.random.default_rng(seed).permutation(length)


def open_stream(
    shift: Shift,
    preprocessing: Preprocessing,
    batch_size: int = 64,
    seed: int = 2025,
    device: str | torch.device = "cpu",
    limit_batches: int | None = None,
    workers: int | None = None,
    cache_dir: Path | str | None = None,
    progress: Progress | None = None,
) -> Stream:
    """Decode `shift` once and return its stream.

    `limit_batches` serves (and decodes) only the first so many batches. `workers` is the number of decoding
    processes (None: one per core, 0: none). `cache_dir` keeps the decoded shift on disk for later runs.
    `progress(done, total)` is called while decoding.
    """
    check_request(shift, batch_size, limit_batches)
    geometry = Geometry.of(preprocessing)
    num_batches = len(shift) // batch_size
    served = min(limit_batches or num_batches, num_batches)
    limited = served < num_batches
    order = stream_order(len(shift), seed)[: served * batch_size]
    device = torch.device(device)

    cached = _from_disk(shift, geometry, cache_dir, limited, workers, progress)
    if cached is not None:
        pixels, rows = _place(torch.from_numpy(cached), device), order
    elif limited:
        pixels, rows = _decode(shift, order, geometry, device, workers, progress), np.arange(len(order))
    else:
        pixels, rows = _decode(shift, np.arange(len(shift)), geometry, device, workers, progress), order
    return Stream(shift, preprocessing, batch_size, seed, order, pixels, rows, device)


class Stream:
    """The batches of one shift, decoded already. Made by `open_stream`."""

    def __init__(
        self,
        shift: Shift,
        preprocessing: Preprocessing,
        batch_size: int,
        seed: int,
        order: np.ndarray,
        pixels: torch.Tensor,
        rows: np.ndarray,
        device: torch.device,
    ) -> None:
        self.shift = shift
        self.name, self.group, self.fingerprint = shift.name, shift.group, shift.fingerprint
        self.classes, self.num_classes = shift.classes, shift.num_classes
        self.seed, self.batch_size, self.order = seed, batch_size, order
        self.num_batches = len(order) // batch_size
        self.dropped = len(shift) % batch_size
        self.device = device
        self._preprocessing = preprocessing
        self._pixels: torch.Tensor | None = pixels
        self._rows = torch.from_numpy(rows).to(pixels.device)
        self._staging = self._pinned_batch(pixels)
        self._shape = (batch_size, *pixels.shape[1:])
        self._on_host = RecycledTensors(self._shape)
        self._mean, self._std = (
            torch.tensor(values, dtype=torch.float32, device=device).view(-1, 1, 1)
            for values in (preprocessing.mean, preprocessing.std)
        )

    def batch(self, i: int) -> torch.Tensor:
        """Batch `i`, normalised float32 on the stream's device. The caller synchronises."""
        if self._pixels is None:
            raise RuntimeError(f"stream {self.name!r} is closed")
        rows = self._rows[self._slice(i)]
        if self._staging is None:
            chosen = self._pixels.index_select(0, rows)
        else:
            chosen = torch.index_select(self._pixels, 0, rows, out=self._staging)
        chosen = chosen.to(self.device)  # as bytes: floats would be four times as many
        return self._empty_batch().copy_(chosen).div_(255).sub_(self._mean).div_(self._std)

    def labels(self, i: int) -> np.ndarray:
        """The int64 labels of batch `i`: for scoring, never for a method."""
        return self.shift.labels[self.order[self._slice(i)]]

    @property
    def is_open(self) -> bool:
        return self._pixels is not None

    def reseeded(self, seed: int) -> Stream:
        """The same decoded pictures in another order. Both streams share the memory until both are closed."""
        if self._pixels is None:
            raise RuntimeError(f"stream {self.name!r} is closed")
        if len(self._pixels) < len(self.shift):
            raise ValueError("a stream opened with limit_batches holds too few pictures for another order")
        order = stream_order(len(self.shift), seed)[: len(self.order)]
        return Stream(
            self.shift, self._preprocessing, self.batch_size, seed, order, self._pixels, order, self.device
        )

    def close(self) -> None:
        """Free the memory that the pictures take."""
        self._pixels = self._staging = None
        self._on_host = RecycledTensors(self._shape)

    def _empty_batch(self) -> torch.Tensor:
        if self.device.type == "cpu":
            return self._on_host.take()
        return torch.empty(self._shape, dtype=torch.float32, device=self.device)

    def _pinned_batch(self, pixels: torch.Tensor) -> torch.Tensor | None:
        """The buffer through which pictures kept on the host go to a GPU.

        One pinned batch moves as fast as a pinned shift would, without locking gigabytes of host memory. The
        copy out of it is a blocking one, so the next batch cannot overwrite what is still under way.
        """
        if self.device.type != "cuda" or pixels.device.type == "cuda":
            return None
        return torch.empty((self.batch_size, *pixels.shape[1:]), dtype=torch.uint8, pin_memory=True)

    def _slice(self, i: int) -> slice:
        if not 0 <= i < self.num_batches:
            raise IndexError(f"batch {i} of stream {self.name!r}: it has {self.num_batches}")
        return slice(i * self.batch_size, (i + 1) * self.batch_size)


def check_request(shift: Shift, batch_size: int, limit_batches: int | None = None) -> None:
    """Refuse a stream without a single batch, before anything is decoded."""
    if batch_size < 1:
        raise TemporaError(f"batch_size={batch_size}: must be at least 1")
    if limit_batches is not None and limit_batches < 1:
        raise TemporaError(
            f"limit_batches={limit_batches}: must be at least 1; leave it out for the whole shift"
        )
    if len(shift) < batch_size:
        raise TemporaError(
            f"shift {shift.name!r} has {len(shift)} images, fewer than one batch of {batch_size}: "
            "take a smaller batch_size (--batch-size)"
        )


def _from_disk(
    shift: Shift,
    geometry: Geometry,
    cache_dir: Path | str | None,
    limited: bool,
    workers: int | None,
    progress: Progress | None,
) -> np.ndarray | None:
    """The decoded shift in the cache. A limited stream uses one that is there, but does not make one."""
    if cache_dir is None:
        return None
    if limited:
        return load(cache_path(shift, geometry, Path(cache_dir)), (len(shift), *geometry.shape))
    return cached_pixels(shift, geometry, Path(cache_dir), workers, progress)


def _decode(
    shift: Shift,
    indices: np.ndarray,
    geometry: Geometry,
    device: torch.device,
    workers: int | None,
    progress: Progress | None,
) -> torch.Tensor:
    """Decode straight to where the pictures will stay: the device if they fit, the host otherwise."""
    shape = (len(indices), *geometry.shape)
    home = device if _fits(int(np.prod(shape)), device) else "cpu"
    pixels = torch.empty(shape, dtype=torch.uint8, device=home)
    on_host = pixels.numpy() if pixels.device.type == "cpu" else None
    for where, block in decode(shift.source, indices, geometry, workers, progress):
        if on_host is not None:
            on_host[where] = (
                block  # torch would copy with a thread per core, and decoding keeps all cores busy
            )
        else:
            pixels[where] = torch.from_numpy(block)
    return pixels


def _place(pixels: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A memory-mapped shift goes to the device if it fits; otherwise batches come from the mapped file."""
    return pixels.to(device) if _fits(pixels.numel(), device) else pixels


def _fits(size_bytes: int, device: torch.device) -> bool:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return size_bytes <= _DEVICE_SHARE * free
    return True
