"""Decoded shifts on disk: one memory-mapped .npy file per shift and geometry."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from tempora.data.decode import Progress, decode
from tempora.data.geometry import Geometry
from tempora.data.shift import Shift, digest


def cached_pixels(
    shift: Shift, geometry: Geometry, cache_dir: Path, workers: int | None, progress: Progress | None
) -> np.ndarray:
    """The whole shift as a memory-mapped uint8 array (n, channels, height, width), decoded if need be."""
    path = cache_path(shift, geometry, cache_dir)
    pixels = load(path, (len(shift), *geometry.shape))
    if pixels is None:
        _decode_to(path, shift, geometry, workers, progress)
        pixels = load(path, (len(shift), *geometry.shape))
        assert pixels is not None
    return pixels


def cache_path(shift: Shift, geometry: Geometry, cache_dir: Path) -> Path:
    """Where the decoded shift lies. Normalisation has no part in it: the file holds bytes before that."""
    return Path(cache_dir) / f"{shift.name}-{digest(shift.fingerprint, repr(geometry))}.npy"


def load(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """The array at `path`, or None where there is none of that shape, whole."""
    try:
        pixels = np.load(path, mmap_mode="c")  # copy on write: torch asks for a writable array
    except Exception:  # absent, cut off, or whatever numpy trips over in a damaged header
        return None
    return pixels if pixels.shape == shape and pixels.dtype == np.uint8 else None


def _decode_to(
    path: Path, shift: Shift, geometry: Geometry, workers: int | None, progress: Progress | None
) -> None:
    """Decode next to `path` and move it there when complete: an interrupted run leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".decoding-") as folder:
        part = Path(folder) / path.name
        pixels = np.lib.format.open_memmap(part, "w+", np.uint8, (len(shift), *geometry.shape))
        for where, block in decode(shift.source, np.arange(len(shift)), geometry, workers, progress):
            pixels[where] = block
        pixels.flush()
        del pixels
        os.replace(part, path)
