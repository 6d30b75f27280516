"""MEMO (Zhang et al., 2022): adapt to one image at a time, by agreeing over its views, and forget it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor

from tempora.errors import TemporaError
from tempora.methods.augmix import augmix
from tempora.methods.contract import Method
from tempora.methods.gradient import column, fill
from tempora.methods.mixed import MixedNorm, SourceCopies
from tempora.methods.norm import replace_batchnorm
from tempora.methods.optimizers import Adam, all_finite, gradients_of
from tempora.methods.registry import register
from tempora.methods.search import Times
from tempora.methods.settings import Settings, setting
from tempora.methods.state import overwrite
from tempora.models import Classifier

if TYPE_CHECKING:
    from typing_extensions import Self

PRIOR = 16  # images that the source's BatchNorm statistics count for


@dataclass(frozen=True, kw_only=True)
class MEMOSettings(Settings):
    """One step per image: optimizer, lr, decay (AdamW's), and the number of views. All follow the network."""

    optimizer: Literal["sgd", "adamw"] | None = None
    lr: float | None = setting(None, above=0, search=Times(30))
    decay: float = setting(0.01, low=0)
    views: int | None = setting(None, low=1)

    published: ClassVar[dict[str, dict[str, Any]]] = {
        "cifar": {"optimizer": "sgd", "lr": 5e-3, "views": 32},
        "imagenet": {"optimizer": "sgd", "lr": 2.5e-4, "views": 64},
        "vit": {"optimizer": "adamw", "lr": 1e-5, "views": 64},
    }

    def resolved(self, model: Classifier) -> Self:
        return fill(self, **self.published[column(model)])


@register
class MEMO(Method):
    """Every parameter; loss = entropy of the views' mean probability; nothing is carried over to the next image."""

    name = "memo"
    label = "MEMO"
    family = "gradient-based"
    modifies = ("parameters", "activations")
    idle = ()  # it learns in predict()
    history_free = True
    stateless = True
    Settings = MEMOSettings
    modes = ("views",)
    costly = True

    def setup(self) -> None:
        preprocessing = self.model.preprocessing
        if len(preprocessing.mean) not in (1, 3):
            raise TemporaError(
                f"memo does not fit {self.model.name}: its views are made of grey or RGB pixels, and its images "
                f"have {len(preprocessing.mean)} channels."
            )
        self.mean, self.std = (
            torch.tensor(values, device=self.model.device, dtype=self.model.dtype)[:, None, None]
            for values in (preprocessing.mean, preprocessing.std)
        )
        layers = replace_batchnorm(self.model, MixedNorm).values()
        for layer in layers:
            layer.weight_of_batch = 1 / (PRIOR + 1)
        self.copies = SourceCopies(layers)
        self.weights: list[Tensor] = list(self.model.requires_grad_(True).parameters())
        self.source_weights = [w.detach().clone() for w in self.weights]
        self.dice = torch.Generator()

    def freeze(self) -> None:
        super().freeze()
        self._normalise(use="running")  # which nothing tracks, so that they are the source's

    def unfreeze(self) -> None:
        super().unfreeze()
        self._normalise(use="mixed")

    def predict(self, x: Tensor) -> Tensor:
        if self.frozen:
            with torch.no_grad():
                return self.model(x)
        self.dice.manual_seed(self.seed)  # so that scores do not depend on earlier batches
        self.work = ("views", float(len(x) * self.settings.views))
        each, finite = zip(*(self.adapted_scores(image) for image in x), strict=True)
        scores = torch.cat(each)
        for index in torch.stack(finite).logical_not().nonzero().flatten().tolist():  # waits, once
            with torch.no_grad():
                scores[index] = self.model(x[index : index + 1])[0]
        return scores

    def rescore(self, x: Tensor) -> Tensor:
        return self.predict(x)

    def adapted_scores(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of one image after one step on its views, and whether the step was finite."""
        with torch.enable_grad():
            views = self.views(image)
            self.copies.refresh()
            loss = marginal_entropy(self.model(views))
            gradients = gradients_of(loss, self.weights)
        with torch.no_grad():
            try:
                self.step(list(gradients))
                self.copies.refresh()
                return self.model(image[None]), all_finite(loss, gradients)
            finally:
                overwrite(self.weights, self.source_weights)

    def step(self, gradients: list[Tensor]) -> None:
        """One step from the source's weights."""
        lr = self.settings.lr
        if self.settings.optimizer == "adamw":
            # Its first step: both moments, corrected for bias, are the gradient and its square.
            torch._foreach_mul_(self.weights, 1 - lr * self.settings.decay)
            scale = torch._foreach_abs(gradients)
            torch._foreach_add_(scale, Adam.EPS)
            gradients = list(torch._foreach_div(gradients, scale))
        torch._foreach_add_(self.weights, gradients, alpha=-lr)

    def views(self, image: Tensor) -> Tensor:
        """Random views of one image."""
        pixels = (image * self.std + self.mean).clamp(0, 1)
        return (augmix(pixels, self.settings.views, self.dice) - self.mean) / self.std

    def _normalise(self, use: str) -> None:
        for layer in self.model.modules():
            if isinstance(layer, MixedNorm):
                layer.use = use


def marginal_entropy(z: Tensor) -> Tensor:
    """-sum exp(l) l, l the logarithm of the views' mean probability."""
    log_mean = z.log_softmax(dim=1).logsumexp(dim=0) - math.log(len(z))
    log_mean = log_mean.clamp(min=torch.finfo(z.dtype).min)
    return -(log_mean.exp() * log_mean).sum()
