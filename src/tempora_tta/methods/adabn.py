"""AdaBN (Li et al., 2017): normalise each batch with its own statistics."""

from __future__ import annotations

import torch
from torch import Tensor

from tempora_tta.errors import TemporaError
from tempora_tta.methods import LEARNS, UNTIMED, Method, register
from tempora_tta.methods.norm import BatchStatistics, StatisticsSettings


@register
class AdaBN(Method):
    """Batch statistics in the BatchNorm layers, tracked for when it is frozen; no gradients."""

    name = "adabn"
    label = "AdaBN"
    modifies = ("activations",)
    actions = {"none": LEARNS | UNTIMED}
    repeats = True
    history_free = True
    Settings = StatisticsSettings

    statistics: BatchStatistics  # setup() makes them

    def setup(self) -> None:
        self.statistics = BatchStatistics(self.model, self.settings.source_stats, self.settings.frozen_stats)
        if not self.statistics.layers:
            raise TemporaError(
                f"adabn does not fit {self.model.name}: it re-estimates BatchNorm statistics, "
                "and there is no BatchNorm layer. Leave it out, or use a network with BatchNorm: resnet50, "
                "fashion_resnet."
            )

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        return self.logits(x)
