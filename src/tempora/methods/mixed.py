"""BatchNorm with mixed statistics: the source's and a little of the batch's, for AlphaBN and MEMO."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from tempora.methods.norm import MOMENTUM, OwnNorm


class MixedNorm(OwnNorm):
    """Normalises with (1 - a) S + a b, S the source's statistics, b the batch's with unbiased variance.

    `running_mean` and `running_var` are R, which tracks b from S. No gradient flows through any of them.
    use: "mixed", "batch" (b alone), "running" (R) or "frozen", (1 - a) S + a R.
    """

    source_mean: Tensor
    source_var: Tensor

    def __init__(self, layer: _BatchNorm) -> None:
        super().__init__(layer)
        self.register_buffer("source_mean", self.running_mean.clone())
        self.register_buffer("source_var", self.running_var.clone())
        self.weight_of_batch = 0.0  # a
        self.use = "mixed"
        self.track = False

    def normalise(self, x: Tensor) -> Tensor:
        if self.use in ("mixed", "batch") or self.track:
            mean, var = self.own_statistics(x.detach())
            if self.track:
                self.include(mean, var)
            if self.use == "batch":
                return self.with_statistics(x, mean, var)
            if self.use == "mixed":
                return self.with_statistics(x, *self.mixed(mean, var))
        if self.use == "running":
            return self.with_statistics(x, self.running_mean, self.running_var)
        return self.with_statistics(x, *self.mixed(self.running_mean, self.running_var))

    def own_statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """b; a single value per channel has no variance, the source's stands in for it."""
        single = x.numel() == x.shape[1]
        mean, var = self.batch_statistics(x, correction=0 if single else 1)
        return mean, self.source_var if single else var

    def mixed(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """(1 - a) S + a b."""
        a = self.weight_of_batch
        return (1 - a) * self.source_mean + a * mean, (1 - a) * self.source_var + a * var

    @torch.no_grad()
    def include(self, mean: Tensor, var: Tensor) -> None:
        """R = 0.9 R + 0.1 b, channel by channel, where b is finite."""
        usable = mean.isfinite() & var.isfinite()
        for running, value in ((self.running_mean, mean), (self.running_var, var)):
            running.copy_(torch.where(usable, (1 - MOMENTUM) * running + MOMENTUM * value, running))
