"""Your own images: one folder per class, or several such shifts side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tempora_tta.data.class_folders import class_folder_shift
from tempora_tta.data.contents import Progress
from tempora_tta.data.groups import CORRUPTIONS, EXTRA, expand
from tempora_tta.data.registry import LayoutError, dataset
from tempora_tta.data.shift import Shift
from tempora_tta.errors import TemporaError

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
    progress: Progress | None = None,
) -> dict[str, Shift]:
    """`classes` is a list of names, or the file that holds it (default: classes.txt in the folder).

    `restrict=True` takes only scores of classes that have images here, as ImageNet-R does with 200 of 1000.

    `precropped=True` for pictures that show just what the model should see: they are scaled, not cropped.
    Default: those that `tempora data corrupt` wrote, which has cropped them.

    `as_stored=True` ignores EXIF orientation and alpha, for a network that was trained and tested so.
    """
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
    """The classes that have a folder in any shift: the same for all, so that they can share a stream."""
    places = [root / name / part for name in several for part in ("", str(severity))] or [root]
    return np.array(
        [label for label, name in enumerate(names) if any((place / name).is_dir() for place in places)],
        np.int64,
    )


def _is_there(folder: Path) -> bool:
    """Whether it is a folder; a link to one that is gone is not passed over."""
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
