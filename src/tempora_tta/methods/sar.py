"""SAR (Niu et al., 2023): sharpness-aware entropy minimisation on reliable samples, with recovery."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tempora_tta.methods import NO_OP, register, setting
from tempora_tta.methods.functions import entropy, indices, max_entropy
from tempora_tta.methods.gradient import (
    GradientMethod,
    NormSettings,
    TrackSettings,
    all_finite,
    gradients_of,
)
from tempora_tta.methods.norm import norm_affine
from tempora_tta.methods.state import overwrite


@dataclass(frozen=True, kw_only=True)
class SARSettings(NormSettings, TrackSettings):
    """margin: E0 = margin * ln C. rho: the perturbation's size. recover_below: limit of the running loss."""

    margin: float = setting(0.4, above=0)
    rho: float = setting(0.05, above=0)
    recover_below: float = setting(0.2, low=0)


@register
class SAR(GradientMethod):
    """Lower norm affine; SAM over SGD; start over when the running loss says that the model collapsed."""

    name = "sar"
    label = "SAR"
    Settings = SARSettings
    state = ("ema",)
    actions = {**GradientMethod.actions, "recovered": NO_OP}
    modes = ("kept",)

    def setup(self) -> None:
        super().setup()
        self.e0 = self.settings.margin * max_entropy(self.model.num_classes)
        self.ema: Tensor | None = None
        self.unperturbed = [torch.empty_like(w) for w in self.parameters]

    def select(self) -> dict[str, nn.Parameter]:
        return norm_affine(self.model, lower=True)

    def learn(self, x: Tensor, z: Tensor) -> str:
        kept = indices(entropy(z.detach()) < self.e0)
        if not self.keep(kept):
            return "nothing_kept"
        w = self.parameters
        first = entropy(z[kept]).mean()
        ascent = gradients_of(first, w)

        self.perturb(ascent)
        h = self.second_entropy(x, kept)
        still = indices(h.detach() < self.e0)
        if len(still) == 0:
            overwrite(w, self.unperturbed)
            return "nothing_kept" if all_finite(first, ascent) else "non_finite"
        second = h[still].mean()
        gradients = gradients_of(second, w)
        overwrite(w, self.unperturbed)

        loss = second.detach()
        ema = loss if self.ema is None else 0.9 * self.ema + 0.1 * loss
        collapsed = ema < self.settings.recover_below
        finite, collapsed = torch.stack([all_finite(second, gradients), collapsed]).tolist()
        if not finite:
            return "non_finite"
        if collapsed:
            self.reset()  # undoes the step, which therefore need not be made
            return "recovered"
        self.ema = ema
        self.step(gradients)
        return "step"

    @torch.no_grad()
    def perturb(self, gradients: tuple[Tensor, ...]) -> None:
        """w + rho g / |g|, |g| the norm of all gradients together."""
        w = self.parameters
        overwrite(self.unperturbed, w)
        norm = torch.stack(torch._foreach_norm(list(gradients))).norm()
        radius = self.settings.rho / norm.clamp(min=torch.finfo(norm.dtype).tiny)
        torch._foreach_add_(w, torch._foreach_mul(list(gradients), radius))

    def second_entropy(self, x: Tensor, kept: Tensor) -> Tensor:
        """H of the kept samples with the perturbed weights."""
        with self.second_forward():
            return entropy(self.logits(x)[kept])
