"""The bundled benchmark: Fashion-MNIST's 10,000 test images, clean and corrupted, without any download.

With them come 2,000 training images, for methods that ask for clean samples of the source domain.

A corrupted set is made when it is first read, in seconds, and kept in the user's cache folder
(`TEMPORA_CACHE`, else `~/.cache/tempora`).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import numpy as np

from tempora_tta.data.corruptions.constants import CONSTANTS, VERSION
from tempora_tta.data.fingerprint import digest, read_archive, user_cache, write_archive
from tempora_tta.data.groups import CORRUPTIONS, EXTRA, expand
from tempora_tta.data.images import ArrayImages, Geometry, Images
from tempora_tta.data.registry import dataset
from tempora_tta.data.shift import Shift

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


@dataset(
    "fashion",
    what="Fashion-MNIST test images, clean and under 15 corruptions (and the tuning ones) at 5 severities",
    size="4.4 MB",
    licence="MIT",
    pictures_travel=True,
    source="ships with tempora",
    as_stored=True,
)
def fashion(severity: int = 5, shifts: str | Iterable[str] | None = None) -> dict[str, Shift]:
    """The shifts "clean", the fifteen corruptions, the tuning ones. Images are made when first read."""
    return {name: _shift(name, severity) for name in expand(shifts, (*NAMES, *TUNING), default=NAMES)}


@dataset(
    "fashion_train",
    what="2,000 Fashion-MNIST training images, clean: the source samples of runs on fashion",
    size="1.2 MB",
    licence="MIT",
    pictures_travel=True,
    source="ships with tempora",
    as_stored=True,
)
def fashion_train() -> dict[str, Shift]:
    """Clean images that are part of no stream of the benchmark."""
    images, labels = _read("train2k")
    return {"train": _labelled("train", labels, ArrayImages(images), digest("fashion", images))}


def _shift(name: str, severity: int) -> Shift:
    images, labels = test_set()
    if name == "clean":
        return _labelled(name, labels, ArrayImages(images), digest("fashion", images))
    recipe = repr((VERSION, SEED, name, severity, CONSTANTS["fashion"][name][severity - 1]))
    fingerprint = digest("fashion", images, recipe)
    cached_at = user_cache() / "fashion" / f"{name}-{severity}-{fingerprint}.npz"
    return _labelled(name, labels, CorruptedImages(name, severity, cached_at), fingerprint)


def _labelled(name: str, labels: np.ndarray, source: Images, fingerprint: str) -> Shift:
    return Shift(
        name=name,
        labels=labels,
        num_classes=len(CLASS_NAMES),
        source=source,
        fingerprint=fingerprint,
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

    slow_to_read: ClassVar[bool] = False
    name: str
    severity: int
    cached_at: Path

    def __len__(self) -> int:
        return len(test_set()[0])

    def read(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        return self._images.read(indices, geometry)

    @cached_property
    def _images(self) -> ArrayImages:
        clean, pixels = test_set()[0], read_archive(self.cached_at, "images")
        if pixels is None or (pixels.shape, pixels.dtype) != (clean.shape, clean.dtype):
            pixels = _corrupted(clean, self.name, self.severity)
            write_archive(self.cached_at, "images", pixels)
        return ArrayImages(pixels)


def _corrupted(clean: np.ndarray, name: str, severity: int) -> np.ndarray:
    import torch

    from tempora_tta.data.corruptions import corrupt

    images = torch.from_numpy(clean).unsqueeze(1)
    return corrupt(images, name, severity, constants="fashion", seed=SEED).squeeze(1).numpy()
