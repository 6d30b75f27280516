"""Getting a dataset from its official archive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tempora_tta.data.download import ByteProgress, download, note_of
from tempora_tta.data.registry import Archive, Dataset, data_folder, find
from tempora_tta.data.unpack import unpack
from tempora_tta.errors import TemporaError, unknown


def fetch(
    name: str,
    to: Path | str | None = None,
    only: Sequence[str] = (),
    progress: ByteProgress | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Download, check and unpack dataset `name` below `to` (default: the data folder); returns its folder.

    `only` picks some of its archives by file name. Archives stay in `to`: deleting them is up to the user.
    `say` is told, line by line, what happens.
    """
    card = find(name)
    to = data_folder() if to is None else Path(to).expanduser()
    if to.exists() and not to.is_dir():
        raise TemporaError(f"{to} is a file: say the folder that the data should go to")
    for archive in _chosen(card, only, to):
        say(f"fetching {archive.url}")
        file = download(archive, to if archive.packed else to / archive.into, progress)
        say(f"{file}: {_checked(archive, file)}")
        if archive.packed:
            files = unpack(file, to / archive.into)
            say(f"unpacked {files} files into {to / archive.into}; {file} can be deleted now")
    return to / card.folder


def _checked(archive: Archive, file: Path) -> str:
    if archive.md5:
        return "MD5 as published"
    return f"no checksum is published, so it cannot be verified; its MD5 is noted in {note_of(file).name} for later"


def _chosen(card: Dataset, only: Sequence[str], to: Path) -> list[Archive]:
    if not card.archives and not card.layout:
        raise TemporaError(f"{card.name} needs no fetching: {card.source}")
    if not card.archives:
        place = f"; put it in {to / card.folder}:\n{card.layout}" if card.layout else ""
        raise TemporaError(f"{card.name} cannot be fetched ({card.licence}). See {card.source}{place}")
    by_name = {archive.filename: archive for archive in card.archives}
    for filename in only:
        if filename not in by_name:
            raise unknown(f"archive of {card.name}", filename, by_name)
    return [by_name[filename] for filename in only or by_name]
