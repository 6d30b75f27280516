"""Checking what lies on disk: layout, counts, published checksums, and on demand every image."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import UnidentifiedImageError

from tempora_tta.data.contents import Progress
from tempora_tta.data.decode import default_workers
from tempora_tta.data.download import md5_of, noted_md5
from tempora_tta.data.groups import CORRUPTIONS, EXTRA
from tempora_tta.data.images import FileImages, read_picture
from tempora_tta.data.registry import Archive, Dataset, datasets, find, open
from tempora_tta.data.shift import Shift
from tempora_tta.data.unpack import check as check_tar
from tempora_tta.errors import TemporaError

USUAL_BATCH_SIZE = 64


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str
    note: bool = False
    """Not wrong, but something to know."""


def verify(
    path: Path | str,
    name: str | None = None,
    decode: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Iterator[Check]:
    """Check the dataset(s) in `path`, or an official archive, one finding at a time.

    Which dataset it is follows from the folder's name, or is said by `name`. `decode` decodes every image file.
    `progress(what, done, total)` is called while files are read.
    """
    path = Path(path).expanduser()
    if path.is_file():
        yield _check_archive(path)
        return
    if not path.is_dir():
        raise TemporaError(
            f"there is no file or folder {path}: give a dataset's folder, or one of its archives"
        )
    for card in _which(path, name):
        root = card.locate(path)
        yield from _check_files(card, root)
        yield from _check_corruptions(card, root)
        for what, opening in _openings(card, root):
            try:
                shifts = open(card.name, root, progress=_of("reading", progress), **opening)
            except TemporaError as error:
                yield Check(what, False, str(error))
                continue
            for shift in shifts.values():
                yield Check(what, True, _counts(shift))
                for note in shift.notes:
                    yield Check(what, True, note, note=True)
                if decode:
                    yield from _check_images(what, shift, _of("decoding", progress))


def _of(what: str, progress: Callable[[str, int, int], None] | None) -> Progress | None:
    return None if progress is None else partial(progress, what)


def _counts(shift: Shift) -> str:
    """`90 images, 2 of 3 classes (26 left out by batches of 64)`."""
    present = len(np.unique(shift.labels))
    possible = shift.num_classes if shift.classes is None else len(shift.classes)
    classes = f"{present} of {possible}" if present < possible else f"{present}"
    odd = len(shift) % USUAL_BATCH_SIZE
    rest = f" ({odd} left out by batches of {USUAL_BATCH_SIZE})" if odd < len(shift) and odd else ""
    return f"{len(shift)} images, {classes} classes{rest}"


def _check_archive(path: Path) -> Check:
    for card in datasets().values():
        for archive in card.archives:
            if archive.filename != path.name:
                continue
            what = f"{card.name}: {path.name}"
            found, noted = md5_of(path), noted_md5(path)
            if archive.md5 is not None:
                right = found == archive.md5
                detail = "MD5 as published" if right else f"MD5 {found}, published {archive.md5}"
                return Check(what, right, detail)
            if noted not in (None, found):
                return Check(what, False, f"MD5 {found}, but {noted} when it was first fetched")
            return _check_whole(what, path, archive, found)
    names = ", ".join(a.filename for card in datasets().values() for a in card.archives)
    raise TemporaError(f"{path} is a file, but none of the official archives: {names}")


def _check_whole(what: str, path: Path, archive: Archive, found: str) -> Check:
    """All that can be said of a file without a published checksum."""
    if archive.packed:
        try:
            check_tar(path)
        except TemporaError as error:
            return Check(what, False, str(error))
    whole = ", but it is whole" if archive.packed else ""
    return Check(what, True, f"no checksum is published for it{whole}; MD5 {found}", note=True)


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


def _check_files(card: Dataset, root: Path) -> Iterator[Check]:
    """Compare the files whose checksums are published."""
    published: dict[str, dict[str, str]] = json.loads(
        files("tempora_tta.data").joinpath("checksums.json").read_text()
    )
    for filename, md5 in published.get(card.name, {}).items():
        if (root / filename).is_file():
            right = md5_of(root / filename) == md5
            detail = "MD5 as published" if right else f"MD5 is not the published {md5}: damaged or changed"
            yield Check(f"{card.name}: {filename}", right, detail)


def _openings(card: Dataset, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """What to open: each corruption and severity that is there, or the dataset as a whole."""
    there = _corruptions_in(root)
    if "severity" not in card.takes or not there:
        yield card.name, {}
    for name, severity in there if "severity" in card.takes else ():
        yield f"{card.name}: {name} {severity}", {"severity": severity, "shifts": [name]}


def _check_corruptions(card: Dataset, root: Path) -> Iterator[Check]:
    """Name what is missing of the fifteen, which `all` asks for, at any severity that one of them has."""
    there = _corruptions_in(root)
    published = card.folder and "severity" in card.takes  # a user's own folder may have as few as it likes
    if not published or not there:
        return
    severities = sorted({severity for _, severity in there})
    absent = []
    for name in CORRUPTIONS:
        lacks = [severity for severity in severities if (name, severity) not in there]
        if lacks == severities:
            absent.append(name)
        elif lacks:
            absent.append(f"{name} at severity {', '.join(map(str, lacks))}")
    detail = f"missing: {'; '.join(absent)}" if absent else "are there"
    yield Check(f"{card.name}: all fifteen corruptions", not absent, detail)


def _corruptions_in(root: Path) -> list[tuple[str, int]]:
    """Corruption and severity of everything that lies in `root`."""
    return [
        (name, severity)
        for name in CORRUPTIONS + EXTRA
        for severity in range(1, 6)
        if os.path.lexists(root / f"{name}.npy") or os.path.lexists(root / name / str(severity))
    ]


def _check_images(what: str, shift: Shift, progress: Progress | None) -> Iterator[Check]:
    """Decode every image file; threads suffice, since Pillow decodes outside the interpreter's lock."""
    if not isinstance(shift.source, FileImages):
        return
    paths = [shift.source.root / name for name in shift.source.names]
    damaged = 0
    with ThreadPoolExecutor(default_workers()) as pool:
        for done, (path, problem) in enumerate(zip(paths, pool.map(_problem, paths), strict=True), start=1):
            if problem is not None:
                damaged += 1
                yield Check(what, False, f"{path}: {problem}")
            if progress is not None:
                progress(done, len(paths))
    if not damaged:
        yield Check(what, True, f"all {len(paths)} images can be decoded")


def _problem(path: Path) -> str | None:
    try:
        read_picture(path)
    except TemporaError as error:
        cause = error.__cause__
        return "no known image format" if isinstance(cause, UnidentifiedImageError) else str(cause)
    return None
