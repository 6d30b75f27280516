"""DeYO (Lee et al., 2024): learn from samples whose prediction depends on the shape of what is seen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from tempora_tta.errors import TemporaError
from tempora_tta.methods import register, setting
from tempora_tta.methods.functions import entropy, indices, max_entropy
from tempora_tta.methods.gradient import GradientMethod, NormSettings, TrackSettings
from tempora_tta.methods.norm import norm_affine

GRID = 4  # patches per side


@dataclass(frozen=True, kw_only=True)
class DeYOSettings(NormSettings, TrackSettings):
    """max_entropy, weight_margin: in units of ln C. min_plpd: least loss of probability under shuffling."""

    max_entropy: float = setting(0.5, above=0)
    weight_margin: float = setting(0.4, above=0)
    min_plpd: float = setting(0.2, low=-1, high=1)


@register
class DeYO(GradientMethod):
    """Lower norm affine; loss = mean over kept samples of (exp(0.4 ln C - H) + exp(PLPD)) H.

    PLPD, the pseudo-label probability difference: what the predicted class loses when patches are shuffled.
    """

    name = "deyo"
    label = "DeYO"
    Settings = DeYOSettings
    modes = ("kept",)

    def select(self) -> dict[str, nn.Parameter]:
        return norm_affine(self.model, lower=True)

    def forward(self, x: Tensor) -> Tensor:
        if min(x.shape[-2:]) < GRID:
            raise TemporaError(
                f"deyo: images of {x.shape[-2]} x {x.shape[-1]} pixels cannot be cut into {GRID} x {GRID} patches. "
                "Use larger images, or leave the method out."
            )
        return super().forward(x)

    def loss(self, x: Tensor, z: Tensor) -> Tensor | None:
        limit = max_entropy(self.model.num_classes)
        certain = indices(entropy(z.detach()) < self.settings.max_entropy * limit)
        if not self.keep(certain):
            return None
        plpd = self.plpd(x[certain], z[certain].detach())
        grounded = indices(plpd > self.settings.min_plpd)
        if len(grounded) == 0:
            return None
        h = entropy(z[certain[grounded]])
        weight: Tensor = (self.settings.weight_margin * limit - h.detach()).exp() + plpd[grounded].exp()
        return (weight * h).mean()

    @torch.no_grad()
    def plpd(self, x: Tensor, z: Tensor) -> Tensor:
        """p[c] - p'[c] for the predicted class c, p' on the image with its patches shuffled."""
        predicted = z.argmax(dim=1, keepdim=True)
        shuffled = self.view_logits(self.shuffle(x))
        return (z.softmax(dim=1) - shuffled.softmax(dim=1)).gather(1, predicted).squeeze(1)

    def shuffle(self, x: Tensor) -> Tensor:
        """Each image with its 4x4 patches in an order of its own.

        Sides that are no multiple of 4 are scaled to the next lower one, and back.
        """
        n, channels, height, width = x.shape
        h, w = height // GRID, width // GRID
        size = (h * GRID, w * GRID)
        fitted = x if size == (height, width) else interpolate(x, size, mode="bilinear")
        patches = fitted.reshape(n, channels, GRID, h, GRID, w).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
        order = torch.rand(n, GRID * GRID, device=x.device, generator=self.generator).argsort(dim=1)
        shuffled = patches[torch.arange(n, device=x.device)[:, None], order].unflatten(1, (GRID, GRID))
        image = shuffled.permute(0, 3, 1, 4, 2, 5).reshape(n, channels, *size)
        return image if size == (height, width) else interpolate(image, (height, width), mode="bilinear")
