"""Answering apart from learning: `collect`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tempora_tta.methods.contract import LEARNS, NO_OP, UNTIMED, Did, Method, Moment
from tempora_tta.methods.schedule import Around

COLLECTED, LEARNED = "collected", "learned"


class Apart(Around):
    """A method that answers small batches at once, frozen in the state it has, and learns from them together.

    `settings.collect` images make a batch to learn from. Predicting it belongs to the learning, after the answer of
    the last of them. A batch that is no small one (`Method.learns_apart`) goes through the method as ever.
    """

    history_free = False
    action_in_predict = None
    frozen: bool
    waiting: list[Tensor]
    """Images answered, and not learned from yet."""
    passed_on: bool
    """The present batch goes through the method as ever."""

    def __init__(self, method: Method) -> None:
        vars(self).update(method=method, frozen=False, waiting=[], passed_on=False)
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
        self.passed_on = not (self.frozen or method.learns_apart(len(x)))
        if self.passed_on:
            method.unfreeze()
        elif not self.frozen:
            self.waiting = [*self.waiting, x]
        scores: Tensor = method.predict(x, *moment)
        return scores

    def adapt(self, *moment: Moment) -> str:
        if self.passed_on:
            action: str = self.method.adapt(*moment)
            self._freeze_again()
            return action
        if self.frozen or sum(map(len, self.waiting)) < self.settings.collect:
            return COLLECTED
        x, self.waiting = torch.cat(self.waiting), []
        self.method.unfreeze()
        self.method.predict(x, *moment)
        action = self.method.adapt(*moment)
        self._freeze_again()
        return LEARNED if action in self.method.untimed else action

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
