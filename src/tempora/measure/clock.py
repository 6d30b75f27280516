"""Where a pass gets its times from: the device, or a profile recorded earlier.

The engine hands each piece of work to a clock and gets back its result and how long it took. Nothing else in
Tempora reads a clock while a pass runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import torch

from tempora.measure.device import synchroniser
from tempora.measure.process import page_faults
from tempora.measure.profile import Profile

T = TypeVar("T")


class Batch(NamedTuple):
    """Which batch a time belongs to. A recorded time depends on this and the action, on nothing else."""

    method: str
    """As the run calls it."""
    name: str
    """The method itself, whose times stand in for a variant's that were not recorded."""
    shift: str
    seed: int
    index: int
    gradient_based: bool = False
    """Its action `none` is a step left out, which costs nothing unless it was recorded."""
    reforwarded: Callable[[], str] | None = None
    """Of a method whose prediction holds the adaptation and a second forward: what it just did."""


class Clock(Protocol):
    name: str
    """`measured`, or where the recorded times come from; part of what decides a result."""

    def predict(self, work: Callable[[], T], batch: Batch, frozen: bool) -> tuple[T, float]:
        """Run `work`, which predicts a batch; its result and its milliseconds."""

    def adapt(self, work: Callable[[], str], batch: Batch) -> tuple[str, float]:
        """Run `work`, which adapts on a batch; the action it took and its milliseconds."""

    def faults(self) -> int:
        """Page faults so far, -1 under a recorded clock."""


class MeasuredClock:
    """Times the device: both ends of every measurement wait until it has nothing left to do."""

    name = "measured"

    def __init__(self, device: torch.device) -> None:
        self._wait = synchroniser(device)

    def predict(self, work: Callable[[], T], batch: Batch, frozen: bool) -> tuple[T, float]:
        return self.time(work)

    def adapt(self, work: Callable[[], str], batch: Batch) -> tuple[str, float]:
        return self.time(work)

    def time(self, work: Callable[[], T]) -> tuple[T, float]:
        self._wait()
        start = time.perf_counter_ns()
        result = work()
        self._wait()
        return result, (time.perf_counter_ns() - start) / 1e6

    def faults(self) -> int:
        return page_faults()


class RecordedClock:
    """Runs the work and looks its time up in a profile: deterministic, and good for any machine's profile."""

    def __init__(self, profile: Profile) -> None:
        self.name = f"recorded:{profile.fingerprint}"
        self.profile = profile

    def predict(self, work: Callable[[], T], batch: Batch, frozen: bool) -> tuple[T, float]:
        method, where = self._recorded(batch), (batch.shift, batch.seed, batch.index)
        result, predict_ms = work(), self.profile.predict_ms(method, frozen, *where)
        action = batch.reforwarded() if batch.reforwarded and self._from_plain(batch) else "none"
        if action != "none":
            predict_ms += self.profile.adapt_ms(method, action, *where) + predict_ms
        return result, predict_ms

    def adapt(self, work: Callable[[], str], batch: Batch) -> tuple[str, float]:
        action = work()
        method, where = self._recorded(batch), (batch.shift, batch.seed, batch.index)
        left_out = action == "none" and batch.gradient_based and "none" not in self.profile.actions(method)
        if left_out or (batch.reforwarded and self._from_plain(batch)):
            return action, 0.0
        return action, self.profile.adapt_ms(method, action, *where)

    def _recorded(self, batch: Batch) -> str:
        return batch.method if batch.method in self.profile.methods else batch.name

    def _from_plain(self, batch: Batch) -> bool:
        """Whether a reforwarded method's times have to be put together from those of the plain one."""
        return not self.profile.methods[self._recorded(batch)].reforward

    def faults(self) -> int:
        return -1
