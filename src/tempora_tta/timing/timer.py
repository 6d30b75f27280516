"""Timing of a piece of work for a profile: in processor or device time, and in wall time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch

from tempora_tta.timing.device import synchroniser
from tempora_tta.timing.machine import ProcessorTime
from tempora_tta.timing.work import Sample

T = TypeVar("T")

CPU_TIME, DEVICE_TIME, WALL_TIME = "process CPU time", "device time", "wall time"
CLEAN_CPU_SHARE = 0.97
"""Share of wall time: a thread that is never interrupted has the processor all the time."""
FOREIGN_SHARE = 0.05
"""Of the machine's busy time, what others may have used while several threads were timed."""
CLEAN_DEVICE_X = 1.05
"""A GPU that another process uses too shows in its standard inference."""


class Elapsed(NamedTuple):
    ms: float
    wall_ms: float


class Timer:
    """`ms` is the processor time of one thread on a CPU, wall time of several, and synchronised time elsewhere."""

    def __init__(self, device: torch.device, threads: int) -> None:
        self._wait = synchroniser(device)
        if device.type != "cpu":
            self.what = DEVICE_TIME
        else:
            self.what = CPU_TIME if threads == 1 else WALL_TIME

    def time(self, work: Callable[[], T]) -> tuple[T, Elapsed]:
        self._wait()
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        result = work()
        self._wait()
        cpu_ms = (time.process_time_ns() - cpu) / 1e6
        wall_ms = (time.perf_counter_ns() - wall) / 1e6
        return result, Elapsed(cpu_ms if self.what == CPU_TIME else wall_ms, wall_ms)


class RoundWatch:
    """Check that the processor was ours during a round. A GPU's rounds are told apart later, by their standard
    inference."""

    def __init__(self, timer: Timer) -> None:
        self._what = timer.what
        self._all, self._own_s = ProcessorTime.now(), time.process_time()

    def clean(self, samples: Sequence[Sample]) -> bool:
        if self._what == CPU_TIME:
            wall_ms = sum(sample.wall_ms for sample in samples)
            return wall_ms > 0 and sum(sample.ms for sample in samples) >= CLEAN_CPU_SHARE * wall_ms
        if self._what == WALL_TIME:
            now = ProcessorTime.now()
            own = (time.process_time() - self._own_s) * ProcessorTime.ticks_per_second()
            busy = now.busy - self._all.busy
            return now.stolen_since(self._all) == 0 and busy - own <= FOREIGN_SHARE * max(busy, 1) + 2
        return True


def clean_device_rounds(standard_ms: list[float]) -> list[bool]:
    """Rounds of a GPU that were its own: their standard inference took about as long as in the quicker half.

    >>> clean_device_rounds([10.0, 10.1, 10.2, 14.0])
    [True, True, True, False]
    """
    usual = sorted(standard_ms)[len(standard_ms) // 2]
    return [ms <= CLEAN_DEVICE_X * usual for ms in standard_ms]
