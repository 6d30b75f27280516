"""Images that lie in one folder per class: the layout of ImageNet and of most people's own data."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tempora_tta.data.contents import Progress, file_hashes
from tempora_tta.data.images import FileImages
from tempora_tta.data.registry import SUBSET, LayoutError
from tempora_tta.data.shift import Shift, digest
from tempora_tta.errors import suggestion

IMAGE_SUFFIXES = frozenset({".jpeg", ".jpg", ".png", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})
_CLUTTER = frozenset({"thumbs.db", "desktop.ini", "__macosx"})
_SHOWN = 3


@dataclass(frozen=True)
class Found:
    """The images below a folder, in the order of their names."""

    names: list[str] = field(default_factory=list)
    """Paths relative to the folder, CLASS/IMAGE."""
    stats: list[os.stat_result] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Files in class folders that are no images."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about it."""
        if not self.left_out:
            return ()
        rest = len(self.left_out) - _SHOWN
        some = ", ".join(self.left_out[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
        what = "1 file is" if len(self.left_out) == 1 else f"{len(self.left_out)} files are"
        return (f"{what} left out, since images end in {', '.join(sorted(IMAGE_SUFFIXES))}: {some}",)


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
    progress: Progress | None = None,
    as_stored: bool = False,
) -> Shift:
    """The shift in `root`, whose folders are the keys of `label_of`; each image has its folder's label.

    `published` is the number of images there must be; None accepts any subset of images and classes.
    `progress(done, total)` counts the files that are read to know their content. `as_stored=True` ignores EXIF
    orientation and alpha, as the code of published benchmarks does; else pictures are upright, and white shows
    through where they are transparent.
    """
    found = scan(root, label_of)
    labels = np.array([label_of[path.split("/", 1)[0]] for path in found.names], np.int64)
    if published is not None and len(found.names) != published:
        absent = len(label_of) - len(np.unique(labels))
        raise LayoutError(
            f"{root} has {len(found.names)} images, published are {published}"
            + (f"; {absent} of {len(label_of)} class folders are missing" if absent else "")
            + f" ({SUBSET} a part of the dataset)"
        )
    hashes = file_hashes(root, found.names, found.stats, progress)
    return Shift(
        name=name,
        labels=labels,
        num_classes=num_classes,
        source=FileImages(root, found.names, precropped, hashes, as_stored),
        fingerprint=digest(
            name,
            str(severity),
            "\n".join(found.names),
            hashes,
            labels,
            *(["precropped"] if precropped else []),
            *([] if as_stored else ["upright"]),
        ),
        class_names=class_names,
        classes=classes,
        notes=found.notes,
    )


def scan(root: Path, classes: Mapping[str, int] | None = None) -> Found:
    """Every image in the class folders of `root`. `classes`: the folders that may be there; None: any."""
    if not root.is_dir():
        raise LayoutError(f"there is no folder {root}")
    found = Found()
    for folder in _class_folders(root):
        if classes is not None and folder.name not in classes:
            raise LayoutError(
                f"{folder.path} is a folder for no known class: {_allowed(folder.name, classes)}"
            )
        _add_class(folder, found)
    if not found.names:
        raise LayoutError(f"{root} has no images in class folders")
    return found


def _class_folders(root: Path) -> Iterator[os.DirEntry[str]]:
    """The folders in `root`. Files may lie beside them, but no pictures, and nothing that might be a folder."""
    for entry in _entries(root):
        if _is_folder(entry):
            yield entry
        elif _is_image(entry.name):
            raise LayoutError(f"{entry.path} is an image outside the class folders: its class is unknown")
        elif entry.is_symlink() and not os.path.exists(entry.path):
            raise LayoutError(f"{entry.path} is a link that leads nowhere: replace or remove it")


def _add_class(folder: os.DirEntry[str], found: Found) -> None:
    before = len(found.names)
    for entry in _entries(folder):
        name = f"{folder.name}/{entry.name}"
        if _is_folder(entry):
            raise LayoutError(
                f"{entry.path} is a folder inside a class folder: only images are expected there"
            )
        if not _is_image(entry.name):
            found.left_out.append(name)
            continue
        found.names.append(name)
        found.stats.append(_stat(entry))
    if len(found.names) == before:
        raise LayoutError(f"{folder.path} has no images")


def _stat(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        facts = os.stat(entry.path)  # not entry.stat(): Windows would leave out the inode
    except OSError as error:
        raise LayoutError(f"{entry.path} is a link that leads nowhere: replace or remove it") from error
    if not stat.S_ISREG(facts.st_mode):  # reading a pipe would wait for ever
        raise LayoutError(f"{entry.path} is no file but a pipe, a socket or a device: remove it")
    return facts


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


def _allowed(name: str, classes: Mapping[str, int]) -> str:
    """The nearest class, or the whole list where that is short."""
    if len(classes) <= 20:
        return suggestion(name, classes)
    hint = suggestion(name, classes).split(" Allowed: ")[0]
    examples = list(classes)
    known = f"the {len(classes)} classes are {examples[0]}, {examples[1]}, ..., {examples[-1]}"
    return f"{hint} {known}" if hint.startswith("did you mean") else known
