"""CIFAR-10 and CIFAR-100: clean, corrupted (-C), and CIFAR-10.1."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tempora_tta.data.groups import CORRUPTIONS, EXTRA, expand
from tempora_tta.data.registry import SUBSET, Archive, LayoutError, dataset
from tempora_tta.data.shift import Shift, array_shift
from tempora_tta.errors import unknown

CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_SEVERITIES = 5
_CLEAN_SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_CLEAN_LICENCE = "none stated; cite Krizhevsky (2009)"
_C_LAYOUT = """\
{folder}/
  labels.npy             50000 labels: the 10000 of the test set, five times
  gaussian_noise.npy     uint8 (50000, 32, 32, 3): severity 1, then 2, ... 5
  ...                    one file for each corruption that is asked for"""
_NEW_FILES = "https://github.com/modestyachts/CIFAR-10.1/raw/master/datasets"
_NEW_IMAGES = {"v6": 2000, "v4": 2021}


@dataset(
    "cifar10",
    what="CIFAR-10 test images, uncorrupted",
    size="170 MB",
    licence=_CLEAN_LICENCE,
    source=_CLEAN_SOURCE,
    folder="cifar-10-batches-py",
    layout="cifar-10-batches-py/\n  test_batch, batches.meta    as in the archive: their MD5 are checked",
    archives=[
        Archive("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")
    ],
    as_stored=True,
)
def cifar10(root: Path) -> dict[str, Shift]:
    return _clean("CIFAR10", root, 10)


@dataset(
    "cifar100",
    what="CIFAR-100 test images, uncorrupted",
    size="169 MB",
    licence=_CLEAN_LICENCE,
    source=_CLEAN_SOURCE,
    folder="cifar-100-python",
    layout="cifar-100-python/\n  test, meta    as in the archive: their MD5 are checked",
    archives=[
        Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"
        )
    ],
    as_stored=True,
)
def cifar100(root: Path) -> dict[str, Shift]:
    return _clean("CIFAR100", root, 100)


def _clean(name: str, root: Path, num_classes: int) -> dict[str, Shift]:
    """Read the test set by torchvision, which unpickles a file only after it has checked its MD5."""
    from torchvision import datasets

    folder = root.absolute()
    reader = type(name, (getattr(datasets, name),), {"train_list": [], "base_folder": folder.name})
    try:
        found = reader(folder.parent, train=False)
    except (RuntimeError, OSError) as error:
        raise LayoutError(
            f"{root}: its test files are missing, or their MD5 are not the published ones"
        ) from error
    labels = np.asarray(found.targets, np.int64)
    return {"clean": array_shift("clean", found.data, labels, num_classes, found.classes)}


@dataset(
    "cifar10_c",
    what="CIFAR-10 test images under 15 corruptions (and 4 extra ones) at 5 severities",
    size="2.9 GB",
    licence="CC BY 4.0",
    pictures_travel=True,
    source="https://zenodo.org/records/2535967",
    folder="CIFAR-10-C",
    layout=_C_LAYOUT.format(folder="CIFAR-10-C"),
    archives=[
        Archive("https://zenodo.org/records/2535967/files/CIFAR-10-C.tar", "56bf5dcef84df0e2308c6dcbcbbd8499")
    ],
    as_stored=True,
)
def cifar10_c(
    root: Path, severity: int, shifts: str | Iterable[str] | None, subset: bool = False
) -> dict[str, Shift]:
    return _corrupted(root, severity, shifts, subset, 10, CIFAR10_CLASSES)


@dataset(
    "cifar100_c",
    what="CIFAR-100 test images under 15 corruptions (and 4 extra ones) at 5 severities",
    size="2.9 GB",
    licence="CC BY 4.0",
    pictures_travel=True,
    source="https://zenodo.org/records/3555552",
    folder="CIFAR-100-C",
    layout=_C_LAYOUT.format(folder="CIFAR-100-C"),
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
    return _corrupted(root, severity, shifts, subset, 100, None)


def _corrupted(
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
        images = _load_npy(root / f"{name}.npy", np.uint8, (_SEVERITIES * len(labels), 32, 32, 3))
        opened[name] = array_shift(name, images[rows], labels, num_classes, class_names)
    return opened


def _labels(root: Path, num_classes: int, subset: bool) -> np.ndarray:
    """The test set's labels, after making sure that all five severities have the same."""
    path = root / "labels.npy"
    labels = _load_npy(path, None, (None,))
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
        Archive(f"{_NEW_FILES}/cifar10.1_{version}_{part}.npy", into="CIFAR-10.1")
        for version in _NEW_IMAGES
        for part in ("data", "labels")
    ],
    as_stored=True,
)
def cifar10_1(root: Path, version: str = "v6") -> dict[str, Shift]:
    if version not in _NEW_IMAGES:
        raise unknown("version of CIFAR-10.1", version, _NEW_IMAGES)
    count = _NEW_IMAGES[version]
    images = _load_npy(root / f"cifar10.1_{version}_data.npy", np.uint8, (count, 32, 32, 3))
    labels = _load_npy(root / f"cifar10.1_{version}_labels.npy", None, (count,))
    return {"cifar10_1": array_shift("cifar10_1", images, labels, 10, CIFAR10_CLASSES)}


def _load_npy(path: Path, dtype: type[np.generic] | None, shape: tuple[int | None, ...]) -> np.ndarray:
    """The array in `path`, memory-mapped, of the right type (None: integers) and shape (None: any length)."""
    if not path.is_file():
        raise LayoutError(f"{path} is missing")
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy raises many kinds of errors on a damaged header
        raise LayoutError(f"{path} cannot be read ({error}): it is truncated or no .npy file") from error
    right_type = array.dtype.kind in "iu" if dtype is None else array.dtype == dtype
    right_shape = array.ndim == len(shape) and all(
        expected in (None, found) for expected, found in zip(shape, array.shape, strict=True)
    )
    if not (right_type and right_shape):
        wanted = "integers" if dtype is None else np.dtype(dtype).name
        lengths = ", ".join("any" if n is None else str(n) for n in shape)
        raise LayoutError(
            f"{path} holds {array.dtype} of shape {array.shape}: expected {wanted} of shape ({lengths})"
        )
    return array
