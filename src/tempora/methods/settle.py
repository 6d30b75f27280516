"""Settle: learn what the stream looks like from its first batches, then predict at standard inference's speed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tempora.methods.contract import Method
from tempora.methods.functions import entropy
from tempora.methods.norm import BatchStatistics
from tempora.methods.registry import register
from tempora.methods.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class SettleSettings(Settings):
    """How long to settle, and when to do so anew.

    batches: to settle on.
    alarm: how many standard deviations the predictions' entropy must leave its usual range by, twice in a row, to
    settle anew; 0: never. usual: batches that the usual range is taken from.
    """

    batches: int = setting(4, low=1)
    alarm: float = setting(6.0, low=0)
    usual: int = setting(8, low=2)


@register
class Settle(Method):
    """Statistics of the first batches, averaged from the first on and kept: those of BatchNorm layers, or, on a
    network without them, the mean of its features. From then on it costs what Standard costs.
    """

    name = "settle"
    label = "Settle"
    modifies = ("activations",)
    state = ("seen", "centre", "entropies", "strange")
    actions = ("settling", "none", "alarm")
    modes = ("settling", "settled")
    Settings = SettleSettings

    def setup(self) -> None:
        statistics = BatchStatistics(self.model, source="keep", frozen="tracked")
        if statistics.layers:
            self.statistics = statistics
            self._source_statistics = [buffer.clone() for buffer in statistics.buffers().values()]
        self.seen = 0
        """Batches settled on."""
        self.centre = torch.zeros((), device=self.model.device, dtype=self.model.dtype)
        """Mean feature, on networks without BatchNorm."""
        self.entropies: list[float] = []
        """Mean entropies of the first settled batches, and how many of the latest lie outside their range."""
        self.strange = 0

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        settling = self.settling and not self.frozen
        self.work = ("settling" if settling else "settled", 0.0)
        if settling:
            self.seen += 1
            scores = self._settle_on(
                x, weight=1 / self.seen
            )  # the newest batch counts as much as each before it
        else:
            scores = self._settled(x)
        self.pending = None if settling else scores
        return scores

    @torch.no_grad()
    def adapt(self) -> str:
        if self.frozen:
            return "none"
        if self.pending is None:
            if not self.settling:
                self.unfreeze()
            return "settling"
        if not self._alarmed(float(entropy(self.pending).mean())):
            return "none"
        self._begin_anew()
        return "alarm"

    @property
    def settling(self) -> bool:
        batches: int = self.settings.batches
        return self.seen < batches

    def unfreeze(self) -> None:
        super().unfreeze()
        if self.statistics is not None and not self.settling:
            self.statistics.freeze()

    def _settle_on(self, x: Tensor, weight: float) -> Tensor:
        if self.statistics is not None:
            for layer in self.statistics.layers.values():
                layer.momentum = weight
            return self.logits(x)
        features = self.model.features(x)
        centre = self.centre + weight * (features.mean(dim=0) - self.centre)
        self.centre = torch.where(centre.isfinite().all(), centre, self.centre)
        return self.model.head(features - self.centre)

    def _settled(self, x: Tensor) -> Tensor:
        if self.statistics is not None:
            return self.logits(x)
        return self.model.head(self.model.features(x) - self.centre)

    def _alarmed(self, mean_entropy: float) -> bool:
        """Whether two batches in a row are unlike those that it settled for."""
        if not self.settings.alarm or not math.isfinite(mean_entropy):
            return False
        if len(self.entropies) < self.settings.usual:
            self.entropies = [*self.entropies, mean_entropy]
            return False
        usual = torch.tensor(self.entropies, dtype=torch.float64)
        distance = abs(mean_entropy - float(usual.mean()))
        self.strange = self.strange + 1 if distance > self.settings.alarm * float(usual.std()) else 0
        return self.strange == 2

    def _begin_anew(self) -> None:
        self.seen, self.entropies, self.strange = 0, [], 0
        self.centre = torch.zeros_like(self.centre)
        if self.statistics is not None:
            for buffer, source in zip(
                self.statistics.buffers().values(), self._source_statistics, strict=True
            ):
                buffer.copy_(source)
        self.unfreeze()
