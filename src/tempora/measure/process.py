"""Settling the process before anything is timed, so that the first batches cost what later ones do.

On Linux a process that has never held much memory gets it from the kernel page by page and gives it back between
batches: the same forward pass was seen to take twice as long until the allocator kept its memory.
"""

from __future__ import annotations

import ctypes
import os
import sys

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


def stolen_seconds() -> float:
    """Seconds that the hypervisor took from this machine's processors so far; 0 where unreadable."""
    try:
        with open("/proc/stat", encoding="ascii") as stat:
            return int(stat.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError, AttributeError):
        return 0.0
