"""CIFAR-10 and CIFAR-100, uncorrupted: the test set of the "python version"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tempora_tta.data import plain_pickle
from tempora_tta.data.registry import SUBSET, Archive, LayoutError, dataset
from tempora_tta.data.shift import Shift, array_shift

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
_SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_LICENCE = "none stated; cite Krizhevsky (2009)"


@dataset(
    "cifar10",
    what="CIFAR-10 test images, uncorrupted",
    size="170 MB",
    licence=_LICENCE,
    source=_SOURCE,
    folder="cifar-10-batches-py",
    layout="cifar-10-batches-py/\n  test_batch     a pickled dict with data (10000, 3072) and labels",
    archives=[
        Archive("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")
    ],
    as_stored=True,
)
def cifar10(root: Path, subset: bool = False) -> dict[str, Shift]:
    return _open(root / "test_batch", b"labels", 10, CIFAR10_CLASSES, subset)


@dataset(
    "cifar100",
    what="CIFAR-100 test images, uncorrupted",
    size="169 MB",
    licence=_LICENCE,
    source=_SOURCE,
    folder="cifar-100-python",
    layout="cifar-100-python/\n  test           a pickled dict with data (10000, 3072) and fine_labels",
    archives=[
        Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"
        )
    ],
    as_stored=True,
)
def cifar100(root: Path, subset: bool = False) -> dict[str, Shift]:
    return _open(root / "test", b"fine_labels", 100, None, subset)


def _open(
    path: Path, labels_key: bytes, num_classes: int, class_names: tuple[str, ...] | None, subset: bool
) -> dict[str, Shift]:
    batch = read_batch(path)
    data, labels = batch.get(b"data"), _integers(batch.get(labels_key, ()), path)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (len(labels), 3072):
        found = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise LayoutError(
            f"{path} has data {found} and {len(labels)} {labels_key.decode()}: "
            "expected uint8 (n, 3072) and as many labels"
        )
    if len(labels) != 10_000 and not subset:
        raise LayoutError(f"{path} has {len(labels)} images, published are 10000 ({SUBSET} fewer)")
    images = np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return {"clean": array_shift("clean", images, labels, num_classes, class_names)}


def _integers(labels: Any, path: Path) -> np.ndarray:
    if isinstance(labels, np.ndarray):
        return labels
    if not isinstance(labels, (list, tuple)) or not all(type(label) is int for label in labels):
        raise LayoutError(f"{path} has labels that are no list of whole numbers")
    return np.asarray(labels, np.int64)


def read_batch(path: Path) -> dict[bytes, Any]:
    """The dict in a CIFAR batch file, read without running any code that the file may hold."""
    if not path.is_file():
        raise LayoutError(f"{path} is missing")
    try:
        content = plain_pickle.loads(path.read_bytes())
    except Exception as error:  # a damaged file makes the reader stumble anywhere
        raise LayoutError(
            f"{path} cannot be read ({error!s:.200}): it is truncated or no CIFAR batch"
        ) from error
    if not isinstance(content, dict):
        raise LayoutError(f"{path} holds a {type(content).__name__}, expected a dict")
    return {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}
