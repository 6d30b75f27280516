"""ImageNet's validation set, ImageNet-C, and the new images of ImageNet-R, -A and -V2."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from pkgutil import get_data

import numpy as np

from tempora_tta.data.folders import class_folder_shift
from tempora_tta.data.groups import CORRUPTIONS, EXTRA, expand
from tempora_tta.data.registry import Archive, LayoutError, dataset
from tempora_tta.data.shift import Shift
from tempora_tta.data.threads import Progress
from tempora_tta.errors import unknown

_C_FILES = "https://zenodo.org/records/2235448/files"
_V2_FILES = "https://huggingface.co/datasets/vaishaal/ImageNetV2/resolve/main"
_V2_FOLDERS = {
    "matched-frequency": "imagenetv2-matched-frequency-format-val",
    "threshold0.7": "imagenetv2-threshold0.7-format-val",
    "top-images": "imagenetv2-top-images-format-val",
}


@dataset(
    "imagenet",
    what="ImageNet (ILSVRC 2012) validation images, uncorrupted",
    size="6.7 GB",
    licence="ImageNet terms of access: non-commercial research",
    source="https://image-net.org/download.php",
    folder="imagenet-val",
    layout=(
        "imagenet-val/\n"
        "  n01440764/ILSVRC2012_val_00000293.JPEG    one folder per class, named by its WordNet id,\n"
        "  n01440764/...                             50 images in each of 1000, 50000 in all\n"
        "  n01443537/..."
    ),
    as_stored=True,
)
def imagenet(root: Path, subset: bool = False, progress: Progress | None = None) -> dict[str, Shift]:
    published = None if subset else 50_000
    shift = class_folder_shift(
        "clean", root, label_of(), 1000, published, class_names(), progress=progress, as_stored=True
    )
    return {"clean": shift}


@dataset(
    "imagenet_c",
    what="ImageNet validation images under 15 corruptions (and 4 extra ones) at 5 severities",
    size="about 75 GB",
    licence="CC BY 4.0; the images: ImageNet terms of access",
    source="https://zenodo.org/records/2235448",
    folder="ImageNet-C",
    layout=(
        "ImageNet-C/\n"
        "  gaussian_noise/5/n01440764/ILSVRC2012_val_00000293.JPEG    corruption, severity, class;\n"
        "  gaussian_noise/5/...                                       50000 images per severity\n"
        "  shot_noise/5/..."
    ),
    archives=[
        Archive(f"{_C_FILES}/noise.tar", "e80562d7f6c3f8834afb1ecf27252745", "ImageNet-C"),
        Archive(f"{_C_FILES}/blur.tar", "2d8e81fdd8e07fef67b9334fa635e45c", "ImageNet-C"),
        Archive(f"{_C_FILES}/weather.tar", "33ffea4db4d93fe4a428c40a6ce0c25d", "ImageNet-C"),
        Archive(f"{_C_FILES}/digital.tar", "89157860d7b10d5797849337ca2e5c03", "ImageNet-C"),
        Archive(f"{_C_FILES}/extra.tar", "d492dfba5fc162d8ec2c3cd8ee672984", "ImageNet-C"),
    ],
    as_stored=True,
)
def imagenet_c(
    root: Path,
    severity: int,
    shifts: str | Iterable[str] | None,
    subset: bool = False,
    progress: Progress | None = None,
) -> dict[str, Shift]:
    return {
        name: class_folder_shift(
            name,
            root / name / str(severity),
            label_of(),
            num_classes=1000,
            published=None if subset else 50_000,
            class_names=class_names(),
            precropped=True,
            severity=severity,
            progress=progress,
            as_stored=True,
        )
        for name in expand(shifts, CORRUPTIONS + EXTRA, default=CORRUPTIONS)
    }


@dataset(
    "imagenet_r",
    what="ImageNet-R: 30000 renditions (art, cartoons, toys, ...) of 200 ImageNet classes",
    size="2.2 GB",
    licence="MIT (the collection)",
    source="https://github.com/hendrycks/imagenet-r",
    folder="imagenet-r",
    layout=(
        "imagenet-r/\n"
        "  n01443537/    200 folders, named by the WordNet ids of their classes;\n"
        "  ...           30000 images in all"
    ),
    archives=[
        Archive(
            "https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar", "a61312130a589d0ca1a8fca1f2bd3337"
        )
    ],
    as_stored=True,
)
def imagenet_r(root: Path, subset: bool = False, progress: Progress | None = None) -> dict[str, Shift]:
    return {"imagenet_r": _of_200_classes("imagenet_r", root, None if subset else 30_000, progress)}


@dataset(
    "imagenet_a",
    what="ImageNet-A: 7500 natural photographs of 200 ImageNet classes that fool a ResNet-50",
    size="690 MB",
    licence="MIT (the collection)",
    source="https://github.com/hendrycks/natural-adv-examples",
    folder="imagenet-a",
    layout=(
        "imagenet-a/\n"
        "  n01498041/    200 folders, named by the WordNet ids of their classes;\n"
        "  ...           7500 images in all"
    ),
    archives=[
        Archive(
            "https://people.eecs.berkeley.edu/~hendrycks/imagenet-a.tar", "c3e55429088dc681f30d81f4726b6595"
        )
    ],
    as_stored=True,
)
def imagenet_a(root: Path, subset: bool = False, progress: Progress | None = None) -> dict[str, Shift]:
    return {"imagenet_a": _of_200_classes("imagenet_a", root, None if subset else 7_500, progress)}


@dataset(
    "imagenet_v2",
    what="ImageNet-V2: 10000 new test images for ImageNet (matched-frequency; others: data.options.variant)",
    size="1.3 GB",
    licence="MIT (the collection)",
    source="https://huggingface.co/datasets/vaishaal/ImageNetV2",
    folder="ImageNetV2",
    layout=(
        "ImageNetV2/\n"
        "  imagenetv2-matched-frequency-format-val/\n"
        "    0/ ... 999/    one folder per class, named by its index, 10 images in each"
    ),
    archives=[Archive(f"{_V2_FILES}/imagenetv2-matched-frequency.tar.gz", into="ImageNetV2")],
    as_stored=True,
)
def imagenet_v2(
    root: Path,
    variant: str = "matched-frequency",
    subset: bool = False,
    progress: Progress | None = None,
) -> dict[str, Shift]:
    if variant not in _V2_FOLDERS:
        raise unknown("variant of ImageNet-V2", variant, _V2_FOLDERS)
    if root.name not in _V2_FOLDERS.values():
        root = root / _V2_FOLDERS[variant]
    elif root.name != _V2_FOLDERS[variant]:
        raise LayoutError(
            f"{root} is not variant {variant!r}: its folder is called {_V2_FOLDERS[variant]} (data.options.variant)"
        )
    # By number, not by rank: sorted as text the folders are 0, 1, 10, 100, ..., and labels would be wrong.
    label_of = {str(index): index for index in range(1000)}
    published = None if subset else 10_000
    shift = class_folder_shift(
        "imagenet_v2", root, label_of, 1000, published, class_names(), progress=progress, as_stored=True
    )
    return {"imagenet_v2": shift}


@cache
def label_of() -> dict[str, int]:
    """WordNet id -> index, in the standard order (sorted ids)."""
    from timm.data.imagenet_info import ImageNetInfo

    return {wnid: index for index, wnid in enumerate(ImageNetInfo("imagenet-1k").label_names())}


@cache
def class_names() -> tuple[str, ...]:
    """Names of the 1000 classes, in the standard order."""
    from timm.data.imagenet_info import ImageNetInfo

    return tuple(ImageNetInfo("imagenet-1k").label_descriptions())


def _of_200_classes(name: str, root: Path, published: int | None, progress: Progress | None = None) -> Shift:
    """`imagenet_r` or `imagenet_a`: photographs of 200 classes, whose scores are restricted to these.

    published: how many images there are in all; None: any part of them is accepted.
    """
    members = members_of(name)
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


def members_of(name: str) -> dict[str, int]:
    """WordNet id -> index among the 1000, for the 200 classes of `imagenet_r` or `imagenet_a`."""
    listing = get_data("timm.data", f"_info/{name}_synsets.txt")
    assert listing is not None
    return {wnid: label_of()[wnid] for wnid in listing.decode().split()}
