"""ImageNet-A: natural adversarial photographs of 200 of ImageNet's classes."""

from __future__ import annotations

from pathlib import Path

from tempora_tta.data.contents import Progress
from tempora_tta.data.imagenet_classes import subset_shift
from tempora_tta.data.registry import Archive, dataset
from tempora_tta.data.shift import Shift


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
    return {"imagenet_a": subset_shift("imagenet_a", root, None if subset else 7_500, progress)}
