"""A method of your own in thirty lines: correct the predictions for how often each class was predicted so far.

    tempora check custom_method:PriorCorrection
    tempora run --methods standard,adabn,custom_method:PriorCorrection --shifts contrast --batches 20

Both are run from the folder that holds this file.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tempora_tta.methods import Method, Settings, register, setting


@dataclass(frozen=True, kw_only=True)
class PriorSettings(Settings):
    """strength: how much of the correction to apply. momentum: weight of the past in the running average."""

    strength: float = setting(0.5, low=0, high=1)
    momentum: float = setting(0.9, low=0, high=1)


@register
class PriorCorrection(Method):
    """A network under shift favours a few classes: take the log of each class's running share off its logit."""

    name = "prior_correction"
    label = "Prior correction"
    modifies = ("output",)
    Settings = PriorSettings
    state = ("prior",)  # what changes: saved, restored and reset by the base class

    def setup(self) -> None:
        classes = self.model.num_classes
        self.prior = torch.full((classes,), 1 / classes, device=self.model.device, dtype=self.model.dtype)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        logits = self.model(x)
        self.pending = None if self.frozen else logits.softmax(dim=1).mean(dim=0)
        return logits - self.settings.strength * self.prior.log()

    @torch.no_grad()
    def adapt(self) -> str:
        seen, self.pending = self.pending, None
        if seen is None:
            return "none"
        if not seen.isfinite().all():
            return "non_finite"
        momentum = self.settings.momentum
        self.prior = momentum * self.prior + (1 - momentum) * seen
        return "step"
