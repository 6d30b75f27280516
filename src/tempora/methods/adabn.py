"""AdaBN (Li et al., 2017): normalise each batch with its own statistics."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tempora.errors import TemporaError
from tempora.methods.contract import Method
from tempora.methods.norm import BatchStatistics, FrozenStats, SourceStats
from tempora.methods.registry import register
from tempora.methods.settings import Settings


@dataclass(frozen=True, kw_only=True)
class AdaBNSettings(Settings):
    """source_stats: what tracking starts from. frozen_stats: what a frozen model normalises with."""

    source_stats: SourceStats = "reset"
    frozen_stats: FrozenStats = "tracked"


@register
class AdaBN(Method):
    """Batch statistics in the BatchNorm layers, tracked for when it is frozen; no gradients."""

    name = "adabn"
    label = "AdaBN"
    modifies = ("activations",)
    history_free = True
    Settings = AdaBNSettings

    def setup(self) -> None:
        self.statistics = BatchStatistics(self.model, self.settings.source_stats, self.settings.frozen_stats)
        if not self.statistics.layers:
            raise TemporaError(
                f"adabn does not fit {self.model.name}: it re-estimates BatchNorm statistics, "
                "and there is no BatchNorm layer."
            )

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        return self.logits(x)

    @torch.no_grad()
    def rescore(self, x: Tensor) -> Tensor:
        with self.statistics.untracked():
            return self.logits(x)
