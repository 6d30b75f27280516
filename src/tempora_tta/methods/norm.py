"""Normalisation layers: their affine parameters, and the statistics that BatchNorm uses and tracks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tempora_tta.methods.custom_norm import MOMENTUM, CustomBatchNorm
from tempora_tta.methods.settings import Settings
from tempora_tta.models import Classifier

SourceStats = Literal["reset", "keep"]
FrozenStats = Literal["tracked", "batch", "averaged"]


@dataclass(frozen=True, kw_only=True)
class StatisticsSettings(Settings):
    """Statistics of a method that uses those of the batch.

    source_stats: whether tracking starts from mean 0, variance 1 or from the source's statistics.
    frozen_stats: whether a frozen model normalises with what was tracked (as published: a running average that
    forgets, with momentum 0.1), still with each batch, or with the plain average of all batches seen, which is
    ripe after the first and, before it, the source's.
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
        if isinstance(layer, (_BatchNorm, CustomBatchNorm, nn.GroupNorm, nn.LayerNorm))
        and not (lower and model.in_top(name))
        for key, parameter in layer.named_parameters(recurse=False)
    }


class BatchStatistics:
    """BatchNorm layers of a network that adapts: they normalise with the batch and track running statistics.

    Layers are switched one by one, never with `train()`, which would turn on dropout as well (also inside
    layers that fuse normalisation with it). `followers` are further networks of the same shape (a teacher): they
    normalise with their own batches, track nothing, and frozen use what the first network tracked.
    """

    def __init__(
        self,
        model: Classifier,
        source: SourceStats,
        frozen: FrozenStats,
        followers: Sequence[Classifier] = (),
    ) -> None:
        self.layers = batchnorm_layers(model)
        self.following = [layer for network in followers for layer in batchnorm_layers(network).values()]
        self.when_frozen = frozen
        for layer in self.layers.values():
            if frozen == "averaged":
                average_from_first(layer)
                continue
            layer.momentum = MOMENTUM
            if source == "reset":
                layer.reset_running_stats()  # mean 0, variance 1
        self._guard = TrackedGuard(list(self.layers.values()))
        self._guard.watch(list(self.layers.values()))
        for network in followers:
            for name, layer in batchnorm_layers(network).items():
                for key, buffer in self.layers[name].named_buffers(recurse=False):
                    setattr(layer, key, buffer)

    def buffers(self) -> dict[str, Tensor]:
        """Buffers that tracking changes, by name."""
        self._guard.mend()
        return {
            f"{name}.{key}": buffer
            for name, layer in self.layers.items()
            for key, buffer in layer.named_buffers(recurse=False)
        }

    def adapt(self) -> None:
        """Normalise with the batch, and track."""
        self._use(batch=True, track=True)

    def freeze(self) -> None:
        """Normalise with the tracked statistics, or still with the batch, and track no more."""
        self._guard.mend()
        batch = self.when_frozen == "batch"
        self._use(batch=batch, track=not batch)

    @contextmanager
    def untracked(self) -> Iterator[None]:
        """Inside, a network that adapts does not track."""
        before = {layer: layer.track_running_stats for layer in self.layers.values()}
        for layer in before:
            layer.track_running_stats = False
        try:
            yield
        finally:
            for layer, tracked in before.items():
                layer.track_running_stats = tracked

    def _use(self, batch: bool, track: bool) -> None:
        """Normalise with the batch or with what was tracked; `track`: layers that use the batch feed it to that."""
        for layer in self.layers.values():
            layer.training, layer.track_running_stats = batch, track
        for layer in self.following:
            layer.training, layer.track_running_stats = batch, not batch


def average_from_first(layer: _BatchNorm) -> None:
    """Track the plain mean of all batches: the first replaces the statistics that were there.

    PyTorch divides by the layer's own count of batches; kept on the host, reading it never waits for a device.
    """
    layer.momentum = None
    layer.num_batches_tracked = torch.zeros((), dtype=torch.long)


class TrackedGuard:
    """Keeps NaN and infinity of a batch out of running statistics, without waiting for the device.

    What a forward made non-finite in a channel, mean or variance, goes back to what both were before. All layers are
    looked at together, so that it costs a few launches and not a few hundred. Compiled forwards are not looked into:
    there a channel goes back to where it began, when the statistics are next used.
    """

    def __init__(self, layers: Sequence[_BatchNorm | CustomBatchNorm]) -> None:
        tracking = [layer for layer in layers if layer.running_mean is not None]
        # .data: autograd keeps these for the backward pass, which reads none of them in training mode.
        self.means = [layer.running_mean.data for layer in tracking if layer.running_mean is not None]
        self.variances = [layer.running_var.data for layer in tracking if layer.running_var is not None]
        self.before = [tensor.clone() for tensor in self.tracked]

    def watch(self, layers: Sequence[_BatchNorm]) -> None:
        """Do both by itself in every forward in which these layers track."""
        tracking = [layer for layer in layers if layer.running_mean is not None]
        if tracking:
            tracking[0].register_forward_pre_hook(self._before)
            tracking[-1].register_forward_hook(self._after)

    @property
    def tracked(self) -> list[Tensor]:
        return [*self.means, *self.variances]

    def mend(self) -> None:
        """Put back what is not finite."""
        if not self.means or torch.compiler.is_compiling():
            return
        found, before = (torch.cat(tensors).view(2, -1) for tensors in (self.tracked, self.before))
        mended = torch.where(found.isfinite().all(dim=0), found, before)
        sizes = [len(mean) for mean in self.means]
        torch._foreach_copy_(self.tracked, [part for row in mended for part in row.split(sizes)])

    def keep(self) -> None:
        """Remember what is tracked now, as what `mend` goes back to."""
        if self.means and not torch.compiler.is_compiling():
            torch._foreach_copy_(self.before, self.tracked)

    def _before(self, layer: nn.Module, _inputs: object) -> None:
        if self._watched(layer):
            self.keep()

    def _after(self, layer: nn.Module, _inputs: object, _output: object) -> None:
        if self._watched(layer):
            self.mend()

    @staticmethod
    def _watched(layer: nn.Module) -> bool:
        return bool(layer.training and layer.track_running_stats) and not torch.compiler.is_compiling()
