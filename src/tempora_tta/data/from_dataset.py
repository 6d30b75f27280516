"""Any torchvision-style dataset as a shift."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from tempora_tta.data.fingerprint import as_rows, content_hash, digest, file_hashes
from tempora_tta.data.images import Geometry, in_bytes, stack
from tempora_tta.data.shift import Shift
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
    class_names = class_names if class_names is not None else getattr(dataset, "classes", None)
    if num_classes is None:
        if class_names is None:
            raise TemporaError(f"dataset {name!r} has no list of classes: say num_classes=")
        num_classes = len(class_names)
    labels = _labels(name, dataset)
    hashes: np.ndarray | None = None
    if not fingerprint:
        content = _at_hand(dataset)
        if content is None:
            items = (_item(name, dataset, index) for index in range(len(dataset)))
            hashes = content = as_rows([_hash(name, index, image) for index, (image, _) in enumerate(items)])
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


@dataclass(frozen=True, eq=False)
class DatasetImages:
    """The pictures of an indexable Python dataset whose items are (image, label)."""

    slow_to_read: ClassVar[bool] = False
    name: str
    dataset: Any = field(repr=False)
    labels: np.ndarray = field(repr=False)
    hashes: np.ndarray | None = field(default=None, repr=False)
    """Hashes of the items when the shift was made; None: not taken."""

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        return stack([self._fit(int(index), geometry) for index in indices], geometry)

    def _fit(self, index: int, geometry: Geometry) -> np.ndarray:
        image, label = _item(self.name, self.dataset, index)
        if label != self.labels[index] or (
            self.hashes is not None and _hash(self.name, index, image) != self.hashes[index].tobytes()
        ):
            raise TemporaError(
                f"dataset {self.name!r}: item {index} has another picture or label ({label}) than its lists said "
                f"({self.labels[index]}). Give a dataset whose items do not change, or say which data it is: "
                "fingerprint="
            )
        return geometry.fit(_picture(self.name, index, image), precropped=False)


def _labels(name: str, dataset: Any) -> np.ndarray:
    """The dataset's own list of labels where nothing changes them on the way, else the labels of its items.

    The list is checked against every item when it is decoded (`DatasetImages`).
    """
    listed = getattr(dataset, "targets", getattr(dataset, "labels", None))
    as_listed = getattr(dataset, "target_transform", None) is None
    if listed is None or not as_listed or len(listed) != len(dataset):
        listed = [_item(name, dataset, index)[1] for index in range(len(dataset))]
    labels = np.asarray(listed)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise TemporaError(
            f"dataset {name!r}: labels have type {labels.dtype} and shape {labels.shape}: expected one integer each"
        )
    return labels.astype(np.int64)


def _at_hand(dataset: Any) -> np.ndarray | None:
    """The content of torchvision's own datasets without reading items: their array, or the hashes of their files."""
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


def _item(name: str, dataset: Any, index: int) -> tuple[Any, int]:
    item = dataset[index]
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise TemporaError(
            f"dataset {name!r}: item {index} is a {type(item).__name__}: expected (image, label)"
        )
    image, label = item
    if isinstance(label, float) or not hasattr(label, "__index__"):
        raise TemporaError(f"dataset {name!r}: item {index} has label {label!r}: expected an integer")
    return image, int(label)


def _hash(name: str, index: int, image: Any) -> bytes:
    try:
        if isinstance(image, Image.Image):
            palette = image.getpalette() or []
            return content_hash(f"{image.mode} {image.size} {palette} ".encode() + image.tobytes())
        pixels = np.asarray(image)
        return content_hash(f"{pixels.dtype.str} {pixels.shape} ".encode() + pixels.tobytes())
    except Exception as error:  # decoders raise many kinds of errors on a damaged file
        raise TemporaError(f"dataset {name!r}: item {index} cannot be read as an image ({error})") from error


def _picture(name: str, index: int, image: Any) -> Image.Image:
    if isinstance(image, Image.Image):
        try:
            return in_bytes(image)
        except ValueError as error:
            raise TemporaError(f"dataset {name!r}: item {index} is {error}") from error
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        raise TemporaError(
            f"dataset {name!r}: item {index} is a {type(image).__name__} of type {pixels.dtype}; "
            "expected PIL images or uint8 arrays. Leave out the transform: Tempora resizes and normalises"
        )
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3) and pixels.shape[2] not in (1, 3):
        pixels = pixels.transpose(1, 2, 0)
    return Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels)
