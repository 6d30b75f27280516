"""Getting a dataset from its official archive: download, check, unpack."""

from __future__ import annotations

import hashlib
import http.client
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from tempora_tta.data.registry import Archive, Dataset, data_folder, find
from tempora_tta.errors import TemporaError, unknown

_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 30

ByteProgress = Callable[[str, int, int], None]
"""Called as progress(filename, bytes so far, bytes in all; 0: not known)."""


def fetch(
    name: str,
    to: Path | str | None = None,
    only: Sequence[str] = (),
    progress: ByteProgress | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Download, check and unpack dataset `name` below `to` (default: the data folder); return its folder.

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
        say(
            f"{file}: {'MD5 as published' if archive.md5 else 'not verified, since no checksum is published'}"
        )
        if archive.packed:
            files = unpack(file, to / archive.into)
            say(f"unpacked {files} files into {to / archive.into}; {file} can be deleted now")
    return to / card.folder


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


def download(archive: Archive, folder: Path, progress: ByteProgress | None = None) -> Path:
    """Put `archive` into `folder` and check it. A file that is there already, by hand perhaps, is only checked."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / archive.filename
    if not target.is_file():
        part = target.with_name(target.name + ".part")
        try:
            _fill(archive, part, progress)
        except (OSError, http.client.HTTPException) as error:
            raise TemporaError(
                f"cannot download {archive.url} ({error}). The same command goes on where it broke off; without a "
                f"network, download that address by hand, save it as {target} and run the same command again"
            ) from error
        os.replace(part, target)
    if archive.md5 and (found := _md5(target)) != archive.md5:
        aside = target.with_name(target.name + ".wrong")
        os.replace(target, aside)
        raise TemporaError(
            f"{target.name} has MD5 {found}, published is {archive.md5}: damaged, or another file. It is now called "
            f"{aside}; fetch again, or download {archive.url} by hand to {target}"
        )
    return target


def _fill(archive: Archive, part: Path, progress: ByteProgress | None) -> None:
    """Download to `part`. What an earlier try left is kept where a checksum can tell that the rest fits it."""
    have = part.stat().st_size if archive.md5 and part.exists() else 0
    resume = {"Range": f"bytes={have}-"} if have else {}
    request = urllib.request.Request(archive.url, headers={"User-Agent": "tempora", **resume})
    try:
        answer = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if have and error.code == 416:  # nothing follows: it is whole, or its checksum is wrong
            return
        raise
    with answer, part.open("ab" if answer.status == 206 else "wb") as file:
        have = have if answer.status == 206 else 0
        length = int(answer.headers.get("Content-Length") or 0)
        total = have + length if length else 0
        while block := answer.read(_CHUNK_BYTES):
            file.write(block)
            have += len(block)
            if progress is not None:
                progress(archive.filename, have, total)
    if total and have != total:
        raise OSError(f"the connection broke off after {have} of {total} bytes")


def _md5(path: Path) -> str:
    """The MD5 of a file, which publishers of datasets state. It guards against damage, not malice."""
    total = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_CHUNK_BYTES):
            total.update(block)
    return total.hexdigest()


def unpack(archive: Path, folder: Path) -> int:
    """Unpack a tar archive into `folder`; return the number of files.

    tarfile's data filter refuses members that would leave the folder, and devices.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = 0
    try:
        with tarfile.open(archive) as tar:
            while (member := tar.next()) is not None:
                tar.extract(member, folder, filter="data")
                files += member.isfile()
                tar.members.clear()  # type: ignore[attr-defined]  # those of ImageNet-C would fill a gigabyte
            while tar.fileobj is not None and tar.fileobj.read(_CHUNK_BYTES):
                pass  # gzip has its checksum at the end
    except (
        Exception
    ) as error:  # tarfile and the decompressors raise many kinds of errors on a damaged archive
        raise TemporaError(
            f"{archive} cannot be unpacked into {folder} ({error}): make room there if the disk is full; else the "
            "archive is cut short or damaged: delete it and fetch it again"
        ) from error
    return files
