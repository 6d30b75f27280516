"""Answering apart from learning: frames that are answered at once, and small batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tempora_tta.methods.contract import LEARNS, NO_OP, UNTIMED, Did, Method, Moment
from tempora_tta.methods.schedule import Around

COLLECTED, LEARNED = "collected", "learned"
AT_ONCE = "at once"
"""Begins the mode of work on frames that are answered at once; the number that is learned from follows."""


class Apart(Around):
    """A method that answers images at once, frozen in the state it has, and learns from `size` of them together.

    Predicting those belongs to the learning, after the answer of the last of them. A batch of `below` images or more
    goes through the method as ever.
    """

    history_free = False
    action_in_predict = None
    frozen: bool
    waiting: list[Tensor]
    """Images answered, and not learned from yet."""
    passed_on: bool
    """The present batch goes through the method as ever."""

    def __init__(self, method: Method, size: int, below: float = math.inf) -> None:
        vars(self).update(
            method=method, size=size, below=below, frozen=method.frozen, waiting=[], passed_on=False
        )
        method.freeze()

    @property
    def actions(self) -> Mapping[str, Did]:
        return {**self.method.actions, COLLECTED: NO_OP | UNTIMED, LEARNED: LEARNS}

    @property
    def untimed(self) -> tuple[str, ...]:
        return (*self.method.untimed, COLLECTED)

    def learned(self, action: str) -> bool:
        """True if this action changed what it knows."""
        return action != COLLECTED and self.method.learned(action)

    def predict(self, x: Tensor, *moment: Moment) -> Tensor:
        method = self.method
        self.passed_on = not self.frozen and len(x) >= self.below
        if self.passed_on:
            method.unfreeze()
        elif not self.frozen and method.learns and not method.stateless:  # else learning changes no answer
            self.waiting = [*self.waiting, x]
        scores: Tensor = method.predict(x, *moment)
        self._say(len(x))
        return scores

    def adapt(self, *moment: Moment) -> str:
        if self.passed_on:
            action: str = self.method.adapt(*moment)
            self._freeze_again()
            return action
        if self.frozen:
            return "none"
        if sum(map(len, self.waiting)) < self.size:
            return COLLECTED
        x, *self.waiting = torch.cat(self.waiting).split(self.size)
        self.method.unfreeze()
        self.method.predict(x, *moment)
        action = self.method.adapt(*moment)
        self._freeze_again()
        self._say(self.size)
        return LEARNED if action in self.method.untimed else action

    def _say(self, images: int) -> None:
        """Say what work a deployment asked for that answers at once: any number of frames, or learning."""
        if math.isinf(self.below):
            self.work = (f"{AT_ONCE} {self.size}", float(images))

    def _freeze_again(self) -> None:
        self.passed_on = False
        self.frozen = self.method.frozen  # it may have frozen itself
        self.method.freeze()

    def freeze(self) -> None:
        self.frozen = True
        self.method.freeze()

    def unfreeze(self) -> None:
        self.frozen = False

    def reset(self) -> None:
        self.method.reset()
        self.waiting = []
        self._freeze_again()

    def snapshot(self) -> dict[str, Any]:
        waiting = [x.clone() for x in self.waiting]
        return {"inner": self.method.snapshot(), "waiting": waiting, "frozen": self.frozen}

    def restore(self, saved: dict[str, Any]) -> None:
        self.method.restore(saved["inner"])
        self.method.freeze()
        self.waiting, self.frozen = [x.clone() for x in saved["waiting"]], saved["frozen"]
