"""One writer per run folder. The operating system drops the lock when its process ends, however it ends."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from tempora_tta.errors import TemporaError


class FolderLock:
    """Held from construction until `release`."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file: IO[str] = open(folder / "run.lock", "a+", encoding="utf-8")  # noqa: SIM115  # held open
        except OSError as error:
            raise TemporaError(
                f"cannot write to {folder / 'run.lock'}: {error.strerror or error}; "
                "make it writable, or give another --out"
            ) from error
        try:
            _lock(self._file)
        except OSError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise TemporaError(
                f"{folder} is in use by another run (process {holder}): wait, stop it, or give another --out"
            ) from None
        with suppress(OSError):  # who holds it is told on a disk with room for that
            os.truncate(self._file.fileno(), 0)
            os.write(self._file.fileno(), str(os.getpid()).encode())

    def release(self) -> None:
        self._file.close()


if os.name == "nt":
    import msvcrt

    def _lock(file: IO[str]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
else:
    import fcntl

    def _lock(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
