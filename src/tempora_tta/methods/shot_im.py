"""SHOT-IM (Liang et al., 2020): be certain about each sample and diverse over the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from tempora_tta.methods import register
from tempora_tta.methods.functions import entropy
from tempora_tta.methods.gradient import GradientMethod, NormSettings
from tempora_tta.methods.norm import SourceStats, norm_affine

EPSILON = torch.finfo(torch.float32).eps
CLASSIFIERS = ("fc", "classifier", "head")
"""Parts of names that the published code takes for a classifier's; timm calls the layers of a ViT's MLPs fc1, fc2."""


@dataclass(frozen=True, kw_only=True)
class SHOTSettings(NormSettings):
    """params: train the feature extractor, its norm layers (with source_stats="reset": SHOT-IM*), or what the
    published code trained, which goes by names and leaves out a ViT's MLPs.
    """

    params: Literal["features", "norm", "published"] = "features"
    source_stats: SourceStats = "keep"

    paper: ClassVar[dict[str, str]] = {"params": "published"}


@register
class SHOTIM(GradientMethod):
    """Every parameter but the classifier's; loss = mean H + sum_c m_c log m_c, m the batch's mean p."""

    name = "shot_im"
    label = "SHOT-IM"
    Settings = SHOTSettings

    def select(self) -> dict[str, nn.Parameter]:
        if self.settings.params == "norm":
            return norm_affine(self.model)
        named = dict(self.model.named_parameters())
        if self.settings.params == "published":
            return {name: p for name, p in named.items() if not any(part in name for part in CLASSIFIERS)}
        classifier = {id(parameter) for parameter in self.model.classifier.parameters()}
        return {name: p for name, p in named.items() if id(p) not in classifier}

    def loss(self, x: Tensor, z: Tensor) -> Tensor:
        m = z.softmax(dim=1).mean(dim=0)
        return entropy(z).mean() + (m * (m + EPSILON).log()).sum()
