"""Settle: learn what the stream looks like from its first batches, then predict at standard inference's speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

import torch
from torch import Tensor

from tempora_tta.methods import LEARNS, UNTIMED, Method, Settings, register, setting
from tempora_tta.methods.functions import entropy
from tempora_tta.methods.norm import BatchStatistics
from tempora_tta.methods.state import overwrite

LOOK_EVERY = 4
"""Batches between two looks at what a settled network predicts: looking takes time, and a device waits for it."""


class Settling(Method):
    """Base of methods that settle: normalise batches with their own statistics and average those, or, on a network
    without BatchNorm, take the mean of the features away.
    """

    state: ClassVar[tuple[str, ...]] = ("settled_on", "centre")
    modifies: ClassVar[tuple[str, ...]] = ("activations",)

    def setup(self) -> None:
        statistics = BatchStatistics(self.model, source="keep", frozen="averaged")
        if statistics.layers:
            self.statistics = statistics
        self.settled_on = 0
        """Batches that the statistics are of; 0: the source's."""
        self.centre = torch.zeros((), device=self.model.device, dtype=self.model.dtype)
        """Mean feature, on networks without BatchNorm."""

    def settle_on(self, x: Tensor) -> Tensor:
        """Scores of a batch by its own statistics, which enter the average with the weight of each before them.

        Layers follow the batch for this one call: going back is part of what settling takes, and not of the plain
        prediction after it.
        """
        self.settled_on += 1
        weight = 1 / self.settled_on
        if self.statistics is not None:
            for layer in self.statistics.layers.values():
                layer.momentum = weight
            self.statistics.adapt()
            try:
                return self.logits(x)
            finally:
                self.statistics.freeze()
        features = self.model.features(x)
        centre = self.centre + weight * (features.detach().mean(dim=0) - self.centre)
        self.centre = torch.where(centre.isfinite().all(), centre, self.centre)
        return self.model.head(features - self.centre)

    @torch.no_grad()
    def plain(self, x: Tensor) -> Tensor:
        """Scores at Standard's speed."""
        if self.statistics is not None or not self.settled_on:
            return self.logits(x)
        return self.model.head(self.model.features(x) - self.centre)

    def unfreeze(self) -> None:
        super().unfreeze()
        if self.statistics is not None:
            self.statistics.freeze()  # until there is something to settle on

    def copied(self) -> list[Tensor]:
        """A copy of what changes, to `put` back."""
        copies = [torch.empty_like(tensor) for tensor in self.changing_tensors()]
        overwrite(copies, self.changing_tensors())
        return copies

    def put(self, copies: list[Tensor]) -> None:
        overwrite(self.changing_tensors(), copies)


def unusual(value: float, usual: Sequence[float], sigmas: float, least: float = 0.0) -> float:
    """Distance outside mean ± `sigmas` standard deviations of the usual values; negative below, 0 inside.

    least: the least that a standard deviation is taken to be.
    """
    mean = fmean(usual)
    # statistics.stdev is no quick way, and of one value nothing is known
    spread = math.dist(usual, [mean] * len(usual)) / math.sqrt(max(1, len(usual) - 1))
    away = value - mean
    return math.copysign(max(0.0, abs(away) - sigmas * max(least, spread)), away)


@dataclass(frozen=True, kw_only=True)
class SettleSettings(Settings):
    """Length of settling, and the alarm that begins it again.

    batches: to settle on.
    alarm: how many standard deviations the predictions' entropy must leave its usual range by, twice in a row, to
    settle again; 0: never. usual: batches that the usual range is taken from.
    """

    batches: int = setting(4, low=1)
    alarm: float = setting(6.0, low=0)
    usual: int = setting(8, low=2)


@register
class Settle(Settling):
    """Statistics of the first batches, averaged from the first on and kept: those of BatchNorm layers, or, on a
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
        self.usual: list[float] = []
        """Mean entropies of the first settled batches, and how many of the latest lie outside their range."""
        self.strange = 0

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        if self.frozen or self.settled_on >= self.settings.batches:
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
        self.kept, self.pending = [*self.kept, self.pending], None
        if not self.settings.alarm or len(self.kept) < LOOK_EVERY:
            return "none"
        return self._look()

    @torch.no_grad()
    def _look(self) -> str:
        """Begin again if two batches in a row are unlike those that it settled for, of all since the last look."""
        of_batches = entropy(torch.cat(self.kept)).split([len(scores) for scores in self.kept])
        found = torch.stack([of_batch.mean() for of_batch in of_batches]).tolist()
        self.kept = []
        for mean_entropy in filter(math.isfinite, found):
            if len(self.usual) < self.settings.usual:
                self.usual = [*self.usual, mean_entropy]
                continue
            strange = unusual(mean_entropy, self.usual, self.settings.alarm) != 0
            self.strange = self.strange + 1 if strange else 0
            if self.strange == 2:
                self._begin_again()
                return "alarm"
        return "looked"

    def _begin_again(self) -> None:
        self.put(self._source_state)
        self._begin()
