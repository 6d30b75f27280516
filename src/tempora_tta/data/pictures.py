"""The decoded pictures of an open stream: all of them, or those of its next batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from tempora_tta.data.fingerprint import digest
from tempora_tta.data.images import Geometry
from tempora_tta.data.order import Order, Samples
from tempora_tta.data.shift import Shift
from tempora_tta.data.threads import Progress, blocks, in_threads
from tempora_tta.store.atomic import write_atomically

_DEVICE_SHARE = 0.5
"""The part of the free device memory that pictures may take; model, gradients and snapshots need the rest."""
_KEPT_BYTES = 4 << 30
"""Pictures of many shifts that took time to decode are kept up to this size, for the passes to come."""
_WINDOW_BYTES, _WINDOW_BATCHES = 128 << 20, 64
"""Bytes and batches that are decoded at a time where not all is kept."""
_BLOCK = 8
"""Pictures that a thread decodes before it looks for more work."""

Read = Callable[[np.ndarray], np.ndarray]


class Pictures(Protocol):
    """The place where a stream finds its pictures."""

    def batch(self, order: Order, i: int) -> torch.Tensor:
        """Batch `i`: bytes, or floats where they were given normalised."""

    def serve(self, order: Order) -> bool:
        """Tell whether another order of the same shifts finds its pictures here."""


@dataclass(frozen=True)
class Decoder:
    """Turns samples of shifts into bytes. Whole shifts may be kept on disk, in `cache_dir`, for later runs."""

    geometry: Geometry
    workers: int | None = None
    """Threads; None: one per core, 0: the caller's own."""
    cache_dir: Path | None = None

    def decode(
        self,
        wanted: Iterable[tuple[Shift, np.ndarray]],
        put: Callable[[slice, np.ndarray], None],
        progress: Progress | None,
    ) -> None:
        """Call `put(rows, pixels)`, from several threads, until all samples of the shifts, one after the other, are
        decoded."""
        pieces: list[tuple[Read, np.ndarray, slice]] = []
        total, any_thread = 0, True
        for shift, samples in wanted:
            mapped = self.on_disk(shift)
            read = (
                partial(shift.source.read, geometry=self.geometry) if mapped is None else mapped.__getitem__
            )
            any_thread = any_thread and (mapped is not None or shift.source.slow_to_read)
            pieces += [
                (read, samples[block], slice(total + block.start, total + block.stop))
                for block in blocks(len(samples), _BLOCK)
            ]
            total += len(samples)

        def decode_piece(piece: tuple[Read, np.ndarray, slice]) -> int:
            read, samples, rows = piece
            put(rows, read(samples))
            return int(rows.stop)

        for done in in_threads(decode_piece, pieces, self.workers if any_thread else 0):
            if progress is not None:
                progress(done, total)

    def on_disk(self, shift: Shift) -> np.ndarray | None:
        """The whole decoded shift, memory-mapped, or None where the cache does not hold it.

        The file holds bytes before normalisation: models that differ in nothing else share it.
        """
        path = self._cache_path(shift)
        return None if path is None else _mapped(path, (len(shift), *self.geometry.shape))

    def write_to_disk(self, shift: Shift, progress: Progress | None) -> None:
        """Decode the whole shift into the cache, if there is one and it lacks the shift."""
        path = self._cache_path(shift)
        if path is None or self.on_disk(shift) is not None:
            return

        def write(part: Path) -> None:
            part.parent.mkdir(parents=True, exist_ok=True)
            shape = (len(shift), *self.geometry.shape)
            pixels = np.lib.format.open_memmap(part, "w+", np.uint8, shape)
            self.decode([(shift, np.arange(len(shift)))], pixels.__setitem__, progress)
            pixels.flush()

        write_atomically(path, write)

    def _cache_path(self, shift: Shift) -> Path | None:
        if self.cache_dir is None:
            return None
        return self.cache_dir / f"{shift.name}-{digest(shift.fingerprint, repr(self.geometry))}.npy"


