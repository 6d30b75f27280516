"""AlphaBN (You et al., 2021; Schneider et al., 2020): mix the source's BatchNorm statistics with the batch's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tempora_tta.errors import TemporaError
from tempora_tta.methods import LEARNS, UNTIMED, Method, Range, Settings, register, setting
from tempora_tta.methods.custom_norm import Copies, MixedNorm, follow, replace_batchnorm


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
