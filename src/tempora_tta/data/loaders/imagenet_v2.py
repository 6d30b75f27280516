"""ImageNet-V2: new test images for ImageNet, collected the same way."""

from __future__ import annotations

from pathlib import Path

from tempora_tta.data.class_folders import class_folder_shift
from tempora_tta.data.contents import Progress
from tempora_tta.data.imagenet_classes import class_names
from tempora_tta.data.registry import Archive, LayoutError, dataset
from tempora_tta.data.shift import Shift
from tempora_tta.errors import unknown

_FILES = "https://huggingface.co/datasets/vaishaal/ImageNetV2/resolve/main"
_FOLDERS = {
    "matched-frequency": "imagenetv2-matched-frequency-format-val",
    "threshold0.7": "imagenetv2-threshold0.7-format-val",
    "top-images": "imagenetv2-top-images-format-val",
}


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
    archives=[Archive(f"{_FILES}/imagenetv2-matched-frequency.tar.gz", into="ImageNetV2")],
    as_stored=True,
)
def imagenet_v2(
    root: Path,
    variant: str = "matched-frequency",
    subset: bool = False,
    progress: Progress | None = None,
) -> dict[str, Shift]:
    if variant not in _FOLDERS:
        raise unknown("variant of ImageNet-V2", variant, _FOLDERS)
    if root.name not in _FOLDERS.values():
        root = root / _FOLDERS[variant]
    elif root.name != _FOLDERS[variant]:
        raise LayoutError(
            f"{root} is not variant {variant!r}: its folder is called {_FOLDERS[variant]} (data.options.variant)"
        )
    # By number, not by rank: sorted as text the folders are 0, 1, 10, 100, ..., and labels would be wrong.
    label_of = {str(index): index for index in range(1000)}
    published = None if subset else 10_000
    shift = class_folder_shift(
        "imagenet_v2", root, label_of, 1000, published, class_names(), progress=progress, as_stored=True
    )
    return {"imagenet_v2": shift}
