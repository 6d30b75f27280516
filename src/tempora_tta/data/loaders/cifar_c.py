"""CIFAR-10-C and CIFAR-100-C: one .npy file per corruption, five severities one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tempora_tta.data.arrays import load_npy
from tempora_tta.data.groups import CORRUPTIONS, EXTRA, expand
from tempora_tta.data.loaders.cifar import CIFAR10_CLASSES
from tempora_tta.data.registry import SUBSET, Archive, LayoutError, dataset
from tempora_tta.data.shift import Shift, array_shift

_SEVERITIES = 5
_LAYOUT = """\
{folder}/
  labels.npy             50000 labels: the 10000 of the test set, five times
  gaussian_noise.npy     uint8 (50000, 32, 32, 3): severity 1, then 2, ... 5
  ...                    one file for each corruption that is asked for"""


@dataset(
    "cifar10_c",
    what="CIFAR-10 test images under 15 corruptions (and 4 extra ones) at 5 severities",
    size="2.9 GB",
    licence="CC BY 4.0",
    pictures_travel=True,
    source="https://zenodo.org/records/2535967",
    folder="CIFAR-10-C",
    layout=_LAYOUT.format(folder="CIFAR-10-C"),
    archives=[
        Archive("https://zenodo.org/records/2535967/files/CIFAR-10-C.tar", "56bf5dcef84df0e2308c6dcbcbbd8499")
    ],
    as_stored=True,
)
def cifar10_c(
    root: Path, severity: int, shifts: str | Iterable[str] | None, subset: bool = False
) -> dict[str, Shift]:
    return _open(root, severity, shifts, subset, 10, CIFAR10_CLASSES)


@dataset(
    "cifar100_c",
    what="CIFAR-100 test images under 15 corruptions (and 4 extra ones) at 5 severities",
    size="2.9 GB",
    licence="CC BY 4.0",
    pictures_travel=True,
    source="https://zenodo.org/records/3555552",
    folder="CIFAR-100-C",
    layout=_LAYOUT.format(folder="CIFAR-100-C"),
    archives=[
        Archive(
            "https://zenodo.org/records/3555552/files/CIFAR-100-C.tar", "11f0ed0f1191edbf9fa23466ae6021d3"
        )
    ],
    as_stored=True,
)
def cifar100_c(
    root: Path, severity: int, shifts: str | Iterable[str] | None, subset: bool = False
) -> dict[str, Shift]:
    return _open(root, severity, shifts, subset, 100, None)


def _open(
    root: Path,
    severity: int,
    shifts: str | Iterable[str] | None,
    subset: bool,
    num_classes: int,
    class_names: tuple[str, ...] | None,
) -> dict[str, Shift]:
    labels = _labels(root, num_classes, subset)
    rows = slice((severity - 1) * len(labels), severity * len(labels))
    opened = {}
    for name in expand(shifts, CORRUPTIONS + EXTRA, default=CORRUPTIONS):
        images = load_npy(root / f"{name}.npy", np.uint8, (_SEVERITIES * len(labels), 32, 32, 3))
        opened[name] = array_shift(name, images[rows], labels, num_classes, class_names)
    return opened


def _labels(root: Path, num_classes: int, subset: bool) -> np.ndarray:
    """The test set's labels, after making sure that all five severities have the same."""
    path = root / "labels.npy"
    labels = load_npy(path, None, (None,))
    published = _SEVERITIES * 10_000
    if len(labels) != published and not (subset and len(labels) % _SEVERITIES == 0):
        raise LayoutError(
            f"{path} has {len(labels)} labels, published are {published} "
            f"({SUBSET} fewer, the same number for each severity)"
        )
    by_severity = np.asarray(labels).reshape(_SEVERITIES, -1)
    if (by_severity != by_severity[0]).any():
        raise LayoutError(f"{path} differs between severities: the five parts must be equal")
    present = len(np.unique(by_severity[0]))
    if present != num_classes and not subset:
        raise LayoutError(f"{path} has {present} classes, expected {num_classes}: is it another dataset's?")
    test_labels: np.ndarray = by_severity[0]
    return test_labels
