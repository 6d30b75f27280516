"""Tent (Wang et al., 2021): minimise the entropy of the predictions."""

from __future__ import annotations

from torch import Tensor

from tempora_tta.methods import register
from tempora_tta.methods.functions import entropy
from tempora_tta.methods.gradient import GradientMethod


@register
class Tent(GradientMethod):
    """Norm affine; loss = mean H."""

    name = "tent"
    label = "Tent"

    def loss(self, x: Tensor, z: Tensor) -> Tensor:
        return entropy(z).mean()
