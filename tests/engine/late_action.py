"""A method of a user's own that does something new after a few batches: later than profiling looks."""

from __future__ import annotations

import torch
from torch import Tensor

from tempora_tta.methods import Method

JUMPS_AFTER = 5


class Late(Method):
    name = "late"
    state = ("seen",)

    def setup(self) -> None:
        self.seen = 0

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        return self.model(x)

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        self.seen += 1
        self.work = ("even" if self.seen % 2 == 0 else "odd", float(self.seen))
        return "jump" if self.seen > JUMPS_AFTER else "step"
