"""Images that lie in one folder per class: the layout of ImageNet and of most people's own data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempora.data.images import FileImages
from tempora.data.registry import SUBSET, LayoutError
from tempora.data.shift import Shift, digest
from tempora.errors import suggestion

IMAGE_SUFFIXES = frozenset({".jpeg", ".jpg", ".png", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})
_CLUTTER = frozenset({"thumbs.db", "desktop.ini", "__macosx"})


@dataclass(frozen=True)
class Found:
    """The images below a folder: paths relative to it, sizes in bytes, labels."""

    names: list[str]
    sizes: list[int]
    labels: list[int]


def class_folder_shift(
    name: str,
    root: Path,
    label_of: Mapping[str, int],
    num_classes: int,
    published: int | None = None,
    class_names: Sequence[str] | None = None,
    classes: np.ndarray | None = None,
    precropped: bool = False,
    severity: int | None = None,
) -> Shift:
    """The shift in `root`, whose folders are the keys of `label_of`; each image has its folder's label.

    `published` is the number of images there must be; None accepts any subset of images and classes.
    """
    found = scan(root, label_of)
    if published is not None and len(found.names) != published:
        absent = len(label_of) - len(set(found.labels))
        raise LayoutError(
            f"{root} has {len(found.names)} images, published are {published}"
            + (f"; {absent} of {len(label_of)} class folders are missing" if absent else "")
            + f" ({SUBSET} a part of the dataset)"
        )
    listing = "\n".join(f"{size} {path}" for path, size in zip(found.names, found.sizes, strict=True))
    labels = np.array(found.labels, np.int64)
    return Shift(
        name=name,
        labels=labels,
        num_classes=num_classes,
        source=FileImages(root, found.names, precropped),
        fingerprint=digest(name, str(severity), listing, labels, *(["precropped"] if precropped else [])),
        class_names=class_names,
        classes=classes,
    )


def scan(root: Path, label_of: Mapping[str, int]) -> Found:
    """Every image below `root` with the label of its class folder, in the order of the names."""
    if not root.is_dir():
        raise LayoutError(f"there is no folder {root}")
    found = Found([], [], [])
    for folder in _entries(root):
        if not _is_folder(folder):
            if _is_image(folder.name):
                raise LayoutError(
                    f"{folder.path} is an image outside the class folders: its class is unknown"
                )
            continue
        if folder.name not in label_of:
            raise LayoutError(
                f"{folder.path} is a folder for no known class: {_allowed(folder.name, label_of)}"
            )
        _add_class(folder, label_of[folder.name], found)
    if not found.names:
        raise LayoutError(f"{root} has no images in class folders")
    return found


def _add_class(folder: os.DirEntry[str], label: int, found: Found) -> None:
    before = len(found.names)
    for entry in _entries(folder):
        if _is_folder(entry):
            raise LayoutError(
                f"{entry.path} is a folder inside a class folder: only images are expected there"
            )
        if _is_image(entry.name):
            try:
                size = entry.stat().st_size
            except OSError as error:
                raise LayoutError(
                    f"{entry.path} is a link that leads nowhere: replace or remove it"
                ) from error
            found.names.append(f"{folder.name}/{entry.name}")
            found.sizes.append(size)
            found.labels.append(label)
    if len(found.names) == before:
        raise LayoutError(f"{folder.path} has no images")


def _entries(folder: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    """What is in a folder, sorted, without hidden files and what file managers leave behind."""
    with os.scandir(folder) as entries:
        visible = [e for e in entries if not e.name.startswith(".") and e.name.lower() not in _CLUTTER]
    return sorted(visible, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):  # a link to itself
        return entry.is_dir()
    return False


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in IMAGE_SUFFIXES


def _allowed(name: str, label_of: Mapping[str, int]) -> str:
    """The nearest class, or the whole list where that is short."""
    if len(label_of) <= 20:
        return suggestion(name, label_of)
    hint = suggestion(name, label_of).split(" Allowed: ")[0]
    examples = list(label_of)
    known = f"the {len(label_of)} classes are {examples[0]}, {examples[1]}, ..., {examples[-1]}"
    return f"{hint} {known}" if hint.startswith("did you mean") else known
