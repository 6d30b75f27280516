"""The way that every method is profiled along: the same few batches of up to four shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tempora_tta.data import Order, Streams
from tempora_tta.engine.job import Job

FIT_SHIFTS, CHECK_SHIFTS = 3, 1
STATIONS = 12
"""On the way, whether of one shift or of four: enough for a line over the amounts that the work comes in."""


@dataclass(frozen=True)
class Station:
    """One batch on the way."""

    place: int
    shift: str
    x: Tensor
    first: bool
    """Of its shift."""
    last: bool
    checks: bool
    """Kept apart from the fit."""


def stations(job: Job) -> list[Station]:
    """The first batches of up to four shifts; the fourth is kept apart to check the fits on."""
    way: list[Station] = []
    for position, (shift, batches) in enumerate(profiled_batches(job).items()):
        for index, (x, _) in enumerate(batches):
            last = index == len(batches) - 1
            way.append(Station(len(way), shift, x, index == 0, last, checks=position >= FIT_SHIFTS))
    return way


def batches_per_shift(job: Job) -> int:
    """How many of each shift are looked at: the more, the fewer shifts there are."""
    shifts = {segment.shift for order in job.streams for segment in order.segments}
    return math.ceil(STATIONS / min(len(shifts), FIT_SHIFTS + CHECK_SHIFTS))


def profiled_batches(job: Job) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """The first batches of up to four shifts, spread over all of them: those next to each other are alike.

    A stream of many shifts is looked into where each of them begins.
    """
    places: dict[str, tuple[Order, int, int]] = {}
    for order in job.streams:
        for segment in order.segments:
            places.setdefault(segment.shift, (order, segment.first, segment.batches))
    shifts, most = list(places), FIT_SHIFTS + CHECK_SHIFTS
    if len(shifts) > most:
        *fitted, check, last = (shifts[round(step * (len(shifts) - 1) / (most - 1))] for step in range(most))
        shifts = [*fitted, last, check]
    found, streams = {}, Streams(job.open_stream)
    for shift in shifts:
        order, first, count = places[shift]
        stream = streams.open(order)
        found[shift] = [
            (stream.batch(index).clone(), torch.from_numpy(stream.labels(index)))
            for index in range(first, first + min(batches_per_shift(job), count))
        ]
    streams.close()
    return found
