"""ZeroSIAM (Chen et al., 2026): minimise entropy behind a projector that must agree with the clean branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tempora_tta.methods.functions import entropy, kl
from tempora_tta.methods.projector import ProjectorMethod, ProjectorSettings
from tempora_tta.methods.registry import register


@dataclass(frozen=True, kw_only=True)
class ZeroSIAMSettings(ProjectorSettings):
    """passes: one run of the backbone for both branches, or two, as in the published timings."""

    passes: Literal[1, 2] = 1

    default_lr: ClassVar[dict[str, float]] = {"cnn": 2.5e-3, "vit": 5e-3}
    default_projector_lr: ClassVar[dict[str, float]] = {"cnn": 2.5e-2, "vit": 5e-3}
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
