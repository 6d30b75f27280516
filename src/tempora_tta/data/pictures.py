"""Where the pictures of a stream are while it is open: kept, or prepared ahead of the batch that needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from tempora_tta.data.cache import cache_path, cached_pixels, load
from tempora_tta.data.contents import Progress
from tempora_tta.data.decode import decode
from tempora_tta.data.geometry import Geometry
from tempora_tta.data.order import Order
from tempora_tta.data.shift import Shift

_DEVICE_SHARE = 0.5
"""The part of the free device memory that a shift may take; model, gradients and snapshots need the rest."""
_KEPT_BYTES = 4 << 30
"""Pictures of many shifts that took time to decode are kept up to this size, for the passes to come."""
_AHEAD_BYTES, _AHEAD_BATCHES = 128 << 20, 64
"""How much is prepared at a time where nothing is kept."""


@dataclass(frozen=True)
class Decoding:
    """How pictures are decoded."""

    geometry: Geometry
    device: torch.device
    workers: int | None = None
    cache_dir: Path | None = None
    progress: Progress | None = None

    def cached(self, shift: Shift) -> np.ndarray | None:
        """The decoded shift, if it lies on disk."""
        if self.cache_dir is None:
            return None
        return load(cache_path(shift, self.geometry, self.cache_dir), (len(shift), *self.geometry.shape))

    def size(self, samples: int) -> int:
        return samples * int(np.prod(self.geometry.shape))


class Pictures(Protocol):
    """What a stream asks of the place where its pictures are."""

    def batch(self, order: Order, i: int) -> torch.Tensor:
        """Batch `i`: bytes, or floats where they were given normalised."""


class Kept:
    """Pictures that are decoded once: on the device if they fit there, on the host otherwise."""

    def __init__(self, pixels: torch.Tensor, rows: Sequence[np.ndarray | None], device: torch.device) -> None:
        """`rows`: per shift, the row of each of its samples; None: they are the same."""
        self._pixels, self._rows = pixels, rows
        self._staging: torch.Tensor | None = None
        self._through_host = device.type == "cuda" and pixels.device.type != "cuda"

    @property
    def has_all(self) -> bool:
        """Whether it holds every sample of every shift, for an order of any seed."""
        return all(rows is None for rows in self._rows)

    def batch(self, order: Order, i: int) -> torch.Tensor:
        which, samples = order.samples(i)
        rows = samples
        if not self.has_all:
            rows = np.empty_like(samples)
            for number in np.unique(which):
                chosen, lookup = which == number, self._rows[number]
                rows[chosen] = samples[chosen] if lookup is None else lookup[samples[chosen]]
        index = torch.from_numpy(np.ascontiguousarray(rows)).to(self._pixels.device)
        if not self._through_host:
            return self._pixels.index_select(0, index)
        return torch.index_select(self._pixels, 0, index, out=self._pinned(len(rows)))

    def _pinned(self, samples: int) -> torch.Tensor:
        """The buffer through which pictures kept on the host go to a GPU.

        One pinned batch moves as fast as a pinned shift would, without locking gigabytes of host memory. The
        copy out of it is a blocking one, so the next batch cannot overwrite what is still under way.
        """
        if self._staging is None or len(self._staging) != samples:
            shape = (samples, *self._pixels.shape[1:])
            self._staging = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        return self._staging


class Ahead:
    """Prepares some batches at a time, before the first of them is asked for, and drops those behind.

    Nothing works in the background: a batch whose clock is running has the machine to itself.
    """

    def __init__(self, decoding: Decoding) -> None:
        self._decoding = decoding
        self._first = 0
        self._ready: np.ndarray | None = None
        self._order: Order | None = None

    def batch(self, order: Order, i: int) -> torch.Tensor:
        if self._order is not order:
            self._order, self._ready = order, None
        if self._ready is None or not self._first <= i < self._first + len(self._ready):
            self._ready = None  # dropped before the next are made
            self._first, self._ready = i, self._prepare(order, i)
        return torch.from_numpy(self._ready[i - self._first])

    def _prepare(self, order: Order, first: int) -> np.ndarray:
        geometry = self._decoding.geometry
        fitting = _AHEAD_BYTES // max(1, self._decoding.size(order.batch_size))
        numbers = range(first, min(order.num_batches, first + min(_AHEAD_BATCHES, max(1, fitting))))
        which, samples = (np.concatenate(half) for half in zip(*map(order.samples, numbers), strict=True))
        pixels = np.empty((len(which), *geometry.shape), np.uint8)
        for number in np.unique(which):
            chosen = np.flatnonzero(which == number)
            self._read(order.shifts[number], samples[chosen], pixels, chosen)
        return pixels.reshape(len(numbers), order.batch_size, *geometry.shape)

    def _read(self, shift: Shift, samples: np.ndarray, pixels: np.ndarray, places: np.ndarray) -> None:
        cached = self._decoding.cached(shift)
        if cached is not None:
            pixels[places] = cached[samples]
            return
        for where, block in decode(shift.source, samples, self._decoding.geometry, self._decoding.workers):
            pixels[places[where]] = block


def pictures_of(order: Order, decoding: Decoding) -> Pictures:
    """Those of one shift are kept, as far as the order goes. Those of many are kept only if they took decoding."""
    if len(order.shifts) == 1 and _rounds(order) == 1:
        return _of_one_shift(order, decoding)
    used = _used(order) if all(shift.source.parallel for shift in order.shifts) else None
    if used is None or decoding.size(sum(len(samples) for samples in used)) > _KEPT_BYTES:
        return Ahead(decoding)
    return _of_many_shifts(order, decoding, used)


def _rounds(order: Order) -> int:
    return -(-order.num_batches * order.batch_size // len(order.shifts[0]))


def _of_one_shift(order: Order, decoding: Decoding) -> Kept:
    (shift,) = order.shifts
    limited = order.num_batches < len(shift) // order.batch_size
    if decoding.cache_dir is not None:
        cached = decoding.cached(shift)
        if cached is None and not limited:
            cached = cached_pixels(
                shift, decoding.geometry, decoding.cache_dir, decoding.workers, decoding.progress
            )
        if cached is not None:
            return Kept(_place(torch.from_numpy(cached), decoding.device), [None], decoding.device)
    if not limited:
        return Kept(_decode([(shift, np.arange(len(shift)))], decoding), [None], decoding.device)
    return _of_many_shifts(order, decoding, _used(order))


def _of_many_shifts(order: Order, decoding: Decoding, used: Sequence[np.ndarray]) -> Kept:
    rows, start = [], 0
    for shift, samples in zip(order.shifts, used, strict=True):
        lookup = np.full(len(shift), -1, np.int64)
        lookup[samples] = np.arange(start, start + len(samples))
        rows.append(lookup)
        start += len(samples)
    pixels = _decode(list(zip(order.shifts, used, strict=True)), decoding)
    return Kept(pixels, rows, decoding.device)


def _used(order: Order) -> list[np.ndarray]:
    """Of every shift, the samples that the order has, in the order of their first use."""
    found: list[dict[int, None]] = [{} for _ in order.shifts]
    for i in range(order.num_batches):
        for number, sample in zip(*order.samples(i), strict=True):
            found[number][int(sample)] = None
    return [np.array(list(samples), np.int64) for samples in found]


def _decode(wanted: Sequence[tuple[Shift, np.ndarray]], decoding: Decoding) -> torch.Tensor:
    """Decode straight to where the pictures will stay: the device if they fit, the host otherwise."""
    total = sum(len(samples) for _, samples in wanted)
    home = decoding.device if _fits(decoding.size(total), decoding.device) else "cpu"
    pixels = torch.empty((total, *decoding.geometry.shape), dtype=torch.uint8, device=home)
    on_host = pixels.numpy() if pixels.device.type == "cpu" else None
    start = 0
    for shift, samples in wanted:
        for where, block in decode(
            shift.source, samples, decoding.geometry, decoding.workers, _counted(decoding, start, total)
        ):
            place = slice(start + where.start, start + where.stop)
            if on_host is not None:
                on_host[place] = block  # torch would copy with a thread per core, and decoding keeps all busy
            else:
                pixels[place] = torch.from_numpy(block)
        start += len(samples)
    return pixels


def _counted(decoding: Decoding, before: int, total: int) -> Progress | None:
    """Progress of one shift as a part of all."""
    progress = decoding.progress
    return None if progress is None else lambda done, _: progress(before + done, total)


def _place(pixels: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A memory-mapped shift goes to the device if it fits; otherwise batches come from the mapped file."""
    return pixels.to(device) if _fits(pixels.numel(), device) else pixels


def _fits(size_bytes: int, device: torch.device) -> bool:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return size_bytes <= _DEVICE_SHARE * free
    return True
