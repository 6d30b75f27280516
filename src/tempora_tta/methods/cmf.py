"""CMF (Lee et al., 2024): weighted, consistent updates, and a Kalman filter that remembers the source."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tempora_tta.methods import by_family, register
from tempora_tta.methods.gradient import RATE, NormSettings, TrackSettings
from tempora_tta.methods.views import random_resized_crops
from tempora_tta.methods.weighted import WeightedMethod

REVERSION = 0.99  # of the hidden state to the source, and of the weights to the hidden state
LEAST_TRUST = 0.89  # of the filter in its hidden state
FULL_TRUST = 0.9999


@dataclass(frozen=True, kw_only=True)
class CMFSettings(NormSettings, TrackSettings):
    """noise: of the Kalman filter."""

    lr: float = by_family(cnn=2e-4, vit=2.5e-4, **RATE)
    noise: float = by_family(cnn=2.5e-4, vit=5e-3, above=0, high=1)


@register
class CMF(WeightedMethod):
    """Weights and consistency as in `weighted`; the view is a crop, the memory a Kalman filter."""

    name = "cmf"
    label = "CMF"
    Settings = CMFSettings
    state = ("hidden", "variance")

    def setup(self) -> None:
        super().setup()
        self.hidden = [w.clone() for w in self.source_weights]  # h
        self.variance = 0.0  # v

    def view(self, x: Tensor) -> Tensor:
        return random_resized_crops(x, self.generator)

    def remember_source(self) -> None:
        """The Kalman filter blends hidden state and weights, each with the other."""
        w, noise = self.parameters, self.settings.noise
        torch._foreach_lerp_(self.hidden, self.source_weights, 1 - REVERSION)
        variance = REVERSION**2 * self.variance + noise
        trust = (1 - noise) / (variance + 1 - noise)
        trust = 1.0 if trust >= FULL_TRUST else max(trust, LEAST_TRUST)
        self.variance = trust * variance
        torch._foreach_lerp_(self.hidden, w, 1 - trust)
        torch._foreach_lerp_(w, self.hidden, 1 - REVERSION)
