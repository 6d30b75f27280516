"""What gradient-based methods share: a first forward that keeps its graph, a loss, and one guarded step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError
from tempora_tta.methods.contract import Method
from tempora_tta.methods.norm import BatchStatistics, StatisticsSettings, batchnorm_layers, norm_affine
from tempora_tta.methods.optimizers import OptimizerName, all_finite, gradients_of, make_optimizer
from tempora_tta.methods.search import Times
from tempora_tta.methods.settings import Settings, setting
from tempora_tta.models import Classifier

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound=Settings)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class GradientSettings(Settings):
    """How to step.

    lr: the learning rate; follows the network's family unless given. momentum: of SGD.
    optimizer: sgd, nesterov (SGD with Nesterov's momentum) or adam; sgd unless given or published otherwise.
    """

    lr: float | None = setting(None, above=0, search=Times(30))
    momentum: float = setting(0.9, low=0, high=1)
    optimizer: OptimizerName | None = None

    default_lr: ClassVar[dict[str, float]] = {"cnn": 2.5e-4, "vit": 1e-3}
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """What was published, by `column`, where it is more than a learning rate."""

    def resolved(self, model: Classifier) -> Self:
        published = fill(self, **self.published.get(column(model), {}))
        return fill(published, optimizer="sgd", lr=self.default_lr[model.family])


@dataclass(frozen=True, kw_only=True)
class NormSettings(GradientSettings, StatisticsSettings):
    """Of a method that updates a network with BatchNorm or without."""


@dataclass(frozen=True, kw_only=True)
class TrackSettings(Settings):
    """track: which forwards feed the running statistics: those of the stream's batches, or all of them."""

    track: Literal["stream", "every_forward"] = "stream"

    paper: ClassVar[dict[str, str]] = {"track": "every_forward"}


def column(model: Classifier) -> str:
    """Which of three kinds of experiment a network resembles: "cifar" and "imagenet" for CNNs, or "vit"."""
    if model.family == "vit":
        return "vit"
    return by_classes(model, {10: "cifar", 100: "cifar", 1000: "imagenet"})


def by_classes(model: Classifier, published: Mapping[int, T]) -> T:
    """What was published for the number of classes that is nearest in log scale."""
    return published[min(published, key=lambda classes: abs(math.log(classes / model.num_classes)))]


def fill(settings: S, **defaults: Any) -> S:
    """`settings` with a default for each of these that is None."""
    missing = {name: value for name, value in defaults.items() if getattr(settings, name) is None}
    return dataclasses.replace(settings, **missing)


class GradientMethod(Method):
    """Predict with the network as it is, then step down a loss of that prediction.

    A method says what to train (`select`) and what to minimise (`loss`); the rest is common.
    """

    family = "gradient-based"
    modifies: ClassVar[tuple[str, ...]] = ("parameters",)
    state: ClassVar[tuple[str, ...]] = ("optimizer",)
    actions: ClassVar[tuple[str, ...]] = ("step", "nothing_kept", "non_finite", "none")
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
        self.optimizer = make_optimizer(self.settings.optimizer, self.groups(), self.settings.momentum)

    def make_statistics(self) -> BatchStatistics:
        """BatchNorm's statistics while adapting."""
        return BatchStatistics(self.model, self.settings.source_stats, self.settings.frozen_stats)

    def select(self) -> dict[str, nn.Parameter]:
        """The parameters to train, by name."""
        return norm_affine(self.model)

    def groups(self) -> list[tuple[list[Tensor], float]]:
        """Parameters and their learning rates."""
        return [(list(self.trainable.values()), self.settings.lr)]

    @property
    def keeps_graph(self) -> bool:
        """Whether the loss is differentiated through the first forward."""
        return True

    def forward(self, x: Tensor) -> Tensor:
        """What the first forward computes, for `scores` and `loss`: here the logits."""
        return self.logits(x)

    def scores(self, output: Tensor) -> Tensor:
        """Scores, given the first forward's output without its graph."""
        return output

    def loss(self, x: Tensor, output: Tensor) -> Tensor | None:
        """What to minimise, or None if no sample of the batch is worth learning from."""
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

    @torch.no_grad()
    def rescore(self, x: Tensor) -> Tensor:
        with self.untracked():
            return self.scores(self.forward(x))

    def adapt(self) -> str:
        if self.pending is None:
            return "none"
        (x, output), self.pending = self.pending, None
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
        self.optimizer.step(gradients)
        self.after_step()
        return "step"

    def gradients(self, loss: Tensor) -> Sequence[Tensor]:
        """Which way to step, for each of the optimiser's parameters."""
        return gradients_of(loss, self.optimizer.parameters)

    def after_step(self) -> None:
        """What follows a step that was made."""

    def keep(self, kept: Tensor) -> bool:
        """Note how many samples there are to learn from; whether there are any."""
        self.work = ("kept", float(len(kept)))
        return len(kept) > 0

    def untracked(self) -> AbstractContextManager[None]:
        """Inside, forwards do not feed the running statistics."""
        return self.statistics.untracked() if self.statistics else nullcontext()

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
