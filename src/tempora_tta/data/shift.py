"""A shift: a named labelled set of images, of which streams are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tempora_tta.data.fingerprint import digest
from tempora_tta.data.groups import group_of
from tempora_tta.data.images import ArrayImages, Geometry, Images
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    import torch

    from tempora_tta.models import Preprocessing


@dataclass(frozen=True, eq=False, repr=False)
class Shift:
    """One corruption at one severity, ImageNet-R, a folder of photographs: images with labels and a name."""

    name: str
    """The shift's name in tables and files."""
    labels: np.ndarray
    """int64, one per image: indices in the model's full label space."""
    num_classes: int
    """Classes in the model's full label space."""
    source: Images
    """The source of the pictures."""
    fingerprint: str
    """Hash of the data: changes when the images or labels do."""
    class_names: Sequence[str] | None = None
    """Names of the `num_classes` classes, where known."""
    classes: np.ndarray | None = None
    """The sorted classes to which scores are restricted (ImageNet-R and -A: 200 of 1000); None: all."""
    group: str = ""
    """noise, blur, weather, digital, extra, clean or natural. Found from the name where not given."""
    notes: tuple[str, ...] = ()
    """Sentences for the user, such as files that were left out."""
    severity: int | None = None
    """Severity of the corruption, where a stream takes several."""
    normalised: bool = False
    """The pictures are float32 as the model takes them, not bytes (`batches.given_shift`)."""

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != len(self.source):
            raise TemporaError(
                f"shift {self.name!r}: {len(self.source)} images with labels of shape {labels.shape} and "
                f"type {labels.dtype}: expected one integer label per image"
            )
        allowed = np.arange(self.num_classes) if self.classes is None else np.asarray(self.classes)
        strangers = np.setdiff1d(labels, allowed)
        if len(strangers):
            raise TemporaError(
                f"shift {self.name!r}: labels {_some(strangers)} are none of its {len(allowed)} classes "
                f"({allowed.min()} to {allowed.max()})"
            )
        object.__setattr__(self, "labels", labels.astype(np.int64))
        object.__setattr__(self, "group", self.group or group_of(self.name))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        classes = self.num_classes if self.classes is None else f"{len(self.classes)} of {self.num_classes}"
        images = f"{len(self)} image{'' if len(self) == 1 else 's'}"
        return f"<Shift {self.name!r}: {images}, {classes} classes, fingerprint {self.fingerprint}>"

    def images(self, indices: Sequence[int] | np.ndarray, preprocessing: Preprocessing) -> torch.Tensor:
        """The images at `indices`, decoded, resized and cropped on the CPU: uint8 (n, C, H, W)."""
        import torch

        return torch.from_numpy(self.source.read(np.asarray(indices), Geometry.of(preprocessing)))


def array_shift(
    name: str,
    images: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    class_names: Sequence[str] | None = None,
    fingerprint: str | None = None,
) -> Shift:
    """A shift from uint8 images (n, height, width[, channels]). The `fingerprint` defaults to their hash."""
    source = ArrayImages(images)
    labels = np.asarray(labels)
    return Shift(
        name=name,
        labels=labels,
        num_classes=num_classes,
        source=source,
        fingerprint=fingerprint or digest(name, images, labels),
        class_names=class_names,
    )


def _some(values: np.ndarray, shown: int = 5) -> str:
    """The first few values, for an error message."""
    return ", ".join(str(value) for value in values[:shown]) + (", ..." if len(values) > shown else "")
