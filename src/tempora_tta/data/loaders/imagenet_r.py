"""ImageNet-R: renditions of 200 of ImageNet's classes."""

from __future__ import annotations

from pathlib import Path

from tempora_tta.data.contents import Progress
from tempora_tta.data.imagenet_classes import subset_shift
from tempora_tta.data.registry import Archive, dataset
from tempora_tta.data.shift import Shift


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
    return {"imagenet_r": subset_shift("imagenet_r", root, None if subset else 30_000, progress)}
