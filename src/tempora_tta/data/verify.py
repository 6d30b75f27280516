"""Checks of what lies on disk: layout and counts, and on demand each image."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tempora_tta.data.groups import CORRUPTIONS, EXTRA
from tempora_tta.data.images import FileImages, read_picture
from tempora_tta.data.registry import Dataset, datasets, find, open
from tempora_tta.data.shift import Shift
from tempora_tta.data.threads import in_threads
from tempora_tta.errors import TemporaError


@dataclass(frozen=True)
class Check:
    """A finding."""

    what: str
    ok: bool
    detail: str
    note: bool = False
    """Not wrong, but something to know."""


def verify(
    path: Path | str,
    name: str | None = None,
    decode: bool = False,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Iterator[Check]:
    """Open everything in the dataset(s) in `path`, one finding at a time.

    The folder's name tells which dataset it is, or `name` does. `decode` decodes each image file.
    `progress(what, done, total)` is called while files are read.
    """
    path = Path(path).expanduser()
    if not path.is_dir():
        raise TemporaError(f"there is no folder {path}: give a dataset's folder")
    for card in _which(path, name):
        root = card.locate(path)
        there = _corruptions_in(root) if "severity" in card.takes else []
        for shift, severity in there or [(None, 5)]:
            what = f"{card.name}: {shift} {severity}" if shift else card.name
            try:
                opened = open(
                    card.name, root, severity, shift and [shift], progress=partial(progress, "reading")
                )
            except TemporaError as error:
                yield Check(what, False, str(error))
                continue
            for one in opened.values():
                classes = one.num_classes if one.classes is None else len(one.classes)
                yield Check(
                    what, True, f"{len(one)} images, {len(np.unique(one.labels))} of {classes} classes"
                )
                yield from (Check(what, True, note, note=True) for note in one.notes)
                if decode:
                    yield from _check_images(what, one, partial(progress, "decoding"))


def _which(path: Path, name: str | None) -> list[Dataset]:
    """The datasets that `path` is, or has one folder below."""
    if name is not None:
        return [find(name)]
    placed = [card for card in datasets().values() if card.folder]
    found = [card for card in placed if path.resolve().name == card.folder or (path / card.folder).is_dir()]
    if not found:
        known = ", ".join(f"{card.folder} ({card.name})" for card in placed)
        raise TemporaError(f"{path}: which dataset is it? Its name is none of {known}. Say it with --name")
    return found


def _corruptions_in(root: Path) -> list[tuple[str | None, int]]:
    """Corruption and severity of all that lies in `root`."""
    return [
        (name, severity)
        for name in CORRUPTIONS + EXTRA
        for severity in range(1, 6)
        if os.path.lexists(root / f"{name}.npy") or os.path.lexists(root / name / str(severity))
    ]


def _check_images(what: str, shift: Shift, progress: Callable[[int, int], None]) -> Iterator[Check]:
    if not isinstance(shift.source, FileImages):
        return
    paths = [shift.source.root / name for name in shift.source.names]
    damaged = 0
    for done, problem in enumerate(in_threads(_problem, paths), start=1):
        if problem:
            damaged += 1
            yield Check(what, False, problem)
        progress(done, len(paths))
    if not damaged:
        yield Check(what, True, f"all {len(paths)} images can be decoded")


def _problem(path: Path) -> str | None:
    try:
        read_picture(path)
    except TemporaError as error:
        return str(error)
    return None
