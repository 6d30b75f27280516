"""A method's own BatchNorm layers: mixed statistics for AlphaBN and MEMO, robust ones for RoTTA.

Each layer's statistics are blended with a batch's by the kernels that BatchNorm itself uses, in few launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tempora_tta.errors import TemporaError
from tempora_tta.methods.state import overwrite
from tempora_tta.models import Classifier

Statistics = tuple[Tensor, Tensor]
"""Mean and variance per channel."""

HAVE_UPDATE_STATS = ("cpu", "cuda")
update_stats = torch.ops.aten.batch_norm_update_stats.default
"""Mean and biased variance; R = (1 - momentum) R + momentum b, b with unbiased variance, in place."""

MOMENTUM = 0.1
"""The weight of the newest batch in tracked statistics, also where the network was trained with another."""


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
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)}
    for name, layer in layers.items():
        if layer.running_mean is None:
            raise TemporaError(f"{model.name}: its layer {name} has no source statistics to start from.")
        parent, _, child = name.rpartition(".")
        made[name] = make(layer)
        setattr(model.get_submodule(parent), child, made[name])
    return made


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


class RobustNorm(CustomBatchNorm):
    """BatchNorm that learns slowly: R' = 0.95 R + 0.05 b, b with biased variance, and normalises with R'.

    The gradient flows through b. R' becomes R only when the update that it belongs to was made.
    """

    def __init__(self, layer: _BatchNorm, momentum: float) -> None:
        super().__init__(layer)
        self.momentum = momentum
        self.learning = False
        self.proposed = (self.running_mean, self.running_var)
        self.counts: dict[int, Tensor] = {}  # by value: how many values per channel, on the device

    def normalise(self, x: Tensor) -> Tensor:
        if not self.learning:
            return self.with_statistics(x, self.running_mean, self.running_var)
        own = self.propose(x.detach())
        if not torch.is_grad_enabled():
            return self.with_statistics(x, *self.proposed)
        normalised: Tensor = RobustNormFunction.apply(x, self.weight, self.bias, *self.proposed, own, self)
        return normalised

    def propose(self, x: Tensor) -> Tensor:
        """R', given a batch; returns the batch's mean."""
        if self.copy and self.blends(x):
            self.proposed = self.copy.pop()  # R
            own_mean: Tensor
            own_mean, own_var = update_stats(x, *self.proposed, self.momentum)
            # The variance was taken as unbiased: own_var * count / (count - 1).
            count = x.numel() // x.shape[1]
            self.proposed[1].sub_(own_var, alpha=self.momentum / (count - 1))
            return own_mean
        own = self.batch_statistics(x, correction=0)
        self.proposed = blended((self.running_mean, self.running_var), own, self.momentum)
        return own[0]

    def count(self, x: Tensor) -> Tensor:
        """Values per channel, on the device."""
        count = x.numel() // x.shape[1]
        if count not in self.counts:
            self.counts = {count: torch.full((1,), count, dtype=torch.int32, device=x.device)}
        return self.counts[count]


class RobustNormFunction(torch.autograd.Function):
    """Batch normalisation with R' = (1 - m) R + m b; the gradient flows through b as well, m times as much.

    With x^ the normalised batch, d / d b's mean is -scale sum g, and d / d its variance -scale^2 / 2 sum g x^.
    Autograd would go over the batch a dozen times for this, one operation after the other.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Tensor:
        mean, var, own_mean, ctx.layer = rest
        ctx.save_for_backward(x, weight, mean, var, own_mean)
        normalised: Tensor = ctx.layer.with_statistics(x, mean, var)
        return normalised

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        into = backward_on_gpu if gradients[0].device.type == "cuda" else backward_plain
        into_x, into_weight, into_bias = into(ctx, gradients[0], *ctx.saved_tensors)
        affine = (None, None) if ctx.layer.weight is None else (into_weight, into_bias)
        return into_x, *affine, None, None, None, None


def backward_plain(
    ctx: Any, g: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, var: Tensor, own_mean: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients of x, weight and bias, given g, that of the normalised batch."""
    wanted, scale = ctx.needs_input_grad[0], (var + ctx.layer.eps).rsqrt()
    into_x, into_weight, into_bias = torch.ops.aten.native_batch_norm_backward(
        g, x, weight, mean, var, mean, scale, False, ctx.layer.eps, [wanted, True, True]
    )
    if wanted:
        share = ctx.layer.momentum * x.shape[1] / x.numel() * scale
        share = share if weight is None else share * weight
        by_mean, by_distance = -share * into_bias, -share * scale * into_weight
        shape = (1, -1, *([1] * (x.ndim - 2)))
        into_x = into_x + (by_mean - by_distance * own_mean).view(shape)
        into_x.addcmul_(x, by_distance.view(shape))
    return into_x, into_weight, into_bias


def backward_on_gpu(
    ctx: Any, g: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, var: Tensor, own_mean: Tensor
) -> tuple[Tensor | None, ...]:
    """The same by what synchronised BatchNorm calls: sums first, then x's gradient in one pass, given sums."""
    scale = (var + ctx.layer.eps).rsqrt()
    by_mean, by_distance, into_weight, into_bias = sums_on_gpu(g, x, weight, mean, scale)
    if not ctx.needs_input_grad[0]:
        return None, into_weight, into_bias
    by_mean, by_distance = torch._foreach_mul([by_mean, by_distance], ctx.layer.momentum)
    into_x = torch.batch_norm_backward_elemt(
        g, x, own_mean, scale, weight, by_mean, by_distance, ctx.layer.count(x)
    )
    return into_x, into_weight, into_bias


def sums_on_gpu(
    g: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, scale: Tensor
) -> tuple[Tensor, ...]:
    """Sum of g, sum of g (x - mean), and the gradients of weight and bias, which follow from them."""
    parts = 512 // x.shape[1]
    if not few_channels(x) or len(x) % parts or not (g.is_contiguous() and x.is_contiguous()):
        affine = weight is not None
        return torch.batch_norm_backward_reduce(g, x, mean, scale, weight, True, affine, affine)
    # Every few images' channels as channels of their own.
    shape = (len(x) // parts, parts * x.shape[1], *x.shape[2:])
    found = torch.batch_norm_backward_reduce(
        g.view(shape), x.view(shape), mean.repeat(parts), scale.repeat(parts), None, True, False, False
    )
    by_mean, by_distance = (part.view(parts, -1).sum(dim=0) for part in found[:2])
    return by_mean, by_distance, by_distance * scale, by_mean
