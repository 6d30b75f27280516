"""Any torchvision-style dataset as a shift."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tempora_tta.data.contents import HASH_BYTES, file_hashes
from tempora_tta.data.images import DatasetImages, item_hash
from tempora_tta.data.shift import Shift, digest
from tempora_tta.errors import TemporaError


def from_dataset(
    name: str,
    dataset: Any,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    classes: Sequence[int] | None = None,
    fingerprint: str | None = None,
) -> Shift:
    """A shift from an indexable dataset whose items are (PIL image or uint8 array, label).

    Give it without transforms: Tempora resizes, crops and normalises as the model asks. `classes` restricts
    scores to some of the model's classes. `fingerprint` tells the data apart from any other; left out, every item
    is read once to know its picture (torchvision's own datasets only where they have a transform).
    """
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TemporaError(
            f"dataset {name!r} is a {type(dataset).__name__} without length and indexing: "
            "expected len(dataset) and dataset[i] -> (image, label)"
        )
    labels = _labels(name, dataset)
    class_names = class_names if class_names is not None else getattr(dataset, "classes", None)
    if num_classes is None:
        if class_names is None:
            raise TemporaError(f"dataset {name!r} has no list of classes: say num_classes=")
        num_classes = len(class_names)
    hashes: np.ndarray | None = None
    if not fingerprint:
        content = _at_hand(dataset)
        if content is None:
            hashes = content = _of_every_item(name, dataset)
        fingerprint = digest(name, type(dataset).__qualname__, labels, content)
    return Shift(
        name=name,
        labels=labels,
        num_classes=num_classes,
        source=DatasetImages(name, dataset, labels, hashes),
        fingerprint=fingerprint,
        class_names=class_names,
        classes=None if classes is None else np.array(sorted(classes), np.int64),
    )


def _at_hand(dataset: Any) -> np.ndarray | None:
    """What tells the content of torchvision's own datasets: their array, or the hashes of their files."""
    changed = any(getattr(dataset, key, None) is not None for key in ("transform", "transforms"))
    if changed or not type(dataset).__module__.startswith("torchvision.datasets."):
        return None
    pixels: Any = getattr(dataset, "data", None)
    if hasattr(pixels, "__array__") and len(pixels) == len(dataset):
        return np.asarray(pixels)
    loader = getattr(getattr(dataset, "loader", None), "__module__", None)
    if hasattr(dataset, "samples") and loader == "torchvision.datasets.folder":
        paths = [str(path) for path, _ in dataset.samples]
        return file_hashes(Path(dataset.root), paths, [os.stat(path) for path in paths])
    return None


def _of_every_item(name: str, dataset: Any) -> np.ndarray:
    hashes = [item_hash(name, i, _item(name, dataset, i)[0]) for i in range(len(dataset))]
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, HASH_BYTES)


def _labels(name: str, dataset: Any) -> np.ndarray:
    """The labels, from the dataset's own list where nothing can change them on the way, else item by item.

    The list is checked against every item when it is decoded (`DatasetImages`).
    """
    listed = getattr(dataset, "targets", getattr(dataset, "labels", None))
    if (
        listed is not None
        and getattr(dataset, "target_transform", None) is None
        and len(listed) == len(dataset)
    ):
        labels = np.asarray(listed)
    else:
        labels = np.asarray([_label(name, dataset, i) for i in range(len(dataset))])
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise TemporaError(
            f"dataset {name!r}: labels have type {labels.dtype} and shape {labels.shape}: "
            "expected one integer each"
        )
    return labels.astype(np.int64)


def _item(name: str, dataset: Any, i: int) -> tuple[Any, Any]:
    item = dataset[i]
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise TemporaError(f"dataset {name!r}: item {i} is a {type(item).__name__}: expected (image, label)")
    return item[0], item[1]


def _label(name: str, dataset: Any, i: int) -> int:
    label = _item(name, dataset, i)[1]
    if isinstance(label, float) or not hasattr(label, "__index__"):
        raise TemporaError(f"dataset {name!r}: item {i} has label {label!r}: expected an integer")
    return int(label)
