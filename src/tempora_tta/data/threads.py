"""Threads for work on many files: reading, hashing and decoding happen outside the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Progress = Callable[[int, int], None]
"""Called as progress(done, total) while files are read or decoded."""


def default_workers() -> int:
    """Count the cores that this process may use, up to 8: more threads wait for the interpreter's lock."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None
) -> Iterator[Result]:
    """Yield `work(item)` for each item, in order. `workers` is the number of threads; None: one per core, 0: none."""
    workers = default_workers() if workers is None else workers
    if not workers or len(items) < 2:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(work, items)
    finally:  # after an error, or when the caller takes no more, what has not begun is not done
        pool.shutdown(cancel_futures=True)


def blocks(length: int, size: int) -> list[slice]:
    """Cut range(length) into slices of `size`; the last may be shorter.

    >>> blocks(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]
