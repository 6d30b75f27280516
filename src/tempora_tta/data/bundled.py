"""The bundled benchmark: Fashion-MNIST's 10,000 test images, clean and corrupted, without any download.

Beside them lie 2,000 training images, for methods that ask for clean samples of the source domain.

A corrupted set is made when it is first read, in seconds, and kept in the user's cache folder
(`TEMPORA_CACHE`, else `~/.cache/tempora`).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import numpy as np

from tempora_tta.data.corruptions.constants import CONSTANTS, VERSION
from tempora_tta.data.geometry import Geometry
from tempora_tta.data.groups import CORRUPTIONS, EXTRA
from tempora_tta.data.images import ArrayImages, Images
from tempora_tta.data.places import user_cache, written_whole
from tempora_tta.data.shift import Shift, digest
from tempora_tta.errors import TemporaError, unknown

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
NAMES = ("clean", *CORRUPTIONS)
TUNING = tuple(name for name in EXTRA if name != "saturate")  # the images are grey
SEED = 2025
SOURCE_SAMPLES = 2000
"""The first of the training images (recipes/bundle_source.py), for methods that ask for clean ones."""


def shifts(names: Iterable[str] = NAMES, severity: int = 5) -> dict[str, Shift]:
    """The named shifts: "clean", the fifteen corruptions, the tuning ones. Images are made when first read."""
    return {name: _shift(name, severity) for name in names}


def _shift(name: str, severity: int) -> Shift:
    if name not in (*NAMES, *TUNING):
        raise unknown("bundled shift", name, (*NAMES, *TUNING))
    if severity not in (1, 2, 3, 4, 5):
        raise TemporaError(f"severity={severity!r}: must be 1, 2, 3, 4 or 5")
    images, labels = test_set()
    if name == "clean":
        source: Images = ArrayImages(images)
        fingerprint = digest("fashion", images)
    else:
        recipe = repr((VERSION, SEED, name, severity, CONSTANTS["fashion"][name][severity - 1]))
        fingerprint = digest("fashion", images, recipe)
        source = CorruptedImages(name, severity, cache_folder() / f"{name}-{severity}-{fingerprint}.npz")
    return Shift(
        name=name,
        labels=labels,
        num_classes=len(CLASS_NAMES),
        source=source,
        fingerprint=fingerprint,
        class_names=CLASS_NAMES,
    )


def source_shift() -> Shift:
    """The bundled training images: clean, and part of no stream of the benchmark."""
    images, labels = _read("train2k")
    return Shift(
        name="train",
        labels=labels,
        num_classes=len(CLASS_NAMES),
        source=ArrayImages(images),
        fingerprint=digest("fashion", images),
        class_names=CLASS_NAMES,
    )


@lru_cache(maxsize=1)
def test_set() -> tuple[np.ndarray, np.ndarray]:
    """Images (10000, 28, 28) and labels (10000,), both uint8."""
    return _read("t10k")


def _read(split: str) -> tuple[np.ndarray, np.ndarray]:
    folder = files("tempora_tta.data") / "fashion"
    images, labels = (folder / f"{split}-{part}-ubyte.gz" for part in ("images-idx3", "labels-idx1"))
    return parse_idx(images.read_bytes()), parse_idx(labels.read_bytes())


def parse_idx(compressed: bytes) -> np.ndarray:
    """The array in a gzipped IDX file of unsigned bytes, the format of MNIST and Fashion-MNIST."""
    raw = gzip.decompress(compressed)
    dimensions = raw[3]
    shape = np.frombuffer(raw, ">u4", count=dimensions, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()


@dataclass(frozen=True, eq=False)
class CorruptedImages:
    """The test images under one corruption, from the cache or made now."""

    parallel: ClassVar[bool] = False
    name: str
    severity: int
    cached_at: Path

    def __len__(self) -> int:
        return len(test_set()[0])

    def read(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        return self._images.read(indices, geometry)

    @cached_property
    def _images(self) -> ArrayImages:
        pixels = _from_cache(self.cached_at)
        if pixels is None:
            pixels = _corrupted(self.name, self.severity)
            _to_cache(self.cached_at, pixels)
        return ArrayImages(pixels)


def _corrupted(name: str, severity: int) -> np.ndarray:
    import torch

    from tempora_tta.data.corruptions import corrupt

    clean = torch.from_numpy(test_set()[0]).unsqueeze(1)
    return corrupt(clean, name, severity, constants="fashion", seed=SEED).squeeze(1).numpy()


def cache_folder() -> Path:
    """Where corrupted sets are kept. Nothing there is needed: what is missing or damaged is made anew."""
    return user_cache() / "fashion"


def _from_cache(path: Path) -> np.ndarray | None:
    """The images at `path`, or None where they are missing or damaged (the archive holds a checksum)."""
    if not path.is_file():  # numpy would wait for whoever writes into a pipe
        return None
    try:
        with np.load(path) as archive:
            images: np.ndarray = archive["images"]
    except Exception:  # whatever numpy trips over in a damaged file
        return None
    clean = test_set()[0]
    return images if (images.shape, images.dtype) == (clean.shape, clean.dtype) else None


def _to_cache(path: Path, pixels: np.ndarray) -> None:
    """Keep the images. A folder that cannot be written costs only time."""
    with suppress(OSError), written_whole(path) as part:
        np.savez(part, images=pixels)
