"""AlphaBN (You et al., 2021; Schneider et al., 2020): mix the source's BatchNorm statistics with the batch's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from tempora_tta.errors import TemporaError
from tempora_tta.methods import LEARNS, UNTIMED, Method, Range, Settings, register, setting
from tempora_tta.methods.norm import (
    MOMENTUM,
    Copies,
    CustomBatchNorm,
    Statistics,
    blended,
    replace_batchnorm,
    update_stats,
)
from tempora_tta.methods.state import overwrite


@dataclass(frozen=True, kw_only=True)
class AlphaBNSettings(Settings):
    """Weights of source and batch.

    alpha: the batch's weight. prior: N, makes it n / (N + n) instead (16 is usual).
    mode: mix the source with this batch, or normalise with a running mean over batches (ema).
    passes: 2 feeds the running statistics in a forward of its own, on batch statistics, as the common benchmark.
    frozen_stats: whether a frozen model mixes in what was tracked or still each batch.
    """

    alpha: float = setting(0.1, low=0, high=1, search=Range(0, 1))
    prior: float | None = setting(None, low=0)
    mode: Literal["mix", "ema"] = "mix"
    passes: Literal[1, 2] = 1
    frozen_stats: Literal["tracked", "batch"] = "tracked"


class MixedNorm(CustomBatchNorm):
    """Normalises with (1 - a) S + a b, S the source's statistics, b the batch's with unbiased variance.

    `running_mean` and `running_var` are R, which tracks b from S. No gradient flows through any of them.
    use: "mixed", "mapped" (the same, for `vmap`), "batch" (b alone), "training" (b with biased variance, as training
    mode has it), "running" (R) or "frozen", (1 - a) S + a R.
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
        self.seen: list[tuple[Tensor, Tensor, int]] = []
        """Mean, biased variance and count of a batch that R has yet to follow: `follow` does it for all layers."""

    def normalise(self, x: Tensor) -> Tensor:
        if self.use == "mapped":
            return self.with_statistics(x, *self.mapped(x))
        if self.copy and self.use == "mixed" and self.blends(x):
            mixed = self.copy.pop()  # S
            own = update_stats(x.detach(), *mixed, self.weight_of_batch)
            if self.track:
                self.seen.append((*own, x.numel() // x.shape[1]))
            return self.with_statistics(x, *mixed)
        if self.use in ("mixed", "batch") or self.track:
            mean, var = self.own_statistics(x.detach())
            if self.track:
                self.include(mean, var)
            if self.use == "training":
                return torch.batch_norm(x, self.weight, self.bias, None, None, True, 0.0, self.eps, False)
            if self.use == "batch":
                return self.with_statistics(x, mean, var)
            if self.use == "mixed":
                return self.with_statistics(x, *self.mixed(mean, var))
        if self.use == "running":
            return self.with_statistics(x, self.running_mean, self.running_var)
        return self.with_statistics(x, *self.mixed(self.running_mean, self.running_var))

    def own_statistics(self, x: Tensor) -> Statistics:
        """b; a single value per channel has no variance, the source's stands in for it."""
        single = x.numel() == x.shape[1]
        mean, var = self.batch_statistics(x, correction=0 if single else 1)
        return mean, self.source_var if single else var

    def mapped(self, x: Tensor) -> Statistics:
        """(1 - a) S + a b in operations that vmap knows."""
        single, a = x.numel() == x.shape[1], self.weight_of_batch
        var, mean = torch.var_mean(x, dim=[0, *range(2, x.ndim)], correction=0 if single else 1)
        var = self.source_var if single else var
        return torch.lerp(self.source_mean, mean, a), torch.lerp(self.source_var, var, a)

    def mixed(self, mean: Tensor, var: Tensor) -> Statistics:
        """(1 - a) S + a b."""
        return blended((self.source_mean, self.source_var), (mean, var), self.weight_of_batch)

    @torch.no_grad()
    def include(self, mean: Tensor, var: Tensor) -> None:
        """R = 0.9 R + 0.1 b, channel by channel, where b is finite."""
        follow([self])  # one batch after the other
        running = (self.running_mean, self.running_var)
        usable = (mean + var).isfinite()
        followed = blended(running, (mean, var), MOMENTUM)
        for old, new in zip(running, followed, strict=True):
            old.copy_(torch.where(usable, new, old))


@torch.no_grad()
def follow(layers: Iterable[MixedNorm]) -> None:
    """Do for all layers that put it off, in a few launches, as `include` does for one."""
    seen = [(layer, *layer.seen.pop()) for layer in layers if layer.seen]
    if not seen:
        return
    means = [mean for _, mean, _, _ in seen]
    variances = torch._foreach_mul([var for *_, var, _ in seen], [count / (count - 1) for *_, count in seen])
    running = [*(layer.running_mean for layer, *_ in seen), *(layer.running_var for layer, *_ in seen)]
    followed = torch._foreach_lerp(running, [*means, *variances], MOMENTUM)
    before, after = (torch.cat(parts).view(2, -1) for parts in (running, list(followed)))
    kept = torch.where(after.isfinite().all(dim=0), after, before)
    sizes = [len(mean) for mean in means]
    overwrite(running, [part for row in kept for part in row.split(sizes)])


@register
class AlphaBN(Method):
    """(1 - alpha) S + alpha b in every BatchNorm layer; no gradients."""

    name = "alpha_bn"
    label = "AlphaBN"
    modifies = ("activations",)
    actions = {"none": LEARNS | UNTIMED}
    repeats = True
    history_free = True
    Settings = AlphaBNSettings

    def setup(self) -> None:
        self.layers = replace_batchnorm(self.model, MixedNorm)
        if not self.layers:
            raise TemporaError(
                f"alpha_bn does not fit {self.model.name}: it mixes BatchNorm statistics, and there is no "
                "BatchNorm layer. Leave it out, or use a network with BatchNorm: resnet50, fashion_resnet."
            )
        self.copies = Copies({layer: (layer.source_mean, layer.source_var) for layer in self.layers.values()})
        self.history_free = self.settings.mode == "mix"
        self.changing = {
            f"{name}.{key}": getattr(layer, key)
            for name, layer in self.layers.items()
            for key in ("running_mean", "running_var")
        }

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        separate = self.settings.passes == 2 and self.follows
        if separate:
            self.forward(x, use="training" if self.settings.mode == "ema" else "batch", track=True)
        return self.forward(x, self.use, track=self.follows and not separate)

    @property
    def use(self) -> str:
        """The statistics that the prediction is made with."""
        if self.settings.mode == "ema":
            return "running"
        return "frozen" if self.frozen and self.settings.frozen_stats == "tracked" else "mixed"

    def forward(self, x: Tensor, use: str, track: bool) -> Tensor:
        """Logits; each layer measures what the layers below, already mixed, give it."""
        n, prior = len(x), self.settings.prior
        for layer in self.layers.values():
            layer.weight_of_batch = self.settings.alpha if prior is None else n / (prior + n)
            layer.use, layer.track = use, track
            layer.seen.clear()
        self.copies.refresh()
        z: Tensor = self.model(x)
        follow(self.layers.values())
        return z
