"""ImageNet's 1000 classes: which folder name (WordNet id) is which output of a model."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from pkgutil import get_data

import numpy as np

from tempora_tta.data.class_folders import class_folder_shift
from tempora_tta.data.contents import Progress
from tempora_tta.data.shift import Shift


@cache
def label_of() -> dict[str, int]:
    """WordNet id -> index, in the standard order (sorted ids)."""
    from timm.data.imagenet_info import ImageNetInfo

    return {wnid: index for index, wnid in enumerate(ImageNetInfo("imagenet-1k").label_names())}


@cache
def class_names() -> tuple[str, ...]:
    """What the 1000 classes show, in the standard order."""
    from timm.data.imagenet_info import ImageNetInfo

    return tuple(ImageNetInfo("imagenet-1k").label_descriptions())


def subset_shift(name: str, root: Path, published: int | None, progress: Progress | None = None) -> Shift:
    """`imagenet_r` or `imagenet_a`: photographs of 200 classes, whose scores are restricted to these.

    published: how many images there are in all; None: any part of them will do.
    """
    members = subset_of(name)
    return class_folder_shift(
        name,
        root,
        members,
        num_classes=1000,
        published=published,
        class_names=class_names(),
        classes=np.array(sorted(members.values()), np.int64),
        progress=progress,
        as_stored=True,
    )


def subset_of(name: str) -> dict[str, int]:
    """WordNet id -> index among the 1000, for the 200 classes of `imagenet_r` or `imagenet_a`."""
    listing = get_data("timm.data", f"_info/{name}_synsets.txt")
    assert listing is not None
    return {wnid: label_of()[wnid] for wnid in listing.decode().split()}
