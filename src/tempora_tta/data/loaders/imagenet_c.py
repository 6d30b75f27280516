"""ImageNet-C: corruption / severity / class folders, published at 224 px."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tempora_tta.data.class_folders import class_folder_shift
from tempora_tta.data.contents import Progress
from tempora_tta.data.groups import CORRUPTIONS, EXTRA, expand
from tempora_tta.data.imagenet_classes import class_names, label_of
from tempora_tta.data.registry import Archive, dataset
from tempora_tta.data.shift import Shift

_FILES = "https://zenodo.org/records/2235448/files"


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
        Archive(f"{_FILES}/noise.tar", "e80562d7f6c3f8834afb1ecf27252745", "ImageNet-C"),
        Archive(f"{_FILES}/blur.tar", "2d8e81fdd8e07fef67b9334fa635e45c", "ImageNet-C"),
        Archive(f"{_FILES}/weather.tar", "33ffea4db4d93fe4a428c40a6ce0c25d", "ImageNet-C"),
        Archive(f"{_FILES}/digital.tar", "89157860d7b10d5797849337ca2e5c03", "ImageNet-C"),
        Archive(f"{_FILES}/extra.tar", "d492dfba5fc162d8ec2c3cd8ee672984", "ImageNet-C"),
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
