"""SPA (Niu et al., 2025): pull two structure-preserving views of each image towards the clean prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tempora_tta.methods import by_family, register, setting
from tempora_tta.methods.functions import kl
from tempora_tta.methods.gradient import RATE, GradientSettings, all_finite, gradients_of
from tempora_tta.methods.projector import ProjectorMethod

DEFAULT_PATCH = 16


@dataclass(frozen=True, kw_only=True)
class SPASettings(GradientSettings):
    """The optimiser, and the strength of the views.

    projector_lr: of the projector; lr is that of the norm layers.
    low_frequencies: side of the masked square of the spectrum, as a share of the image's.
    mask_probability: of each amplitude in it. noise_ratio: mean share of noise in a patch.
    passes: two runs of the backbone, the views in one, or three, as in the published timings.
    mask: the square around zero, or that of the published code, which reaches one frequency further.
    """

    lr: float = by_family(cnn=2.5e-3, vit=1e-2, **RATE)
    projector_lr: float = by_family(cnn=2.5e-2, vit=5e-2, **RATE)
    low_frequencies: float = setting(0.2, low=0, high=1)
    mask_probability: float = by_family(cnn=0.1, vit=0.2, low=0, high=1)
    noise_ratio: float = by_family(cnn=0.1, vit=0.4, above=0, high=1)
    passes: Literal[2, 3] = 2
    mask: Literal["symmetric", "published"] = "symmetric"

    paper: ClassVar[dict[str, Any]] = {"passes": 3, "mask": "published"}


@register
class SPA(ProjectorMethod):
    """Loss: per view, the mean KL(p || p') over samples whose clean top probability exceeds the view's."""

    name = "spa"
    label = "SPA"
    Settings = SPASettings
    state = ("strength", "strength_velocity")

    @property
    def keeps_graph(self) -> bool:
        """The clean prediction is only a target; the published code made its graph all the same."""
        passes: int = self.settings.passes
        return passes == 3

    def setup(self) -> None:
        super().setup()
        preprocessing = self.model.preprocessing
        self.lowest = self._per_channel(preprocessing.lowest)
        self.highest = self._per_channel(preprocessing.highest)
        self.patch = self.model.patch_size or DEFAULT_PATCH
        self.strength: Tensor | None = None  # s, one per patch position; made for the first image's size
        self.strength_velocity: Tensor | None = None

    def loss(self, x: Tensor, z: Tensor) -> Tensor | None:
        log_p = z.detach().log_softmax(dim=1)
        views = self.views(x)
        runs = views if self.settings.passes == 3 else (torch.cat(views),)  # samples are independent
        logits = torch.cat([self.projected_logits(self.model.features(run)) for run in runs])
        log_q: Tensor = logits.log_softmax(dim=1).unflatten(0, (2, len(x)))
        surer = log_p.exp().amax(dim=1) > log_q.detach().exp().amax(dim=2)
        if not surer.any():
            return None
        divergence: Tensor = kl(log_p.repeat(2, 1), log_q.flatten(0, 1)).unflatten(0, (2, len(x)))
        kept = torch.where(surer, divergence, 0)
        return (kept.sum(dim=1) / surer.sum(dim=1).clamp(min=1)).sum()

    def views(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The batch with masked low frequencies, and with noisy patches."""
        return self.masked(x), self.noised(x)

    def masked(self, x: Tensor) -> Tensor:
        """Amplitudes near zero frequency are dropped at random, per sample and channel.

        The real transform stores one frequency of each pair k, -k, so dropping it drops both; only in the
        column of zero horizontal frequency both are stored, and the negative half there repeats the other.
        """
        *leading, height, width = x.shape
        published = self.settings.mask == "published"
        reach = _published_reach if published else _reach
        up, right = (reach(self.settings.low_frequencies, side) for side in (height, width))
        if min(up, right) < 0:
            return x
        drawn = torch.rand(*leading, 2 * up + 1, right + 1, device=x.device, generator=self.generator)
        keep = drawn >= self.settings.mask_probability
        keep[..., :up, 0] = keep[..., up + 1 :, 0].flip(-1)
        if published and right > 0:  # its half square ends one column earlier on the right than on the left
            keep[..., : up + 1, right] = True
        spectrum = torch.fft.rfft2(x)
        rows = torch.arange(-up, up + 1, device=x.device) % height
        spectrum[..., rows, : right + 1] *= keep
        image: Tensor = torch.fft.irfft2(spectrum, s=(height, width))
        return image

    def noised(self, x: Tensor) -> Tensor:
        """Patch k becomes (1 - s_k^2) patch + s_k^2 noise, within the range of an image."""
        height, width = x.shape[2:]
        share = self._strength(height, width).square()
        share = share.repeat_interleave(self.patch, 0)[:height].repeat_interleave(self.patch, 1)[:, :width]
        return ((1 - share) * x + share * self.noise(x)).clamp(self.lowest, self.highest)

    def noise(self, x: Tensor) -> Tensor:
        """One image of noise, shared by the batch."""
        return torch.randn(x.shape[1:], device=x.device, dtype=x.dtype, generator=self.generator)

    def descend(self, loss: Tensor) -> str:
        """The step down; the strength of the noise steps up."""
        if self.strength is None or self.strength_velocity is None:  # other views() than ours
            return super().descend(loss)
        wanted = [*self.parameters, self.strength.requires_grad_()]
        *gradients, ascent = gradients_of(loss, wanted)
        if not all_finite(loss, [*gradients, ascent]):
            return "non_finite"
        self.step(gradients)
        self._strengthen(self.strength, self.strength_velocity, ascent)
        return "step"

    def _strength(self, height: int, width: int) -> Tensor:
        grid = (math.ceil(height / self.patch), math.ceil(width / self.patch))
        if self.strength is None or self.strength.shape != grid:
            self.strength = self.lowest.new_full(grid, math.sqrt(self.settings.noise_ratio))
            self.strength_velocity = self.lowest.new_zeros(grid)
        return self.strength.requires_grad_()

    @torch.no_grad()
    def _strengthen(self, strength: Tensor, velocity: Tensor, ascent: Tensor) -> None:
        """SGD with learning rate 1 up the loss, then back to the wanted mean share of noise."""
        self.strength_velocity = 0.9 * velocity + ascent
        s = strength + self.strength_velocity
        self.strength = (s * (self.settings.noise_ratio / s.square().mean()).sqrt()).clamp(-1, 1)

    def _per_channel(self, values: tuple[float, ...]) -> Tensor:
        return torch.tensor(values, device=self.model.device, dtype=self.model.dtype)[:, None, None]


def _reach(share: float, side: int) -> int:
    """The largest whole frequency in a square of side int(share * side) around zero; -1 if it is empty."""
    return math.ceil(int(share * side) / 2) - 1


def _published_reach(share: float, side: int) -> int:
    """The largest frequency in the half square of the published code, which it mirrors: half the side itself."""
    return min(int(share * side) // 2, (side - 1) // 2)
