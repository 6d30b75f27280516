"""How many images come at once, which lambda and the costs of a method's work depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from tempora_tta.scenarios import Resolved


@dataclass
class Sizes:
    """The size of a batch that lambda and costs were measured on. They hold for no other."""

    measured_on: int | None
    """Images of a batch; None: nobody said, and the first batch will show it."""
    collected: int
    """How many single images make a batch."""
    resolved: Callable[[Tensor], Resolved]
    """The deployment, with lambda of such a batch."""
    lambda_given: bool = False
    """Then no batch is measured on, and a time-aware method begins without costs if nobody said its size."""
    _said: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the next batch is to be measured on."""
        return self.measured_on is None and not self.lambda_given

    def differing(self, single: bool, images: int) -> str | None:
        """What to say about a request of another size than was measured on; the first time only. Images that are
        collected count as the batch that they are to fill."""
        arriving = self.collected if single else images
        if self._said or self.measured_on in (None, arriving):
            return None
        self._said = True
        return (
            f"a batch of {arriving} came, and lambda and what work costs were measured on {self.measured_on}: "
            "thresholds, budgets and what a time-aware method decides are off. Deploy with example=, a batch like "
            "those to come"
        )
