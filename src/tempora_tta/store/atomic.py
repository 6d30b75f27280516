"""Files that are whole or absent: written under a temporary name, flushed, then renamed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from tempora_tta.errors import TemporaError

TEMPORARY = ".part"


class CannotWrite(TemporaError):
    """The disk is full, or a folder cannot be written: nothing that follows would fare better."""


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file, then put it in place in one step.

    A full disk is a user's problem, not a crash: whatever was finished before stays as it is. A process killed
    meanwhile leaves the temporary file; whoever writes to a folder next calls `remove_leftovers`.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        write(temporary)
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CannotWrite(
                f"the disk is full: {path.name} could not be written to {path.parent}. Everything finished "
                "before is kept; free some space and run the same command again"
            ) from error
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}; give another place") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Delete temporary files of writers that were killed, in a folder of ours all, elsewhere those of a file `name`.
    One that is still writing keeps its own."""
    for leftover in folder.glob(f"{name}.*{TEMPORARY}"):
        process = leftover.name.split(".")[-2]
        if process.isdigit() and not _writes(int(process)):  # a user's own files may end alike
            leftover.unlink(missing_ok=True)


def _writes(process: int) -> bool:
    """Whether another process of this number is alive. Windows has no way to ask that harms nobody."""
    if process == os.getpid() or os.name == "nt":
        return False
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
