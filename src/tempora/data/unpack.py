"""Unpacking tar archives that come from the network."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath

from tempora.errors import TemporaError


def unpack(archive: Path, folder: Path) -> int:
    """Unpack into `folder`; returns the number of files.

    Only plain files and folders below `folder` are written. Anything else (absolute paths, `..`, links,
    devices) ends it with an error: datasets have no use for them.
    """
    files = 0
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                target = folder / _safe(member, archive)
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    _write(tar, member, target)
                    files += 1
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TemporaError(f"{archive} cannot be unpacked ({error}): delete it and fetch it again") from error
    return files


def _safe(member: tarfile.TarInfo, archive: Path) -> PurePosixPath:
    """Where a member may go, relative to the folder."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(member.name).drive or "\\" in member.name:
        problem = "leads out of its folder"
    elif not (member.isreg() or member.isdir()):
        problem = "is neither a file nor a folder but a link or a device"
    else:
        return path
    raise TemporaError(
        f"{archive}: {member.name!r} {problem}: it was not written, and the rest was left out; "
        "fetch the archive from its official source"
    )


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Write under another name and rename: a file that bears its name is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    content = tar.extractfile(member)
    assert content is not None
    with content, part.open("wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
    os.replace(part, target)
