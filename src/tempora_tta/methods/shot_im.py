"""SHOT-IM (Liang et al., 2020): be certain about each sample and diverse over the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from tempora_tta.methods import register
from tempora_tta.methods.functions import entropy
from tempora_tta.methods.gradient import GradientMethod, NormSettings
from tempora_tta.methods.norm import SourceStats, norm_affine

EPSILON = torch.finfo(torch.float32).eps


@dataclass(frozen=True, kw_only=True)
class SHOTSettings(NormSettings):
    """params: train the feature extractor, or its norm layers (with source_stats="reset": SHOT-IM*)."""

    params: Literal["features", "norm"] = "features"
    source_stats: SourceStats = "keep"


@register
class SHOTIM(GradientMethod):
    """Every parameter but the classifier's; loss = mean H + sum_c m_c log m_c, m the batch's mean p."""

    name = "shot_im"
    label = "SHOT-IM"
    Settings = SHOTSettings

    def select(self) -> dict[str, nn.Parameter]:
        if self.settings.params == "norm":
            return norm_affine(self.model)
        classifier = {id(parameter) for parameter in self.model.classifier.parameters()}
        return {name: p for name, p in self.model.named_parameters() if id(p) not in classifier}

    def loss(self, x: Tensor, z: Tensor) -> Tensor:
        m = z.softmax(dim=1).mean(dim=0)
        return entropy(z).mean() + (m * (m + EPSILON).log()).sum()
