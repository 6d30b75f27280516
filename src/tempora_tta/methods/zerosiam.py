"""ZeroSIAM (Chen et al., 2026): minimise entropy behind a projector that must agree with the clean branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tempora_tta.methods import by_family, register
from tempora_tta.methods.functions import entropy, kl
from tempora_tta.methods.gradient import RATE, GradientSettings
from tempora_tta.methods.projector import ProjectorMethod


@dataclass(frozen=True, kw_only=True)
class ZeroSIAMSettings(GradientSettings):
    """projector_lr: of the projector; lr is that of the norm layers.

    passes: one run of the backbone for both branches, or two, as in the published timings.
    """

    lr: float = by_family(cnn=2.5e-3, vit=5e-3, **RATE)
    projector_lr: float = by_family(cnn=2.5e-2, vit=5e-3, **RATE)
    passes: Literal[1, 2] = 1

    paper: ClassVar[dict[str, int]] = {"passes": 2}


@register
class ZeroSIAM(ProjectorMethod):
    """z = head(f), z' = head(W f); loss = mean H(z') + mean (KL(p || p') + KL(p' || p)), p detached."""

    name = "zerosiam"
    label = "ZeroSIAM"
    Settings = ZeroSIAMSettings

    @property
    def keeps_graph(self) -> bool:
        passes: int = self.settings.passes
        return passes == 1

    def forward(self, x: Tensor) -> Tensor:
        return self.model.features(x)

    def scores(self, f: Tensor) -> Tensor:
        return self.model.head(f)

    def loss(self, x: Tensor, f: Tensor) -> Tensor:
        log_p = self.model.head(f.detach()).log_softmax(dim=1)
        projected = self.projected_logits(f if self.keeps_graph else self.model.features(x))
        log_q = projected.log_softmax(dim=1)
        return entropy(projected).mean() + (kl(log_p, log_q) + kl(log_q, log_p)).mean()
