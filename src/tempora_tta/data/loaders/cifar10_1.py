"""CIFAR-10.1: new test images for CIFAR-10, collected the same way."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempora_tta.data.arrays import load_npy
from tempora_tta.data.loaders.cifar import CIFAR10_CLASSES
from tempora_tta.data.registry import Archive, dataset
from tempora_tta.data.shift import Shift, array_shift
from tempora_tta.errors import unknown

_FILES = "https://github.com/modestyachts/CIFAR-10.1/raw/master/datasets"
_PUBLISHED = {"v6": 2000, "v4": 2021}


@dataset(
    "cifar10_1",
    what="CIFAR-10.1: 2000 new test images for CIFAR-10 (v6; data.options.version=v4: 2021)",
    size="12 MB",
    licence="MIT",
    pictures_travel=True,
    source="https://github.com/modestyachts/CIFAR-10.1",
    folder="CIFAR-10.1",
    layout=(
        "CIFAR-10.1/\n"
        "  cifar10.1_v6_data.npy      uint8 (2000, 32, 32, 3)\n"
        "  cifar10.1_v6_labels.npy    2000 labels"
    ),
    archives=[
        Archive(f"{_FILES}/cifar10.1_{version}_{part}.npy", into="CIFAR-10.1")
        for version in _PUBLISHED
        for part in ("data", "labels")
    ],
    as_stored=True,
)
def cifar10_1(root: Path, version: str = "v6") -> dict[str, Shift]:
    if version not in _PUBLISHED:
        raise unknown("version of CIFAR-10.1", version, _PUBLISHED)
    count = _PUBLISHED[version]
    images = load_npy(root / f"cifar10.1_{version}_data.npy", np.uint8, (count, 32, 32, 3))
    labels = load_npy(root / f"cifar10.1_{version}_labels.npy", None, (count,))
    return {"cifar10_1": array_shift("cifar10_1", images, labels, 10, CIFAR10_CLASSES)}
