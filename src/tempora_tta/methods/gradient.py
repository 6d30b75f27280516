"""The base of gradient-based methods: a first forward that keeps its graph, a loss, and one guarded step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError
from tempora_tta.methods.contract import LEARNS, NO_OP, UNTIMED, Did, Method
from tempora_tta.methods.norm import BatchStatistics, StatisticsSettings, batchnorm_layers, norm_affine
from tempora_tta.methods.settings import LogRange, Settings, by_family, setting

OptimizerName = Literal["sgd", "nesterov", "adam"]
RATE: dict[str, Any] = {"above": 0, "search": LogRange(30)}
"""Limits of a learning rate."""
USUAL_SIZE = 64
"""Batch size of the published learning rates, and of the recipes that ship."""


@dataclass(frozen=True, kw_only=True)
class GradientSettings(Settings):
    """The optimiser.

    lr: the learning rate. lr_scaling: linear takes the rate times batch size / 64, since small batches step more
    often; none as published. momentum: of SGD. optimizer: sgd, nesterov (SGD with Nesterov's momentum) or adam.
    """

    lr: float = by_family(cnn=2.5e-4, vit=1e-3, **RATE)
    lr_scaling: Literal["none", "linear"] = "none"
    momentum: float = setting(0.9, low=0, high=1)
    optimizer: OptimizerName = "sgd"


@dataclass(frozen=True, kw_only=True)
class NormSettings(GradientSettings, StatisticsSettings):
    """Settings of a method that updates a network with BatchNorm or without."""


@dataclass(frozen=True, kw_only=True)
class TrackSettings(Settings):
    """track: which forwards feed the running statistics: those of the stream's batches, or all of them."""

    track: Literal["stream", "every_forward"] = "stream"

    paper: ClassVar[dict[str, str]] = {"track": "every_forward"}


class GradientMethod(Method):
    """Predict with the network as it is, then step down a loss of that prediction.

    A method says what to train (`select`) and what to minimise (`loss`); the rest is common.
    """

    family = "gradient-based"
    modifies: ClassVar[tuple[str, ...]] = ("parameters",)
    state: ClassVar[tuple[str, ...]] = ("optimizer",)
    actions: ClassVar[Mapping[str, Did]] = {
        "step": LEARNS,
        "nothing_kept": NO_OP,
        "non_finite": NO_OP,
        "none": UNTIMED,
    }
    repeats = True
    Settings: ClassVar[type[GradientSettings]] = NormSettings

    def setup(self) -> None:
        if isinstance(self.settings, StatisticsSettings):
            self.statistics = self.make_statistics()
        self.trainable = dict(self.select())
        if not self.trainable:
            raise TemporaError(
                f"{self.name} does not fit {self.model.name}: it has no normalisation layer to update. "
                "Leave it out, or use a network with BatchNorm, LayerNorm or GroupNorm."
            )
        self.parameters: list[Tensor] = list(self.trainable.values())
        self.optimizer = self.make_optimizer()

    def make_statistics(self) -> BatchStatistics:
        """BatchNorm's statistics while adapting."""
        return BatchStatistics(self.model, self.settings.source_stats, self.settings.frozen_stats)

    def select(self) -> dict[str, nn.Parameter]:
        """The parameters to train, by name."""
        return norm_affine(self.model)

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Make what steps, in a few launches for all parameters together."""
        groups, name = self.groups(), self.settings.optimizer
        if name == "adam":
            return torch.optim.Adam(groups, foreach=True)
        momentum, nesterov = self.settings.momentum, name == "nesterov"
        return torch.optim.SGD(groups, momentum=momentum, nesterov=nesterov, foreach=True)

    def groups(self) -> list[dict[str, Any]]:
        """Parameters and their learning rates."""
        return [{"params": self.parameters, "lr": self.settings.lr}]

    @property
    def keeps_graph(self) -> bool:
        """True if the loss is differentiated through the first forward."""
        return True

    def forward(self, x: Tensor) -> Tensor:
        """The first forward's output, for `scores` and `loss`: here the logits."""
        return self.logits(x)

    def scores(self, output: Tensor) -> Tensor:
        """Scores, given the first forward's output without its graph."""
        return output

    def loss(self, x: Tensor, output: Tensor) -> Tensor | None:
        """The loss to minimise, or None if no sample of the batch is worth learning from."""
        raise NotImplementedError

    def predict(self, x: Tensor) -> Tensor:
        if self.frozen:
            with torch.no_grad():
                return self.logits(x)
        with torch.set_grad_enabled(self.learning and self.keeps_graph):
            output = self.forward(x)
        self.pending = (x, output) if self.learning else None
        with torch.no_grad():
            return self.scores(output.detach())

    def adapt(self) -> str:
        if self.pending is None:
            return "none"
        (x, output), self.pending = self.pending, None
        if self.settings.lr_scaling == "linear":
            for group, usual in zip(self.optimizer.param_groups, self.groups(), strict=True):
                group["lr"] = usual["lr"] * len(x) / USUAL_SIZE
        with torch.enable_grad():
            return self.learn(x, output)

    def learn(self, x: Tensor, output: Tensor) -> str:
        """One step down the loss of one batch."""
        loss = self.loss(x, output)
        return "nothing_kept" if loss is None else self.descend(loss)

    def descend(self, loss: Tensor) -> str:
        """The step, unless something is not finite. Waits for the device once."""
        gradients = self.gradients(loss)
        if not all_finite(loss, gradients):
            return "non_finite"
        self.step(gradients)
        self.after_step()
        return "step"

    def gradients(self, loss: Tensor) -> Sequence[Tensor]:
        """The gradient of each parameter, in the order of `parameters`."""
        return gradients_of(loss, self.parameters)

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Step along these gradients."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        self.optimizer.zero_grad()

    def after_step(self) -> None:
        """Follow a step that was made."""

    def keep(self, kept: Tensor) -> bool:
        """Note the number of samples to learn from; True if there are any."""
        self.work = ("kept", float(len(kept)))
        return len(kept) > 0

    def second_forward(self) -> AbstractContextManager[None]:
        """For forwards of an altered view or with altered weights: tracked only if `track` says so."""
        return nullcontext() if self.settings.track == "every_forward" else self.untracked()

    def view_logits(self, x: Tensor) -> Tensor:
        """Logits of altered views, normalised with their own statistics.

        One view alone can leave BatchNorm with a single value per channel, which PyTorch refuses; the view
        twice has the same mean and variance.
        """
        with self.second_forward():
            try:
                return self.model(x)
            except ValueError:
                if len(x) > 1:
                    raise
        with self.untracked():
            return self.model(x.expand(2, *x.shape[1:]))[:1]

    def refuse_batchnorm(self, reason: str) -> None:
        """Raise if the network normalises over the batch."""
        if batchnorm_layers(self.model):
            raise TemporaError(
                f"{self.name} does not fit {self.model.name}: {reason}, and BatchNorm mixes the "
                "samples of a batch. Use a network with LayerNorm or GroupNorm: vit_b_16, resnet50_gn."
            )


def gradients_of(
    loss: Tensor, parameters: Sequence[Tensor], into: Tensor | None = None
) -> tuple[Tensor, ...]:
    """d loss / d parameter for each; zero for one that the loss does not depend on.

    into: d loss / d `loss`, where that is an output which the loss is made of.
    """
    return torch.autograd.grad(loss, list(parameters), into, allow_unused=True, materialize_grads=True)


def all_finite(loss: Tensor, gradients: Sequence[Tensor]) -> Tensor:
    """A scalar on the device, which is not waited for: true if the loss and every gradient are finite."""
    norms = torch.stack(torch._foreach_norm(list(gradients)))
    return (loss.detach() + norms.sum()).isfinite()
