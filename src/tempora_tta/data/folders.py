"""Images in one folder per class: the layout of ImageNet and of most people's own data."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tempora_tta.data.fingerprint import digest, file_hashes
from tempora_tta.data.groups import CORRUPTIONS, EXTRA, expand
from tempora_tta.data.images import FileImages
from tempora_tta.data.registry import SUBSET, LayoutError, dataset
from tempora_tta.data.shift import Shift
from tempora_tta.data.threads import Progress
from tempora_tta.errors import TemporaError, suggestion

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
        """Sentences for the user about files that take no part."""
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
    """Find every image in the class folders of `root`. `classes`: the folders that may be there; None: any.

    Other files are ignored; images outside class folders are an error.
    """
    if not root.is_dir():
        raise LayoutError(f"there is no folder {root}")
    found = Found()
    for folder, facts in _entries(root):
        if stat.S_ISDIR(facts.st_mode):
            if classes is not None and folder.name not in classes:
                raise LayoutError(
                    f"{folder} is a folder for no known class: {_allowed(folder.name, classes)}"
                )
            _add_class(folder, found)
        elif _is_image(folder.name):
            raise LayoutError(f"{folder} is an image outside the class folders: its class is unknown")
    if not found.names:
        raise LayoutError(f"{root} has no images in class folders")
    return found


def _add_class(folder: Path, found: Found) -> None:
    before = len(found.names)
    for path, facts in _entries(folder):
        name = f"{folder.name}/{path.name}"
        if stat.S_ISDIR(facts.st_mode):
            raise LayoutError(f"{path} is a folder inside a class folder: only images are expected there")
        if not _is_image(path.name):
            found.left_out.append(name)
        elif not stat.S_ISREG(facts.st_mode):  # reading a pipe would wait for ever
            raise LayoutError(f"{path} is no file but a pipe, a socket or a device: remove it")
        else:
            found.names.append(name)
            found.stats.append(facts)
    if len(found.names) == before:
        raise LayoutError(f"{folder} has no images")


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """List a folder, sorted, without hidden files and what file managers leave behind."""
    for name in sorted(os.listdir(folder)):
        if name.startswith(".") or name.lower() in _CLUTTER:
            continue
        try:
            yield folder / name, os.stat(folder / name)
        except OSError as error:
            raise LayoutError(
                f"{folder / name} is a link that leads nowhere: replace or remove it"
            ) from error


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


_CORRUPTIONS = (*CORRUPTIONS, *EXTRA)
_KNOWN = ("clean", *_CORRUPTIONS)


@dataset(
    "folder",
    what="Your own images, with a list of the model's classes",
    size="any",
    licence="yours",
    source="`tempora data corrupt` makes corrupted copies",
    layout=(
        "FOLDER/\n"
        "  classes.txt                       the model's classes, one per line, in the order of its outputs\n"
        "  cat/a.jpg                         one folder per class,\n"
        "  dog/b.jpg\n"
        "or, as `tempora data corrupt` writes it,\n"
        "  classes.txt\n"
        "  gaussian_noise/5/cat/a.jpg        corruption, severity, class\n"
        "  clean/cat/a.jpg                   and the uncorrupted images\n"
        "or shifts of your own side by side,\n"
        "  classes.txt\n"
        "  day/cat/a.jpg                     shift, class\n"
        "  night/cat/b.jpg"
    ),
)
def folder(
    root: Path,
    severity: int,
    shifts: str | Iterable[str] | None,
    classes: Path | str | Sequence[str] | None = None,
    precropped: bool | None = None,
    restrict: bool = False,
    as_stored: bool = False,
    corrupt: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Shift]:
    """`classes` is a list of names, or the file that holds it (default: classes.txt in the folder).

    `restrict=True` takes only scores of classes that have images here, as ImageNet-R does with 200 of 1000.

    `precropped=True` for pictures that show just what the model should see: they are scaled, not cropped.
    Default: those that `tempora data corrupt` wrote, which has cropped them.

    `as_stored=True` ignores EXIF orientation and alpha, for a network that was trained and tested so.

    `corrupt="noise,fog"` opens the images of one clean shift under these corruptions, made after the images are
    resized and cropped to what the model takes.
    """
    if corrupt is not None:
        wanted = expand(shifts, expand(corrupt, _CORRUPTIONS, default=CORRUPTIONS))
        clean = folder(root, severity, None, classes, precropped, restrict, as_stored, progress=progress)
        return _corrupted(root, clean, wanted, severity)
    names = _class_names(root, classes)
    label_of = {name: index for index, name in enumerate(names)}
    several = _side_by_side(root, label_of)
    cropped_by_us = (root / "corruptions.json").is_file()
    present = _present(root, several, names, severity) if restrict else None
    opened = {}
    for name in expand(shifts, several or [root.resolve().name]):
        corrupted = name in several and name in _CORRUPTIONS and not _has_classes(root / name, label_of)
        place = root / name if name in several else root
        opened[name] = class_folder_shift(
            name,
            place / str(severity) if corrupted else place,
            label_of,
            len(names),
            class_names=names,
            classes=present,
            precropped=name in _KNOWN and cropped_by_us if precropped is None else precropped,
            severity=severity if corrupted else None,
            progress=progress,
            as_stored=as_stored,
        )
    return opened


def _corrupted(root: Path, clean: dict[str, Shift], names: Iterable[str], severity: int) -> dict[str, Shift]:
    from tempora_tta.data.corruptions.core import corrupted  # needs torch, which listings do not

    if len(clean) > 1:
        raise TemporaError(
            f"corrupt: {root} has several shifts ({', '.join(clean)}): give the folder of the clean one as root"
        )
    (shift,) = clean.values()
    return {name: corrupted(shift, name, severity) for name in names}


def _side_by_side(root: Path, label_of: Mapping[str, int]) -> list[str]:
    """The shifts in `root`: known ones first, then folders of class folders. None where it is one shift itself."""
    known = [name for name in _KNOWN if name not in label_of and _is_there(root / name)]
    if not root.is_dir():
        return known
    folders = sorted(
        entry.name for entry in root.iterdir() if not entry.name.startswith(".") and entry.is_dir()
    )
    own = [
        name
        for name in folders
        if name not in label_of and name not in _KNOWN and _has_classes(root / name, label_of)
    ]
    return known + own


def _has_classes(folder: Path, label_of: Mapping[str, int]) -> bool:
    return any(entry.name in label_of and entry.is_dir() for entry in folder.iterdir())


def _present(root: Path, several: Sequence[str], names: Sequence[str], severity: int) -> np.ndarray:
    """List the classes that have a folder in any shift: the same for all, so that they can share a stream."""
    places = [root / name / part for name in several for part in ("", str(severity))] or [root]
    return np.array(
        [label for label, name in enumerate(names) if any((place / name).is_dir() for place in places)],
        np.int64,
    )


def _is_there(folder: Path) -> bool:
    """Tell whether it is a folder; refuse a link to one that is gone."""
    if folder.is_symlink() and not folder.exists():
        raise LayoutError(f"{folder} is a link that leads nowhere: replace or remove it")
    return folder.is_dir()


def _class_names(root: Path, classes: Path | str | Sequence[str] | None) -> list[str]:
    if classes is not None and not isinstance(classes, (str, Path)):
        names, origin = list(classes), "classes"
    else:
        path = root / "classes.txt" if classes is None else Path(classes)
        if not path.is_file():
            raise LayoutError(
                f"{path} is missing: which folder is which output of the model? Write one class per line, "
                "in the order of the outputs (torchvision's ImageFolder trains with the sorted folder names); or say "
                "where such a file is: classes=FILE, in a run --set data.options.classes=FILE"
            )
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise LayoutError(
                f"{path} cannot be read ({error}): write one class per line, as UTF-8"
            ) from error
        names, origin = [line.strip() for line in lines if line.strip()], str(path)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or len(names) < 2:
        problem = f"names {', '.join(map(repr, twice))} twice" if twice else f"has {len(names)} class"
        raise TemporaError(f"{origin} {problem}: expected two or more different classes")
    return names
