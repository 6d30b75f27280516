"""Normalisation layers: their affine parameters, and the statistics that BatchNorm uses and tracks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tempora.methods.settings import Settings
from tempora.models import Classifier

SourceStats = Literal["reset", "keep"]
FrozenStats = Literal["tracked", "batch"]

#: The weight of the newest batch in tracked statistics, whatever the network was trained with.
MOMENTUM = 0.1


@dataclass(frozen=True, kw_only=True)
class StatisticsSettings(Settings):
    """Of a method that uses batch statistics.

    source_stats: whether tracking starts from mean 0, variance 1 or from the source's statistics.
    frozen_stats: whether a frozen model normalises with what was tracked or still with each batch.
    """

    source_stats: SourceStats = "reset"
    frozen_stats: FrozenStats = "tracked"


def batchnorm_layers(model: Classifier) -> dict[str, _BatchNorm]:
    """BatchNorm layers by name."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)}


def norm_affine(model: Classifier, lower: bool = False) -> dict[str, nn.Parameter]:
    """Weight and bias of every BatchNorm, GroupNorm and LayerNorm; with `lower`, not of the network's top."""
    return {
        f"{name}.{key}": parameter
        for name, layer in model.named_modules()
        if isinstance(layer, (_BatchNorm, nn.GroupNorm, nn.LayerNorm)) and not (lower and model.in_top(name))
        for key, parameter in layer.named_parameters(recurse=False)
    }


class BatchStatistics:
    """BatchNorm layers of a network that adapts: they normalise with the batch and track running statistics.

    Layers are switched one by one, never with `train()`, which would turn on dropout as well (also inside
    layers that fuse normalisation with it).
    """

    def __init__(self, model: Classifier, source: SourceStats, frozen: FrozenStats) -> None:
        self.layers = batchnorm_layers(model)
        self.when_frozen = frozen
        for layer in self.layers.values():
            layer.momentum = MOMENTUM
            if source == "reset":
                layer.reset_running_stats()  # mean 0, variance 1

    def buffers(self) -> dict[str, Tensor]:
        """What tracking changes, by name."""
        return {
            f"{name}.{key}": buffer
            for name, layer in self.layers.items()
            for key, buffer in layer.named_buffers(recurse=False)
        }

    def adapt(self) -> None:
        """Normalise with the batch, and track."""
        self._normalise_with_batch(True)
        self._track(True)

    def freeze(self) -> None:
        """Normalise with the tracked statistics, or still with the batch, and track no more."""
        batch = self.when_frozen == "batch"
        self._normalise_with_batch(batch)
        self._track(not batch)

    @contextmanager
    def untracked(self) -> Iterator[None]:
        """Inside, a network that adapts does not track."""
        before = {layer: layer.track_running_stats for layer in self.layers.values()}
        self._track(False)
        try:
            yield
        finally:
            for layer, tracked in before.items():
                layer.track_running_stats = tracked

    def _normalise_with_batch(self, wanted: bool) -> None:
        for layer in self.layers.values():
            layer.training = wanted

    def _track(self, wanted: bool) -> None:
        """Whether a layer that uses batch statistics also feeds them to its running ones."""
        for layer in self.layers.values():
            layer.track_running_stats = wanted
