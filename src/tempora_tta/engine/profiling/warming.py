"""Methods made ready for the rounds of a profile, and what each takes besides time: power, memory, parameters."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle

import numpy as np
import torch

from tempora_tta.engine.job import STANDARD, Job
from tempora_tta.engine.profiling.stations import Station
from tempora_tta.engine.profiling.walker import Walker, walker_of
from tempora_tta.timing.device import (
    energy_joules,
    held_memory_bytes,
    mean_watts,
    peak_memory_bytes,
    reset_peak_memory,
)
from tempora_tta.timing.profile import Spent
from tempora_tta.timing.timer import Timer


class Memory:
    """What is held on a device from now on by whatever is made from now on."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._before = device, held_memory_bytes(device)
        reset_peak_memory(device)

    def peak_bytes(self) -> int | None:
        """None where it cannot be told apart."""
        peak = peak_memory_bytes(self._device)
        return None if peak is None else peak - self._before


def warmed_up(
    job: Job, way: list[Station], timer: Timer, labels: Iterable[str] | None
) -> tuple[list[Walker], dict[str, Spent]]:
    """Every method that can be run, after it has met every shape that its work will have; and what it takes."""
    wanted = None if labels is None else set(labels)
    walkers, spent = [], {}
    for spec in job.methods:
        if (spec.is_standard and spec.label == STANDARD) or (wanted is not None and spec.label not in wanted):
            continue
        memory = Memory(job.device)
        try:
            walker = walker_of(job, spec, job.streams[0].seed, timer)
            _warm_up(walker, way)
            spent[spec.label] = taken_by(walker, way, memory, job.device)
        except Exception:  # it fails again in its own task, which records why
            continue
        walkers.append(walker)
    return walkers, spent


def _warm_up(walker: Walker, way: list[Station]) -> None:
    """A few steps show every shape, unless the amount of work decides them: then the whole way."""
    end = next(position for position, station in enumerate(way) if station.last)
    for station in (*way[: min(2, end)], way[end]):
        walker.step(station, 0)
    if walker.follows_amount:
        for station in way:
            walker.step(station, 0)
    walker.reset()


def taken_by(walker: Walker, way: list[Station], memory: Memory, device: torch.device) -> Spent:
    """Of a warm method, on its way again and again. `memory` was looked at before it was made."""
    peak_bytes, places = memory.peak_bytes(), cycle(way)
    busy_ms: list[float] = []

    def work() -> None:
        station = next(places)
        if station.first:
            walker.reset()
        busy_ms.append(sum(elapsed.ms for _, elapsed in walker.serve(station.x, station.shift, 0)))

    watts = mean_watts(work, lambda: energy_joules(device))
    walker.reset()
    return Spent(
        peak_memory_bytes=peak_bytes,
        watts=watts,
        energy_joules=None if watts is None else watts * float(np.mean(busy_ms)) / 1000,
        updated_parameters=sum(tensor.numel() for tensor in walker.method.trainable.values()),
    )
