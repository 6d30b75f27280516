"""ROID (Marsden et al., 2024): weighted, consistent updates, and weights drawn back to the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tempora_tta.methods import by_classes, register, setting
from tempora_tta.methods.gradient import RATE, NormSettings, OptimizerName, TrackSettings
from tempora_tta.methods.views import Draws, Jitter
from tempora_tta.methods.weighted import WeightedMethod, smoothed_prior


@dataclass(frozen=True, kw_only=True)
class ROIDSettings(NormSettings, TrackSettings):
    """Memory of the source, and the batch's prior.

    source_weight: how far each step draws the weights back to the source.
    prior: the smoothed prior multiplies logits, as published, or probabilities, as Bayes' rule has it, or none.
    draws: whether a view's random draws are shared by the batch or made per sample.
    """

    optimizer: OptimizerName = by_classes({10: "adam", 100: "adam", 1000: "nesterov"}, vit="nesterov")
    lr: float = by_classes({10: 1e-3, 100: 1e-3, 1000: 2.5e-4}, vit=2.5e-4, **RATE)
    source_weight: float = setting(0.01, low=0, high=1)
    prior: Literal["logits", "probabilities", "none"] = "logits"
    draws: Draws = "batch"


@register
class ROID(WeightedMethod):
    """Weights and consistency as in `weighted`; the view is a jittered one; w = 0.99 w + 0.01 source."""

    name = "roid"
    label = "ROID"
    Settings = ROIDSettings
    state = ("dice",)

    def setup(self) -> None:
        super().setup()
        self.jitter = Jitter(self.model, self.name, padding="reflection", soften=False)
        self.dice = torch.Generator().manual_seed(self.seed)

    def scores(self, z: Tensor) -> Tensor:
        if self.settings.prior == "none":
            return z
        return super().scores(z) if self.settings.prior == "logits" else z + smoothed_prior(z).log()

    def view(self, x: Tensor) -> Tensor:
        return self.jitter(x, self.dice, self.generator, self.settings.draws)

    def remember_source(self) -> None:
        torch._foreach_lerp_(self.parameters, self.source_weights, self.settings.source_weight)
