"""A linear map between features and classifier, the identity at first, for SPA and ZeroSIAM."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from tempora_tta.methods.gradient import GradientMethod


class ProjectorMethod(GradientMethod):
    """Norm affine and a projector W (features x features, no bias), on networks without BatchNorm."""

    def setup(self) -> None:
        self.refuse_batchnorm("it compares views sample by sample")
        super().setup()

    def select(self) -> dict[str, nn.Parameter]:
        norms = super().select()
        if not norms:
            return {}
        size = self.model.num_features
        self.projector = nn.Parameter(torch.eye(size, device=self.model.device, dtype=self.model.dtype))
        return {**norms, "projector": self.projector}

    def groups(self) -> list[dict[str, Any]]:
        *norms, projector = self.parameters
        return [
            {"params": norms, "lr": self.settings.lr},
            {"params": [projector], "lr": self.settings.projector_lr},
        ]

    def projected_logits(self, f: Tensor) -> Tensor:
        """head(W f)."""
        return self.model.head(linear(f, self.projector))
