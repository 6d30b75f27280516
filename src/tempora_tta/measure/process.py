"""Settling the process before anything is timed, so that the first batches cost what later ones do.

On Linux a process that has never held much memory gets it from the kernel page by page and gives it back between
batches: the same forward pass was seen to take twice as long until the allocator kept its memory.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import NamedTuple

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory instead of returning it. False where there is no glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    # mmap's threshold is an int and capped by glibc at 32 MiB on 64-bit systems; trimming has no such cap.
    return bool(mallopt(_M_MMAP_THRESHOLD, 32 << 20)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES))


def page_faults() -> int:
    """Minor page faults of this process so far; 0 where the system does not count them."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class ProcessorTime(NamedTuple):
    """Clock ticks of all of this machine's processors since it started."""

    busy: int
    stolen: int
    """Wanted, and taken by the hypervisor for other machines."""

    @classmethod
    def now(cls) -> ProcessorTime:
        """Zeros where the system does not tell."""
        try:
            with open("/proc/stat", encoding="ascii") as stat:
                user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
        except (OSError, ValueError):
            return cls(0, 0)
        return cls(user + nice + system + irq + softirq, steal)

    @staticmethod
    def ticks_per_second() -> int:
        return os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

    def stolen_since(self, before: ProcessorTime) -> float:
        """Share of the time wanted in between that was stolen. Idle processors, however many, do not dilute it.

        >>> ProcessorTime(busy=1095, stolen=26).stolen_since(ProcessorTime(busy=1000, stolen=20))
        0.05
        """
        busy = self.busy - before.busy
        stolen = max(0, self.stolen - before.stolen - 1)  # a tick more or less is how they are counted
        return stolen / (busy + stolen) if stolen else 0.0