class DecodedPictures:
    """Pictures in the rows of one array, on the device if they fit there, on the host otherwise.

    Those of one shift, and those that took time to decode if there are not too many, are decoded when the stream
    opens, and kept. Others are decoded some batches at a time, before the first of these is asked for. Nothing works
    in the background: a batch whose clock is running has the machine to itself.
    """

    def __init__(
        self, order: Order, decoder: Decoder, device: torch.device, progress: Progress | None = None
    ) -> None:
        self._decoder, self._device, self._shifts = decoder, device, order.shifts
        self._starts = np.cumsum([0, *map(len, order.shifts)])
        self._rows = np.full(self._starts[-1], -1)
        """The row of every sample of every shift, one shift after the other; -1: it is not decoded."""
        self._pixels = torch.empty(0)
        self._staging: torch.Tensor | None = None
        if len(order.shifts) == 1:
            self._keep_shift(order, progress)
        elif all(shift.source.slow_to_read for shift in order.shifts):
            used = self._samples_in(order, range(order.num_batches))
            if self._size(len(used)) <= _KEPT_BYTES:
                self._decode(used, device, progress)
        self._kept = len(self._pixels) > 0

    def _keep_shift(self, order: Order, progress: Progress | None) -> None:
        """Decode the one shift of an order, or as much of it as the order has."""
        (shift,) = order.shifts
        whole = order.num_batches >= len(shift) // order.batch_size
        if whole:
            self._decoder.write_to_disk(shift, progress)
        mapped = self._decoder.on_disk(shift)
        if mapped is not None:
            self._rows, self._pixels = np.arange(len(shift)), torch.from_numpy(mapped)
            if _fits(mapped.nbytes, self._device):  # else batches come from the mapped file
                self._pixels = self._pixels.to(self._device)
            return
        samples = np.arange(len(shift)) if whole else self._samples_in(order, range(order.num_batches))
        self._decode(samples, self._device, progress)

    def batch(self, order: Order, i: int) -> torch.Tensor:
        numbers = self._numbers(order.samples(i))
        if (self._rows[numbers] < 0).any():
            self._decode_window(order, i)
        rows = self._rows[numbers]
        index = torch.from_numpy(rows).to(self._pixels.device)
        if self._pixels.device == self._device or self._device.type != "cuda":
            return self._pixels.index_select(0, index)
        return torch.index_select(self._pixels, 0, index, out=self._pinned(len(rows)))

    def serve(self, order: Order) -> bool:
        """Any order where nothing is kept, or all; else those that need no other sample."""
        if not self._kept or (self._rows >= 0).all():
            return True
        return bool((self._rows[self._samples_in(order, range(order.num_batches))] >= 0).all())

    def _numbers(self, samples: Samples) -> np.ndarray:
        """The number of each sample, where those of one shift follow those of another."""
        which, indices = samples
        numbers: np.ndarray = self._starts[which] + indices
        return numbers

    def _samples_in(self, order: Order, batches: range) -> np.ndarray:
        used = np.zeros(len(self._rows), bool)
        for i in batches:
            used[self._numbers(order.samples(i))] = True
        return np.flatnonzero(used)

    def _size(self, samples: int) -> int:
        return samples * int(np.prod(self._decoder.geometry.shape))

    def _decode_window(self, order: Order, first: int) -> None:
        """Decode the next batches, and drop those before."""
        self._rows[:], self._pixels = -1, torch.empty(0)
        fitting = max(1, _WINDOW_BYTES // self._size(order.batch_size))
        last = min(order.num_batches, first + min(_WINDOW_BATCHES, fitting))
        self._decode(self._samples_in(order, range(first, last)), torch.device("cpu"))

    def _decode(self, numbers: np.ndarray, device: torch.device, progress: Progress | None = None) -> None:
        """Decode these samples straight to where they stay: the device if they fit, the host otherwise."""
        home = device if _fits(self._size(len(numbers)), device) else torch.device("cpu")
        pixels = torch.empty((len(numbers), *self._decoder.geometry.shape), dtype=torch.uint8, device=home)
        on_host = pixels.numpy() if home.type == "cpu" else None

        def put(rows: slice, read: np.ndarray) -> None:
            if on_host is not None:
                on_host[rows] = read  # torch would copy with a thread per core, and decoding keeps all busy
            else:
                pixels[rows] = torch.from_numpy(read)

        ends = np.searchsorted(numbers, self._starts)
        wanted = [
            (shift, numbers[ends[k] : ends[k + 1]] - self._starts[k]) for k, shift in enumerate(self._shifts)
        ]
        self._decoder.decode(wanted, put, progress)
        self._rows[numbers], self._pixels = np.arange(len(numbers)), pixels

    def _pinned(self, samples: int) -> torch.Tensor:
        """The buffer through which pictures kept on the host go to a GPU.

        One pinned batch moves as fast as a pinned shift would, without locking gigabytes of host memory. The
        copy out of it is a blocking one, so the next batch cannot overwrite what is still under way.
        """
        if self._staging is None or len(self._staging) != samples:
            shape = (samples, *self._pixels.shape[1:])
            self._staging = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        return self._staging


def _fits(size_bytes: int, device: torch.device) -> bool:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return size_bytes <= _DEVICE_SHARE * free
    return True


def _mapped(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """The array at `path`, or None where there is none of that shape, whole."""
    if not path.is_file():  # numpy would wait for a process that writes into a pipe
        return None
    try:
        pixels = np.load(path, mmap_mode="c")  # copy on write: torch asks for a writable array
    except Exception:  # cut off, or one of the errors that numpy raises on a damaged header
        return None
    return pixels if pixels.shape == shape and pixels.dtype == np.uint8 else None
