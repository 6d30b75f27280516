"""EATA (Niu et al., 2022): ETA, held back where the source needs its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from tempora_tta.methods import by_classes, register, setting
from tempora_tta.methods.eta import ETA, ETASettings
from tempora_tta.methods.gradient import gradients_of

BATCH = 64  # of source samples, not of the run's batch size: F depends on it


@dataclass(frozen=True, kw_only=True)
class EATASettings(ETASettings):
    """Strength of the penalty.

    beta: of the penalty; 0 is ETA. samples: how many source samples F is
    taken from.
    """

    beta: float = by_classes({10: 1.0, 100: 1.0, 1000: 2000.0}, low=0)
    samples: int = setting(2000, low=1)


@register
class EATA(ETA):
    """ETA's loss + beta sum_i F_i (w_i - w0_i)^2, F the diagonal Fisher information on source samples."""

    name = "eata"
    label = "EATA"
    Settings = EATASettings

    def setup(self) -> None:
        super().setup()
        if self.settings.beta > 0:
            self.anchors = [w.detach().clone() for w in self.parameters]  # w0
            self.importance = self.fisher(self.source(self.settings.samples))  # F

    def gradients(self, loss: Tensor) -> Sequence[Tensor]:
        """ETA's, plus 2 beta F (w - w0)."""
        gradients = super().gradients(loss)
        if self.settings.beta == 0:
            return gradients
        with torch.no_grad():
            drift = torch._foreach_sub(self.parameters, self.anchors)
            torch._foreach_mul_(drift, self.importance)
            return torch._foreach_add(list(gradients), drift, alpha=2 * self.settings.beta)

    def fisher(self, x: Tensor) -> list[Tensor]:
        """The mean square of gradients towards the network's own predictions, in adapting mode, untracked.

        Of each batch's mean gradient, to which the published betas belong; the paper writes of each sample's.
        """
        order = torch.randperm(len(x), device=x.device, generator=self.generator)
        total = [torch.zeros_like(w) for w in self.parameters]
        batches = order.split(BATCH)
        if self.statistics is not None:
            self.statistics.adapt()
        with self.untracked():
            for indices in batches:
                z = self.logits(x[indices])
                loss = cross_entropy(z, z.detach().argmax(dim=1), reduction="none").mean()
                gradients = list(gradients_of(loss, self.parameters))
                torch._foreach_addcmul_(total, gradients, gradients)
        return list(torch._foreach_div(total, float(len(batches))))
