"""Downloading one file: resumable, verified, and with a way out where there is no network."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tempora_tta.data.registry import Archive
from tempora_tta.errors import TemporaError

_CHUNK_BYTES = 1 << 20
_ATTEMPTS_IN_VAIN = 3
_TIMEOUT_S = 30

ByteProgress = Callable[[str, int, int], None]
"""Called as progress(filename, bytes so far, bytes in all; 0: not known)."""


def download(archive: Archive, folder: Path, progress: ByteProgress | None = None) -> Path:
    """`archive` in `folder`, checked. What is there already, whole or in part, is used.

    A file put there by hand is as good as a downloaded one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / archive.filename
    if not target.is_file():
        part = target.with_name(target.name + ".part")
        _fill(archive.url, part, target, progress)
        os.replace(part, target)
        _tag_file(part).unlink(missing_ok=True)
    check_md5(target, archive)
    return target


def check_md5(path: Path, archive: Archive) -> None:
    """Compare with the published checksum, or with the one noted when the file was first seen.

    A wrong file is set aside, so that the next try starts afresh.
    """
    found, expected = md5_of(path), archive.md5 or noted_md5(path)
    if expected is None:
        note_of(path).write_text(f"{found}  {path.name}\n")  # as md5sum writes and checks it
    elif found != expected:
        aside = path.with_name(path.name + ".wrong")
        os.replace(path, aside)
        origin = "published is" if archive.md5 else f"when first fetched it had, as {note_of(path)} says,"
        raise TemporaError(
            f"{path.name} has MD5 {found}, {origin} {expected}: damaged, or another file. It is "
            f"now called {aside}; fetch again, or download {archive.url} by hand to {path}"
        )


def note_of(path: Path) -> Path:
    """Where the checksum of a file is noted for which none is published."""
    return path.with_name(path.name + ".md5")


def noted_md5(path: Path) -> str | None:
    """The checksum that was noted, if one was."""
    if not note_of(path).is_file():
        return None
    words = note_of(path).read_text(errors="replace").split()
    return words[0] if words else None


def md5_of(path: Path) -> str:
    """The MD5 of a file, as hex: what publishers of datasets state. It guards against damage, not malice."""
    total = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_CHUNK_BYTES):
            total.update(block)
    return total.hexdigest()


def _fill(url: str, part: Path, target: Path, progress: ByteProgress | None) -> None:
    """Download to `part`, going on where an earlier try broke off, for as long as tries bring something."""
    reason: Exception | None = None
    in_vain = 0
    while in_vain < _ATTEMPTS_IN_VAIN:
        before = _size(part)
        try:
            return _attempt(url, part, target.name, progress)
        except urllib.error.HTTPError as error:
            reason = error
            if error.code == 416:  # there is nothing after what we have: not the file that we began
                part.unlink()
            elif error.code < 500:
                break
        except (OSError, http.client.HTTPException) as error:
            reason = error
        in_vain = 0 if _size(part) > before else in_vain + 1
    raise TemporaError(
        f"cannot download {url} ({reason}). The same command goes on where it broke off; without a network, "
        f"download that address by hand, save it as {target} and run the same command again"
    ) from reason


def _attempt(url: str, part: Path, filename: str, progress: ByteProgress | None) -> None:
    have = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "tempora"})
    if have and _tag_file(part).exists():
        # If-Range: the server goes on only if the file is still the same, and else sends all of it.
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", _tag_file(part).read_text())
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        resumed = answer.status == 206
        have = have if resumed else 0
        length = int(answer.headers.get("Content-Length") or 0)
        total = have + length if length else 0
        _remember_tag(part, answer.headers.get("ETag") or answer.headers.get("Last-Modified"))
        with part.open("ab" if resumed else "wb") as file:
            while block := answer.read(_CHUNK_BYTES):
                file.write(block)
                have += len(block)
                if progress is not None:
                    progress(filename, have, total)
    if total and have != total:
        raise OSError(f"the connection broke off after {have} of {total} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _tag_file(part: Path) -> Path:
    """Where the version of a partial file is remembered. Without it the download starts over."""
    return part.with_name(part.name + ".tag")


def _remember_tag(part: Path, tag: str | None) -> None:
    if tag and not tag.startswith("W/"):
        _tag_file(part).write_text(tag)
    else:
        _tag_file(part).unlink(missing_ok=True)
