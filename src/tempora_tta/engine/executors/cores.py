"""Processor cores of one host, each held by one worker at a time, whoever started it.

A core is a file that its holder keeps locked; the operating system lets go of it when the process ends, however it
ends, so a killed worker leaves nothing behind.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

_held: list[IO[str]] = []
"""Kept open as long as this process lives."""


def claim_cores(count: int) -> list[int] | None:
    """Bind this thread, and those it starts, to `count` cores that no other worker has.

    None, and nothing is bound: the system cannot bind (macOS, Windows), or has no such cores left.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    claimed: dict[int, IO[str]] = {}
    for core in sorted(os.sched_getaffinity(0)):
        if len(claimed) == count:
            break
        file = _locked(core)
        if file is not None:
            claimed[core] = file
    if len(claimed) < count:
        for file in claimed.values():
            file.close()
        return None
    _held.extend(claimed.values())
    os.sched_setaffinity(0, claimed)
    return list(claimed)


def _locked(core: int) -> IO[str] | None:
    import fcntl  # wherever there is sched_setaffinity, there is flock

    folder = Path(tempfile.gettempdir()) / f"tempora-cores-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    file = open(folder / str(core), "w", encoding="ascii")  # noqa: SIM115  # held open
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
