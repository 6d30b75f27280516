"""A clock that only moves when a method works or a test says so, and methods that take their time on it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn

from tempora_tta import models
from tempora_tta.methods import Method


class FakeClock:
    """Moved by the method at work. On the way the arrivals that fall into that time come in, with those of the very
    instant in which the work ends."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.arrivals: list[float] = []
        self.arrive: Callable[[], None] = lambda: None
        self._now_ms = 0.0

    def now_ms(self) -> float:
        return self._now_ms

    def wait(self, condition: threading.Condition, timeout_ms: float) -> None:
        condition.wait(0.002)  # looks again at the fake time, which is all that decides

    def advance(self, by_ms: float) -> None:
        with self.lock:
            until_ms = self._now_ms + by_ms
            while self.arrivals and self.arrivals[0] <= until_ms:
                self._now_ms = self.arrivals.pop(0)
                self.arrive()
            self._now_ms = until_ms

    def to_next_arrival(self) -> None:
        """Nothing is at work: all arrivals of the next instant come."""
        with self.lock:
            self._now_ms = self.arrivals[0]
            while self.arrivals and self.arrivals[0] == self._now_ms:
                self.arrivals.pop(0)
                self.arrive()


def tiny_network() -> models.Classifier:
    """Images of one channel and 2 x 2 pixels, three classes."""
    parts = OrderedDict(flat=nn.Flatten(), head=nn.Linear(4, 3))
    return models.wrap(nn.Sequential(parts), features="flat", head="head")


def image(value: float = 1.0) -> torch.Tensor:
    return torch.full((1, 2, 2), value)


def numbered(index: int, size: int = 1) -> torch.Tensor:
    """A batch that says which one it is."""
    return torch.full((size, 1, 2, 2), float(index))


class Scripted(Method):
    """Takes as long as its lists say for each batch, and predicts the batch's number modulo 3."""

    name = "scripted"
    state = ("adapted",)
    clock: FakeClock
    predict_ms: list[float]
    adapt_ms: list[float]
    frozen_ms: list[float]

    def setup(self) -> None:
        self.adapted = 0

    @torch.no_grad()
    def predict(self, x):
        self.index = int(x[0, 0, 0, 0])
        self.clock.advance((self.frozen_ms if self.frozen else self.predict_ms)[self.index])
        return nn.functional.one_hot(torch.full((len(x),), self.index % 3), 3).float()

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        self.clock.advance(self.adapt_ms[self.index])
        self.adapted += 1
        return "step"


class ScriptedStandard(Scripted):
    """Standard on the same clock."""

    name = "standard"

    @torch.no_grad()
    def predict(self, x):
        index = int(x[0, 0, 0, 0])
        self.clock.advance(self.frozen_ms[index])
        return nn.functional.one_hot(torch.full((len(x),), index % 3), 3).float()

    def adapt(self) -> str:
        return "none"
