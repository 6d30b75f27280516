"""Settle: learn what the stream looks like from its first images, then predict at standard inference's speed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from tempora_tta.methods import LEARNS, UNTIMED, Method, Settings, register, setting
from tempora_tta.methods.custom_norm import CustomBatchNorm, replace_batchnorm
from tempora_tta.methods.functions import entropy
from tempora_tta.methods.norm import TrackedGuard
from tempora_tta.methods.state import overwrite

GROUP = 64
"""Images whose mean scores are compared with others': of few they say little."""
USUAL = 256
"""Images that are taken for usual, once it has settled."""


class PooledNorm(CustomBatchNorm):
    """BatchNorm with the statistics of all images so far, those that it normalises included.

    use: "kept", the statistics as they are; "pooled", these images taken into them first, by the law of total
    variance; or "batch", those of these images alone, which a gradient flows through and which count half later.
    """

    def __init__(self, layer: _BatchNorm) -> None:
        super().__init__(layer)
        self.eval()
        self.use: Literal["kept", "pooled", "batch"] = "kept"
        # A tensor, since a compiled forward would be compiled again for every number.
        self.share = torch.ones_like(self.running_mean[0])
        """Weight of these images among all so far."""

    def normalise(self, x: Tensor) -> Tensor:
        if self.use == "batch":
            running, cudnn = (self.running_mean, self.running_var), torch.backends.cudnn.enabled
            return torch.batch_norm(x, self.weight, self.bias, *running, True, 0.5, self.eps, cudnn)
        if self.use == "pooled":
            self._pool(*self.batch_statistics(x.detach(), correction=0))
        return self.with_statistics(x, self.running_mean, self.running_var)

    @torch.no_grad()
    def _pool(self, mean: Tensor, var: Tensor) -> None:
        between = (1 - self.share) * (mean - self.running_mean).square()
        self.running_mean.lerp_(mean, self.share)
        self.running_var.lerp_(var + between, self.share)


class Settling(Method):
    """Base of methods that settle: normalise with the statistics of all images so far, or, on a network without
    BatchNorm, take the mean of their features away.
    """

    state: ClassVar[tuple[str, ...]] = ("settled_on", "centre")
    modifies: ClassVar[tuple[str, ...]] = ("activations",)

    def setup(self) -> None:
        self.layers = replace_batchnorm(self.model, PooledNorm)
        self._guard = TrackedGuard(list(self.layers.values()))
        for name, layer in self.layers.items():
            self.changing[f"{name}.running_mean"] = layer.running_mean
            self.changing[f"{name}.running_var"] = layer.running_var
        self.settled_on = 0
        """Images that the statistics are of; 0: the source's."""
        self.centre = torch.zeros((), device=self.model.device, dtype=self.model.dtype)
        """Mean feature, on networks without BatchNorm."""

    def settle_on(self, x: Tensor) -> Tensor:
        """Scores by the statistics of all images so far, these included; with a gradient, of these alone."""
        self.settled_on += len(x)
        share = len(x) / self.settled_on
        if self.layers:
            return self._taking_in(x, share)
        features = self.model.features(x)
        centre = self.centre + share * (features.detach().mean(dim=0) - self.centre)
        self.centre = torch.where(centre.isfinite().all(), centre, self.centre)
        return self.model.head(features - self.centre)

    def _taking_in(self, x: Tensor, share: float) -> Tensor:
        self._guard.keep()
        for layer in self.layers.values():
            layer.use = "batch" if torch.is_grad_enabled() else "pooled"
            layer.share.fill_(share)
        try:
            return self.logits(x)
        finally:
            for layer in self.layers.values():
                layer.use = "kept"
            self._guard.mend()

    @torch.no_grad()
    def plain(self, x: Tensor) -> Tensor:
        """Scores at Standard's speed."""
        if self.layers or not self.settled_on:
            return self.logits(x)
        return self.model.head(self.model.features(x) - self.centre)

    def copied(self) -> list[Tensor]:
        """A copy of what changes, to `put` back."""
        copies = [torch.empty_like(tensor) for tensor in self.changing_tensors()]
        overwrite(copies, self.changing_tensors())
        return copies

    def put(self, copies: list[Tensor]) -> None:
        overwrite(self.changing_tensors(), copies)


@dataclass(frozen=True, kw_only=True)
class SettleSettings(Settings):
    """Length of settling, and the alarm that begins it again.

    images: to settle on. alarm: how many standard deviations the predictions must lie from the usual ones, for two
    groups of 64 images in a row, to settle again; 0: never.
    """

    images: int = setting(256, low=1)
    alarm: float = setting(3.0, low=0)


@register
class Settle(Settling):
    """Statistics of the first images, pooled from the first on and kept: those of BatchNorm layers, or, on a
    network without them, the mean of its features. From then on it costs what Standard costs.
    """

    name = "settle"
    label = "Settle"
    state = ("kept", "usual", "strange")
    actions = {
        "settling": LEARNS | UNTIMED,
        "none": UNTIMED,
        "looked": LEARNS,
        "alarm": LEARNS | UNTIMED,
    }
    modes = ("settling", "settled")
    Settings = SettleSettings

    def setup(self) -> None:
        super().setup()
        self._source_state = self.copied()
        self._begin()

    def _begin(self) -> None:
        self.settled_on, self.centre = 0, torch.zeros_like(self.centre)
        self.kept: list[Tensor] = []
        """Scores since the last look."""
        self.usual: tuple[Tensor, Tensor] | None = None
        """Mean and standard deviation of scores and entropy, of the first images after settling."""
        self.strange = 0
        """Number of the latest groups that are unlike them."""

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        if self.frozen or self.settled_on >= self.settings.images:
            self.work = ("settled", 0.0)
            scores = self.pending = self.plain(x)
            return scores
        self.work = ("settling", 0.0)
        return self.settle_on(x)

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        if self.pending is None:
            return "settling"
        scores, self.pending = self.pending, None
        if not self.settings.alarm:
            return "none"
        self.kept = [*self.kept, scores]
        enough = USUAL if self.usual is None else 2 * GROUP
        return self._look() if sum(map(len, self.kept)) >= enough else "none"

    @torch.no_grad()
    def _look(self) -> str:
        """Begin again if two groups in a row are unlike the first images after settling: in their entropy, or, taken
        together, in the scores of the classes."""
        scores, self.kept = torch.cat(self.kept), []
        seen = torch.cat([scores, entropy(scores)[:, None]], dim=1)
        if not seen.isfinite().all():
            return "looked"
        if self.usual is None:
            self.usual = (seen.mean(dim=0), seen.std(dim=0).clamp_min(1e-6))
            return "looked"
        groups = torch.stack([group.mean(dim=0) for group in seen.chunk(2)])
        spread = self.usual[1] * math.sqrt(2 / len(seen) + 1 / USUAL)
        away = ((groups - self.usual[0]) / spread).square()
        farthest = torch.maximum(away[:, :-1].mean(dim=1), away[:, -1])
        for strange in (farthest > self.settings.alarm**2).tolist():
            self.strange = self.strange + 1 if strange else 0
            if self.strange == 2:
                self._begin_again()
                return "alarm"
        return "looked"

    def _begin_again(self) -> None:
        self.put(self._source_state)
        self._begin()
