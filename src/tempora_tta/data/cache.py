"""Decoded shifts on disk: one memory-mapped .npy file per shift and geometry."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempora_tta.data.contents import Progress
from tempora_tta.data.decode import decode
from tempora_tta.data.geometry import Geometry
from tempora_tta.data.places import written_whole
from tempora_tta.data.shift import Shift, digest


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
    if not path.is_file():  # numpy would wait for whoever writes into a pipe
        return None
    try:
        pixels = np.load(path, mmap_mode="c")  # copy on write: torch asks for a writable array
    except Exception:  # cut off, or whatever numpy trips over in a damaged header
        return None
    return pixels if pixels.shape == shape and pixels.dtype == np.uint8 else None


def _decode_to(
    path: Path, shift: Shift, geometry: Geometry, workers: int | None, progress: Progress | None
) -> None:
    """Decode next to `path` and move it there when complete: an interrupted run leaves no half file."""
    with written_whole(path) as part:
        pixels = np.lib.format.open_memmap(part, "w+", np.uint8, (len(shift), *geometry.shape))
        for where, block in decode(shift.source, np.arange(len(shift)), geometry, workers, progress):
            pixels[where] = block
        pixels.flush()
        del pixels
