"""The datasets that can be opened by name. A new one is a function with a card and a line in `tempora_tta.names`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

from tempora_tta._own_code import find as find_own
from tempora_tta._own_code import is_own
from tempora_tta.data.groups import expand
from tempora_tta.data.shift import Shift
from tempora_tta.data.threads import Progress
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.names import DATASETS, found

Opener = Callable[..., dict[str, Shift]]
_EVERYWHERE = ("root", "severity", "shifts", "progress")
"""Arguments that any opener may have."""

SUBSET = "subset=True, in a run --set data.options.subset=true, accepts"
"""Remedy for users who have a part of a dataset and know it."""


class LayoutError(TemporaError):
    """A loader found something other than the published layout. `open` adds what that layout is."""


@dataclass(frozen=True)
class Archive:
    """One official file of a dataset."""

    url: str
    md5: str | None = None
    """As published; None where no publisher states one."""
    into: str = ""
    """The folder, below the data folder, that it is unpacked in (or, if not packed, stored)."""

    @property
    def filename(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    @property
    def packed(self) -> bool:
        return self.filename.endswith((".tar", ".tar.gz"))


@dataclass(frozen=True)
class Dataset:
    """A dataset's card, and the function that opens it."""

    name: str
    what: str
    size: str
    licence: str
    source: str
    """The page that describes it and says how to get it."""
    folder: str
    """Folder below the data folder; empty: it has no fixed place."""
    layout: str
    """The files that are expected in it, for people."""
    opener: Opener
    pictures_travel: bool = False
    """The licence lets a few pictures be passed on, so that a run may keep some for its report."""
    archives: tuple[Archive, ...] = ()
    """Files that `tempora data fetch` downloads; empty: the user gets them by hand."""
    as_stored: bool = False
    """Pictures are read as the published code reads them, without regard to EXIF orientation and alpha."""

    @property
    def settings(self) -> dict[str, inspect.Parameter]:
        """The opener's own options."""
        parameters = inspect.signature(self.opener).parameters
        return {key: value for key, value in parameters.items() if key not in _EVERYWHERE}

    @property
    def takes(self) -> frozenset[str]:
        """All arguments of the opener."""
        return frozenset(inspect.signature(self.opener).parameters)

    @property
    def needs(self) -> frozenset[str]:
        """Arguments of the opener that have no default."""
        parameters = inspect.signature(self.opener).parameters.values()
        named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        return frozenset(one.name for one in named if one.default is one.empty)

    def locate(self, root: Path | str | None) -> Path:
        """The dataset's folder: `root` itself or below it, or its place in the data folder."""
        given = data_folder() if root is None else Path(root).expanduser()
        if self.folder and (root is None or (given / self.folder).is_dir()):
            return given / self.folder
        return given


_DATASETS: dict[str, Dataset] = {}


def dataset(
    name: str,
    *,
    what: str,
    size: str,
    licence: str,
    source: str,
    folder: str = "",
    layout: str = "",
    pictures_travel: bool = False,
    archives: Iterable[Archive] = (),
    as_stored: bool = False,
) -> Callable[[Opener], Opener]:
    """Register the decorated function as the opener of dataset `name`.

    The function takes any of `root` (the dataset's folder), `severity`, `shifts` (see `groups.expand`), `progress`
    (see `open`) and settings of its own, and returns its shifts by name. It raises `LayoutError` for what it misses.
    """

    def register(opener: Opener) -> Opener:
        card = Dataset(
            *(name, what, size, licence, source, folder, layout, opener),
            pictures_travel=pictures_travel,
            archives=tuple(archives),
            as_stored=as_stored,
        )
        _DATASETS[name] = card
        return opener

    return register


def datasets() -> dict[str, Dataset]:
    """Every dataset by name: ours, and what the user's modules have registered."""
    for path in DATASETS.values():
        found(path)  # its module registers the card
    return dict(sorted(_DATASETS.items()))


