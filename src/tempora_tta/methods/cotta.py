"""CoTTA (Wang et al., 2022): a student follows an averaged teacher, and forgets at random back to the source."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from tempora_tta.methods import LEARNS, NO_OP, UNTIMED, Moment, by_classes, register, setting
from tempora_tta.methods.functions import cross_entropy
from tempora_tta.methods.gradient import RATE, GradientMethod, NormSettings, OptimizerName
from tempora_tta.methods.norm import BatchStatistics
from tempora_tta.methods.views import Draws, Jitter

TEACHER_MOMENTUM = 0.999


@dataclass(frozen=True, kw_only=True)
class CoTTASettings(NormSettings):
    """Averages over views, and memory of the source.

    gate: views are averaged where the source's mean top probability is below. views: how many.
    restore: probability of each weight to become the source's again. target: plain or symmetric cross-entropy.
    draws: whether a view's random draws are shared by the batch or made per sample.
    """

    optimizer: OptimizerName = by_classes({10: "adam", 100: "adam", 1000: "nesterov"}, vit="sgd")
    lr: float = by_classes({10: 1e-3, 100: 1e-3, 1000: 1e-2}, vit=5e-3, **RATE)
    gate: float = by_classes({10: 0.92, 100: 0.72, 1000: 0.1}, low=0, high=1)
    views: int = setting(32, low=1)
    restore: float = by_classes({10: 0.01, 100: 0.01, 1000: 0.001}, low=0, high=1)
    target: Literal["plain", "symmetric"] = by_classes({10: "plain", 100: "plain", 1000: "symmetric"})
    draws: Draws = "batch"


@register
class CoTTA(GradientMethod):
    """Every weight and bias; loss = cross-entropy of the student with what the teacher said."""

    name = "cotta"
    label = "CoTTA"
    modifies = ("parameters", "output")
    Settings = CoTTASettings
    state = ("dice", "drawn")
    actions = {"step": LEARNS, "non_finite": NO_OP, "none": UNTIMED}
    modes = ("plain", "views")
    only_by_name = True

    def setup(self) -> None:
        self.teacher, self.anchor = copy.deepcopy(self.model), copy.deepcopy(self.model)
        super().setup()
        teacher, anchor = (dict(network.named_parameters()) for network in (self.teacher, self.anchor))
        self.changing = {f"teacher.{name}": teacher[name] for name in self.trainable}
        self.source_weights: list[Tensor] = [anchor[name] for name in self.trainable]
        self.jitter = Jitter(self.model, self.name)
        self.dice = torch.Generator().manual_seed(self.seed)
        self.drawn: dict[int, Tensor] = {}  # masks by the identity of their parameters

    def make_statistics(self) -> BatchStatistics:
        """One set, fed by the student's forward of the batch alone."""
        kept, frozen = self.settings.source_stats, self.settings.frozen_stats
        return BatchStatistics(self.model, kept, frozen, followers=(self.teacher, self.anchor))

    def select(self) -> dict[str, nn.Parameter]:
        """All but class token and positions, which are called neither weight nor bias."""
        return {name: w for name, w in self.model.named_parameters() if is_weight_or_bias(name)}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        if self.frozen:
            return self.teacher(x)
        scores = self.taught(x)
        self.pending = (x, scores) if self.learning else None
        return scores

    def taught(self, x: Tensor) -> Tensor:
        """The teacher's logits; averaged over views where the source is uncertain about the batch."""
        confidence = self.logits(x, self.anchor).softmax(dim=1).amax(dim=1).mean()
        if not confidence < self.settings.gate:
            self.work = ("plain", 1.0)
            return self.logits(x, self.teacher)
        views: int = self.settings.views
        self.work = ("views", float(views))
        total = torch.zeros((), device=x.device, dtype=x.dtype)
        for _ in range(views):
            total = total + self.logits(self.view(x), self.teacher)
        return total / views

    def predict_again(self, x: Tensor, *moment: Moment) -> Tensor:
        drawn = self.dice.get_state(), self.generator.get_state()
        scores = super().predict_again(x, *moment)
        self.dice.set_state(drawn[0])
        self.generator.set_state(drawn[1])
        return scores

    def loss(self, x: Tensor, taught: Tensor) -> Tensor:
        log_p, log_u = taught.log_softmax(dim=1), self.logits(x).log_softmax(dim=1)
        plain = cross_entropy(log_p, log_u)
        if self.settings.target == "plain":
            return plain.mean()
        return (0.5 * plain + 0.5 * cross_entropy(log_u, log_p)).mean()

    @torch.no_grad()
    def after_step(self) -> None:
        """t = 0.999 t + 0.001 w; only then some elements of w become the source's again."""
        weights = self.parameters
        torch._foreach_lerp_(list(self.changing.values()), weights, 1 - TEACHER_MOMENTUM)
        masks = [self.mask(w).to(w.dtype) for w in weights]
        torch._foreach_lerp_(weights, self.source_weights, masks)

    def mask(self, w: Tensor) -> Tensor:
        """1 for the elements that are restored, 0 for the others.

        When the first parameter's is asked for, those of all are drawn, in their order, in one launch.
        """
        if id(w) not in self.drawn:
            among = any(w is weight for weight in self.parameters)
            weights = self.parameters if among else [w]
            sizes = [weight.numel() for weight in weights]
            drawn = torch.rand(sum(sizes), device=w.device, generator=self.generator)
            parts = drawn.lt_(self.settings.restore).split(sizes)
            self.drawn = {id(one): part.view(one.shape) for one, part in zip(weights, parts, strict=True)}
        return self.drawn.pop(id(w))

    def view(self, x: Tensor) -> Tensor:
        """One random view of each image."""
        return self.jitter(x, self.dice, self.generator, self.settings.draws)


def is_weight_or_bias(name: str) -> bool:
    """Also the joint projections of PyTorch's attention, in_proj_weight and in_proj_bias."""
    return name.rpartition(".")[2].removeprefix("in_proj_") in ("weight", "bias")
