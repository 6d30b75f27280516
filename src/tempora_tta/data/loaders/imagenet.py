"""ImageNet's validation set, uncorrupted."""

from __future__ import annotations

from pathlib import Path

from tempora_tta.data.class_folders import class_folder_shift
from tempora_tta.data.contents import Progress
from tempora_tta.data.imagenet_classes import class_names, label_of
from tempora_tta.data.registry import dataset
from tempora_tta.data.shift import Shift


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
