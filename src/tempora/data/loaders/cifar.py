"""CIFAR-10 and CIFAR-100, uncorrupted: the test set of the "python version"."""

from __future__ import annotations

import codecs
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from tempora.data.registry import SUBSET, Archive, LayoutError, dataset
from tempora.data.shift import Shift, array_shift

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
)
def cifar100(root: Path, subset: bool = False) -> dict[str, Shift]:
    return _open(root / "test", b"fine_labels", 100, None, subset)


def _open(
    path: Path, labels_key: bytes, num_classes: int, class_names: tuple[str, ...] | None, subset: bool
) -> dict[str, Shift]:
    batch = read_batch(path)
    data, labels = batch.get(b"data"), np.asarray(batch.get(labels_key, ()))
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


def read_batch(path: Path) -> dict[bytes, Any]:
    """The dict in a CIFAR batch file, read without running any code that the file may hold."""
    if not path.is_file():
        raise LayoutError(f"{path} is missing")
    try:
        with path.open("rb") as file:
            content = _PlainUnpickler(file, encoding="bytes").load()
    except Exception as error:  # unpickling raises whatever it trips over
        raise LayoutError(f"{path} cannot be read ({error}): it is truncated or no CIFAR batch") from error
    if not isinstance(content, dict):
        raise LayoutError(f"{path} holds a {type(content).__name__}, expected a dict")
    return {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}


class _PlainUnpickler(pickle.Unpickler):
    """Knows numpy arrays and plain Python values. Pickles can call what they name: all else is refused."""

    _reconstruct = np.empty(0).__reduce__()[0]  # the same function has moved between numpy versions
    _ALLOWED = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): codecs.encode,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR batch needs")
        return self._ALLOWED[module, name]
