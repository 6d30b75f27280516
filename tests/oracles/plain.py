"""Parts that several oracles share: BatchNorm with its sums written out, SGD by hand, entropy of one sample."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

Image = Callable[[Tensor], Tensor]


class PlainBatchNorm(nn.Module):
    """BatchNorm2d from its definition; two switches say which statistics it uses and whether it tracks."""

    def __init__(self, source: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = source.weight, source.bias, source.eps
        self.register_buffer("running_mean", source.running_mean.clone())
        self.register_buffer("running_var", source.running_var.clone())
        self.use_batch = False
        self.track = False

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.running_mean, self.running_var
        if self.use_batch:
            count = x.shape[0] * x.shape[2] * x.shape[3]
            mean = x.sum(dim=(0, 2, 3)) / count
            var = ((x - mean[:, None, None]) ** 2).sum(dim=(0, 2, 3)) / count
            if self.track:
                unbiased = var.detach() * count / (count - 1)
                self.running_mean = 0.9 * self.running_mean + 0.1 * mean.detach()
                self.running_var = 0.9 * self.running_var + 0.1 * unbiased
        normalised = (x - mean[:, None, None]) / torch.sqrt(var[:, None, None] + self.eps)
        return normalised * self.weight[:, None, None] + self.bias[:, None, None]


def replace_batch_norms(network: nn.Module) -> list[PlainBatchNorm]:
    """Put a PlainBatchNorm in the place, and under the name, of every BatchNorm2d."""
    found = []
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                found.append(PlainBatchNorm(child))
                setattr(parent, name, found[-1])
    return found


class PlainSGD:
    """w <- w - lr * m with m <- 0.9 m + g, for parameters known by name."""

    def __init__(self, lr: dict[str, float]) -> None:
        self.lr = lr
        self.buffers: dict[str, Tensor] = {}

    def step(self, parameters: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        for name, gradient in gradients.items():
            self.buffers[name] = 0.9 * self.buffers.get(name, torch.zeros_like(gradient)) + gradient
            with torch.no_grad():
                parameters[name] -= self.lr[name] * self.buffers[name]


def log_probabilities(z: Tensor) -> Tensor:
    """log softmax of one sample's logits."""
    return z - z.max() - torch.log(torch.exp(z - z.max()).sum())


def probabilities(z: Tensor) -> Tensor:
    return torch.exp(log_probabilities(z))


def entropy(z: Tensor) -> Tensor:
    log_p = log_probabilities(z)
    return -(torch.exp(log_p) * log_p).sum()


def mean(values: list[Tensor]) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total / len(values)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / (torch.sqrt((a * a).sum()) * torch.sqrt((b * b).sum()))


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    return (torch.exp(log_p) * (log_p - log_q)).sum()


class Oracle:
    """A network in eval mode that may use batch statistics, tracked from (0, 1) or from the source."""

    batch_statistics = False
    source_stats = "reset"

    def __init__(
        self,
        network: nn.Module,
        *,
        source_stats: str | None = None,
        frozen_stats: str = "tracked",
        track: str = "stream",
    ) -> None:
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.batch_norms = replace_batch_norms(self.network)
        self.is_vit = hasattr(self.network, "blocks")
        self.head = self.network.head if self.is_vit else self.network.fc
        self.head.register_forward_pre_hook(self._remember_features)
        self.frozen_stats = frozen_stats
        self.track_every_forward = track == "every_forward"
        self.frozen = False
        if self.batch_statistics and (source_stats or self.source_stats) == "reset":
            for norm in self.batch_norms:
                norm.running_mean = torch.zeros_like(norm.running_mean)
                norm.running_var = torch.ones_like(norm.running_var)
        # How many samples each step of each batch kept, for tests that ask whether filters did anything.
        self.kept: list[tuple[int, ...]] = []

    def _remember_features(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.features = inputs[0]

    def forward(self, x: Tensor, *, of_the_stream: bool) -> Tensor:
        """Logits. The first forward of a batch belongs to the stream and feeds the statistics."""
        for norm in self.batch_norms:
            norm.use_batch = self.batch_statistics and (not self.frozen or self.frozen_stats == "batch")
            norm.track = not self.frozen and (of_the_stream or self.track_every_forward)
        return self.network(x)

    def predict(self, x: Tensor) -> Tensor:
        self.x = x
        with torch.set_grad_enabled(not self.frozen):
            self.z = self.forward(x, of_the_stream=True)
        return self.scores(self.z).detach()

    def scores(self, z: Tensor) -> Tensor:
        return z

    def adapt(self) -> str:
        return "none"

    def predict_again(self) -> Tensor:
        """Scores of the same batch after adapt(), still on batch statistics, leaving no trace."""
        for norm in self.batch_norms:
            norm.track = False
        with torch.no_grad():
            return self.network(self.x)

    def freeze(self) -> None:
        self.frozen = True

    def extra_state(self) -> dict[str, Tensor]:
        """Return what the method keeps besides the network, under the method's names."""
        return {}

    def parameters(self) -> dict[str, Tensor]:
        return dict(self.network.named_parameters())

    def statistics(self) -> dict[str, Tensor]:
        return {k: v for k, v in self.network.named_buffers() if k.endswith(("running_mean", "running_var"))}