def find(name: str) -> Dataset:
    """The dataset called `name`, or the one that a user's `module:function` opens."""
    if is_own(name):
        return _own(name)
    if name in DATASETS:
        found(DATASETS[name])
    if name not in _DATASETS:
        raise unknown("dataset", name, {**DATASETS, **_DATASETS})
    return _DATASETS[name]


def _own(name: str) -> Dataset:
    """The card of a user's opener: the one it was registered with, or one that says nothing."""
    opener = find_own("dataset", name, "function", inspect.isfunction)
    if not inspect.isfunction(opener):
        raise TemporaError(
            f"dataset {name!r}: is a {type(opener).__name__}; expected a function that returns shifts by name"
        )
    nothing: dict[str, Any] = dict.fromkeys(("what", "size", "licence", "source", "folder", "layout"), "")
    unregistered = Dataset(name, opener=opener, **nothing)
    return next((card for card in _DATASETS.values() if card.opener is opener), unregistered)


def data_folder() -> Path:
    """Default folder of datasets: $TEMPORA_DATA, else ./data."""
    return Path(os.environ.get("TEMPORA_DATA", "data")).expanduser()


def open(
    name: str,
    root: Path | str | None = None,
    severity: int = 5,
    shifts: str | Iterable[str] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, Shift]:
    """The shifts of dataset `name`, checked against the published layout. `module:function` is one of your own.

    `root` is the dataset's folder or the one above it (default: $TEMPORA_DATA, else ./data). `shifts` takes
    names, groups (`noise`) and `all`, as a list or separated by commas. `settings` are the dataset's own.
    Files are read once to know their content (`contents`): `progress(done, total)` counts those of a shift.
    """
    card = find(name)
    for key in settings:
        if key not in card.settings:
            raise unknown(f"setting of dataset {name!r}", key, [*card.settings, "root", "severity", "shifts"])
    if not isinstance(severity, int) or not 1 <= severity <= 5:
        raise TemporaError(f"severity={severity!r}: must be a whole number from 1 to 5")
    given: dict[str, Any] = {"severity": severity, "shifts": shifts, "progress": progress, **settings}
    if "root" in card.needs or ("root" in card.takes and (root is not None or card.folder)):
        if root is None and not card.folder:
            raise TemporaError(f"dataset {name!r} has no fixed place: say root= (--root)")
        given["root"] = card.locate(root)
    if missing := card.needs - given.keys():
        raise TemporaError(
            f"dataset {name!r}: its function has required arguments ({', '.join(sorted(missing))}): give each a "
            "default; only root, severity and shifts need none"
        )
    try:
        if "root" in given and not given["root"].is_dir():
            raise LayoutError(f"there is no folder {given['root']}")
        opened = card.opener(**{key: value for key, value in given.items() if key in card.takes})
    except LayoutError as error:
        raise TemporaError(f"{error}\n{_expectation(card)}" if card.layout else str(error)) from error
    _check_opened(name, opened)
    return opened if "shifts" in card.takes else {key: opened[key] for key in expand(shifts, list(opened))}


def _check_opened(name: str, opened: Any) -> None:
    """Refuse what is not shifts by name: loaders of ours never return it, a user's may."""
    if not isinstance(opened, dict) or not opened:
        raise TemporaError(
            f"dataset {name!r}: its function returned {opened!r:.60}; expected shifts by name, "
            "{'fog': Shift, ...} (tempora_tta.data.array_shift and from_dataset make one)"
        )
    for key, shift in opened.items():
        if not isinstance(shift, Shift):
            raise TemporaError(
                f"dataset {name!r}: its shift {key!r} is a {type(shift).__name__}; expected a Shift "
                "(tempora_tta.data.array_shift and from_dataset make one)"
            )
        if shift.name != key:
            raise TemporaError(
                f"dataset {name!r}: its shift {key!r} calls itself {shift.name!r}; use one name"
            )


def _expectation(card: Dataset) -> str:
    how = f"`tempora data fetch {card.name}`, or by hand from" if card.archives else "see"
    return f"{card.name} is expected like this ({how} {card.source}):\n{indent(card.layout, '  ')}"
