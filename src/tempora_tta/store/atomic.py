"""Files that are whole or absent: written under a temporary name, flushed, then renamed."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tempora_tta.errors import TemporaError

TEMPORARY = ".part"
_PROCESS = uuid.uuid4().hex[:8]
"""Tells this process from an earlier one of the same number: in a container every process is number 1."""
_NUMBERS = itertools.count()


class CannotWrite(TemporaError):
    """The disk is full, or a folder cannot be written: nothing that follows would fare better."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, then put it in place in one step.

    Only a regular file is replaced. Every call has a temporary file of its own, so that threads which write to one
    path do not meet. A full disk is a user's problem, not a crash: what was finished before stays as it is. A process
    killed meanwhile leaves the temporary file; the next writer to the folder calls `remove_leftovers`.
    """
    check_replaceable(path)
    temporary = path.with_name(f"{path.name}.{_PROCESS}-{next(_NUMBERS)}.{os.getpid()}{TEMPORARY}")
    try:
        write(temporary)
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if not isinstance(error, OSError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CannotWrite(
                f"the disk is full: {path.name} could not be written to {path.parent}. Everything finished "
                "before is kept; free some space and run the same command again"
            ) from error
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}; give another place") from error


def check_replaceable(path: Path) -> None:
    """Refuse a path at which something other than a regular file stands: a device or a link is never replaced."""
    if not os.path.lexists(path):
        return
    mode = os.lstat(path).st_mode
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a named pipe"}
        raise CannotWrite(
            f"{path} cannot be written: it is {kinds.get(stat.S_IFMT(mode), 'a device or a socket')}, and only a "
            "regular file is replaced; name another place"
        )


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Delete temporary files of writers that were killed, in a folder of ours all, elsewhere those of a file `name`.
    One that is still writing keeps its own."""
    for leftover in folder.glob(f"{name}.*{TEMPORARY}"):
        writer, process = leftover.name.split(".")[-3:-1]
        if process.isdigit() and not _is_at_work(writer, int(process)):  # a user's own files may end alike
            leftover.unlink(missing_ok=True)


def _is_at_work(writer: str, process: int) -> bool:
    """Tell a writer that may still be writing. Windows cannot be asked about another process without harm to it."""
    if process == os.getpid() or os.name == "nt":
        return writer.startswith(_PROCESS)
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _flush(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows has no handle to a folder to flush
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
