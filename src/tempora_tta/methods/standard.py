"""Standard inference: the network as it is."""

from __future__ import annotations

import torch
from torch import Tensor

from tempora_tta.methods import Method, register


@register
class Standard(Method):
    """No adaptation: the baseline of everything else."""

    name = "standard"
    label = "Standard"
    history_free = True
    stateless = True
    repeats = True

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        return self.model(x)
