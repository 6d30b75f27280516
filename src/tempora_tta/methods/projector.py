"""A linear map between features and classifier, the identity at first, for SPA and ZeroSIAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from tempora_tta.methods.gradient import GradientMethod, GradientSettings, fill
from tempora_tta.methods.search import Times
from tempora_tta.methods.settings import setting
from tempora_tta.models import Classifier

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, kw_only=True)
class ProjectorSettings(GradientSettings):
    """projector_lr: of the projector; lr is that of the norm layers. Both follow the network's family."""

    projector_lr: float | None = setting(None, above=0, search=Times(30))

    default_projector_lr: ClassVar[dict[str, float]]

    def resolved(self, model: Classifier) -> Self:
        return fill(super().resolved(model), projector_lr=self.default_projector_lr[model.family])


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

    def groups(self) -> list[tuple[list[Tensor], float]]:
        *norms, projector = self.trainable.values()
        return [(norms, self.settings.lr), ([projector], self.settings.projector_lr)]

    def projected_logits(self, f: Tensor) -> Tensor:
        """head(W f)."""
        return self.model.head(linear(f, self.projector))
