"""Unpacking tar archives that come from the network."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from tempora_tta.errors import TemporaError

_CHUNK_BYTES = 1 << 20


def unpack(archive: Path, folder: Path) -> int:
    """Unpack into `folder`; returns the number of files.

    Nothing is written unless the whole archive is sound (`check`). Only plain files and folders below `folder` are
    written: datasets have no use for anything else.
    """
    check(archive)
    files = 0
    try:
        with tarfile.open(archive) as tar:
            for member in _members(tar):
                target = folder / member.name
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    _write(tar, member, target)
                    files += 1
    except OSError as error:
        place = error.filename or folder
        raise TemporaError(
            f"{archive} cannot be unpacked into {folder} ({place}: {error.strerror}): make room there, or name "
            "another folder"
        ) from error
    return files


def check(archive: Path) -> None:
    """Refuse an archive that is damaged, or that holds what must not be written.

    It is read to its very end: only there do gzip and xz say whether what came before was right.
    """
    files: set[PurePosixPath] = set()
    folders: set[PurePosixPath] = set()
    try:
        with tarfile.open(archive) as tar:
            for member in _members(tar):
                path = PurePosixPath(member.name)
                if problem := _harm(member) or _clash(member, path, files, folders):
                    raise TemporaError(
                        f"{archive}: {member.name!r} {problem}: nothing was written; fetch the archive from its "
                        "official source"
                    )
                (folders if member.isdir() else files).add(path)
                folders.update(path.parents)
            _read_to_the_end(tar)
    except TemporaError:
        raise
    except Exception as error:  # tarfile and what decompresses raise whatever they trip over
        reason = "it is no tar archive" if "could not be opened" in str(error) else error
        raise TemporaError(
            f"{archive} cannot be unpacked ({reason}): it is cut short or damaged; delete it and fetch it again"
        ) from error


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Everything in the archive. tarfile would remember every member: of ImageNet-C a gigabyte."""
    while (member := tar.next()) is not None:
        tar.members.clear()  # type: ignore[attr-defined]  # the stubs leave it out
        yield member


def _harm(member: tarfile.TarInfo) -> str | None:
    """What is wrong with where or what a member is."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(member.name).drive or "\\" in member.name:
        return "leads out of its folder"
    if "\0" in member.name or not path.name:
        return "is no name that a file can have"
    if not (member.isreg() or member.isdir()) or member.issparse():
        return "is neither a file nor a folder but a link or a device"
    return None


def _clash(
    member: tarfile.TarInfo,
    path: PurePosixPath,
    files: set[PurePosixPath],
    folders: set[PurePosixPath],
) -> str | None:
    if not files.isdisjoint(path.parents) or path in (files if member.isdir() else folders):
        return "is a file and a folder at once"
    return None


def _read_to_the_end(tar: tarfile.TarFile) -> None:
    """Nothing but zeros may follow the last member: tarfile takes a damaged header for the end."""
    stream = tar.fileobj
    assert stream is not None
    stream.seek(tar.offset)
    end = stream.read(tarfile.BLOCKSIZE)
    if len(end) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError("its end is missing")
    while end:
        if end.count(0) < len(end):
            raise tarfile.ReadError("a header in it is damaged, or something follows its end")
        end = stream.read(_CHUNK_BYTES)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Write under another name and rename: a file that bears its name is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    content = tar.extractfile(member)
    assert content is not None
    with content, part.open("wb") as file:
        shutil.copyfileobj(content, file, _CHUNK_BYTES)
    os.replace(part, target)
