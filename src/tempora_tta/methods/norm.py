"""Normalisation layers: their affine parameters, and the statistics that BatchNorm uses and tracks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tempora_tta.errors import TemporaError
from tempora_tta.methods.settings import Settings
from tempora_tta.methods.state import overwrite
from tempora_tta.models import Classifier

SourceStats = Literal["reset", "keep"]
FrozenStats = Literal["tracked", "batch", "averaged"]

Statistics = tuple[Tensor, Tensor]
"""Mean and variance per channel."""

HAVE_UPDATE_STATS = ("cpu", "cuda")
update_stats = torch.ops.aten.batch_norm_update_stats.default
"""Mean and biased variance; R = (1 - momentum) R + momentum b, b with unbiased variance, in place."""

MOMENTUM = 0.1
"""The weight of the newest batch in tracked statistics, also where the network was trained with another."""


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


class CustomBatchNorm(nn.Module):
    """Base of a method's own BatchNorm layers: `normalise` decides which statistics are used.

    Takes the place and the name of a BatchNorm layer, with its weight, bias and statistics.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, layer: _BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps
        self.num_features = layer.num_features
        self.register_buffer("running_mean", layer.running_mean)
        self.register_buffer("running_var", layer.running_var)
        self.copy: list[Statistics] = []
        """A copy of statistics that one batch may be blended into, if `Copies` made one."""
        # What layers that are fused with an activation do after it.
        self.after = [part for key in ("drop", "act") if (part := getattr(layer, key, None)) is not None]

    def forward(self, x: Tensor) -> Tensor:
        x = self.normalise(x)
        for part in self.after:
            x = part(x)
        return x

    def normalise(self, x: Tensor) -> Tensor:
        """The normalised batch, times weight, plus bias."""
        raise NotImplementedError

    def with_statistics(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Normalised with these, through which no gradient flows."""
        # What functional.batch_norm calls, without the checks for each of many small layers.
        cudnn = torch.backends.cudnn.enabled
        return torch.batch_norm(x, self.weight, self.bias, mean, var, False, 0.0, self.eps, cudnn)

    def blends(self, x: Tensor) -> bool:
        """True if `update_stats` is the way to blend a batch into a copy of statistics."""
        return x.numel() > x.shape[1] and not few_channels(x)

    @torch.no_grad()
    def batch_statistics(self, x: Tensor, correction: int) -> Statistics:
        """Mean and variance per channel, without a gradient; the variance is divided by count - correction."""
        x = x.to(self.running_mean.dtype)
        if x.device.type not in HAVE_UPDATE_STATS or few_channels(x):
            var, mean = torch.var_mean(x, dim=[0, *range(2, x.ndim)], correction=correction)
            return mean, var
        # What BatchNorm itself calls: a tenth of var_mean's time on a CPU; on a GPU launched in half of it.
        mean, var = update_stats(x, None, None, 0.0)
        count = x.numel() // x.shape[1]
        return mean, var * (count / (count - correction)) if correction else var


def few_channels(x: Tensor) -> bool:
    """True if BatchNorm's kernels, which give a channel to one processor of a GPU, would leave most of it idle."""
    return x.device.type == "cuda" and x.shape[1] <= 128 and x.numel() // x.shape[1] >= 100_000


class Copies:
    """Copies of all layers' statistics, made in one launch before a forward: each layer then blends its batch in by
    one more (`update_stats`). A layer that is used twice in a forward finds its copy gone, and takes several.
    """

    def __init__(self, of: Mapping[CustomBatchNorm, Statistics]) -> None:
        usable = {layer: pair for layer, pair in of.items() if pair[0].device.type in HAVE_UPDATE_STATS}
        self.layers = list(usable)
        self.originals = [part for pair in usable.values() for part in pair]
        self.copies = [part.clone() for part in self.originals]

    def refresh(self) -> None:
        """For the next forward."""
        overwrite(self.copies, self.originals)
        for layer, mean, var in zip(self.layers, self.copies[::2], self.copies[1::2], strict=True):
            layer.copy[:] = [(mean, var)]


@torch.no_grad()
def blended(old: Statistics, new: Statistics, weight: float) -> Statistics:
    """(1 - weight) old + weight new, mean and variance in one launch."""
    mean, var = torch._foreach_lerp(list(old), list(new), weight)
    return mean, var


N = TypeVar("N", bound=CustomBatchNorm)


def replace_batchnorm(model: Classifier, make: Callable[[_BatchNorm], N]) -> dict[str, N]:
    """Put one of `make`'s in the place, and under the name, of every BatchNorm layer."""
    made = {}
    for name, layer in batchnorm_layers(model).items():
        if layer.running_mean is None:
            raise TemporaError(f"{model.name}: its layer {name} has no source statistics to start from.")
        parent, _, child = name.rpartition(".")
        made[name] = make(layer)
        setattr(model.get_submodule(parent), child, made[name])
    return made


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

    def __init__(self, layers: Sequence[_BatchNorm]) -> None:
        tracking = [layer for layer in layers if layer.running_mean is not None]
        # .data: autograd keeps these for the backward pass, which reads none of them in training mode.
        self.means = [layer.running_mean.data for layer in tracking if layer.running_mean is not None]
        self.variances = [layer.running_var.data for layer in tracking if layer.running_var is not None]
        self.before = [tensor.clone() for tensor in self.tracked]
        if tracking:
            tracking[0].register_forward_pre_hook(self._keep)
            tracking[-1].register_forward_hook(self._look)

    @property
    def tracked(self) -> list[Tensor]:
        return [*self.means, *self.variances]

    def mend(self) -> None:
        """Put back what is not finite."""
        if not self.means:
            return
        found, before = (torch.cat(tensors).view(2, -1) for tensors in (self.tracked, self.before))
        mended = torch.where(found.isfinite().all(dim=0), found, before)
        sizes = [len(mean) for mean in self.means]
        torch._foreach_copy_(self.tracked, [part for row in mended for part in row.split(sizes)])

    def _keep(self, layer: nn.Module, _inputs: object) -> None:
        if self._watched(layer):
            torch._foreach_copy_(self.before, self.tracked)

    def _look(self, layer: nn.Module, _inputs: object, _output: object) -> None:
        if self._watched(layer):
            self.mend()

    @staticmethod
    def _watched(layer: nn.Module) -> bool:
        return bool(layer.training and layer.track_running_stats) and not torch.compiler.is_compiling()
