"""MEMO (Zhang et al., 2022): adapt to one image at a time, by agreeing over its views, and forget it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.func import functional_call

from tempora_tta.methods import LEARNS, UNTIMED, Method, Settings, by_classes, by_family, register, setting
from tempora_tta.methods.custom_norm import Copies, MixedNorm, replace_batchnorm
from tempora_tta.methods.gradient import RATE, all_finite, gradients_of
from tempora_tta.methods.state import overwrite
from tempora_tta.methods.views import Pixels, augmix

PRIOR = 16  # images that the source's BatchNorm statistics count for
GROUP = 4  # images that are scored together
EPSILON = 1e-8  # of AdamW


@dataclass(frozen=True, kw_only=True)
class MEMOSettings(Settings):
    """One step per image: optimizer, lr, decay (AdamW's), and the number of views."""

    optimizer: Literal["sgd", "adamw"] = by_family(cnn="sgd", vit="adamw")
    lr: float = by_classes({10: 5e-3, 100: 5e-3, 1000: 2.5e-4}, vit=1e-5, **RATE)
    decay: float = setting(0.01, low=0)
    views: int = by_classes({10: 32, 100: 32, 1000: 64}, vit=64, low=1)


@register
class MEMO(Method):
    """Every parameter; loss = entropy of the views' mean probability; nothing is carried over to the next image."""

    name = "memo"
    label = "MEMO"
    family = "gradient-based"
    modifies = ("parameters", "activations")
    actions = {"none": LEARNS | UNTIMED}
    repeats = True
    history_free = True
    stateless = True
    Settings = MEMOSettings
    modes = ("views",)
    only_by_name = True

    def setup(self) -> None:
        self.pixels = Pixels(self.model, self.name)
        layers = replace_batchnorm(self.model, MixedNorm).values()
        for layer in layers:
            layer.weight_of_batch = 1 / (PRIOR + 1)
        self.copies = Copies({layer: (layer.source_mean, layer.source_var) for layer in layers})
        self.weights = dict(self.model.requires_grad_(True).named_parameters())
        # To launch an image's forward takes a GPU's host longer than the GPU to do it, unless the network is large.
        launching = self.model.device.type == "cuda" and self.model.family == "cnn"
        self.score_together(GROUP if launching else 1)
        self.dice = torch.Generator()

    def score_together(self, images: int) -> None:
        """Keep the weights of `images` images at a time, to score those in one forward if there are several."""
        self.together = images > 1
        self.stepped = {name: w.detach().expand(images, *w.shape).clone() for name, w in self.weights.items()}
        self.rows = [[w[place] for w in self.stepped.values()] for place in range(images)]

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
        with torch.no_grad():
            scores, finite = [], []
            for images in x.split(len(self.rows)):
                finite += [self.learn(*pair) for pair in zip(images, self.rows, strict=False)]
                scores.append(self.adapted_scores(images))
            found = torch.cat(scores)
            for index in torch.stack(finite).logical_not().nonzero().flatten().tolist():  # waits, once
                found[index] = self.model(x[index : index + 1])[0]
        return found

    def learn(self, image: Tensor, stepped: list[Tensor]) -> Tensor:
        """One step on the views of an image, from the source's weights into `stepped`; whether it was finite."""
        views = self.views(image)
        source = list(self.weights.values())
        with torch.enable_grad():
            self.copies.refresh()
            loss = marginal_entropy(self.model(views))
            gradients = gradients_of(loss, source)
        overwrite(stepped, source)
        self.step(stepped, list(gradients))
        return all_finite(loss, gradients)

    def step(self, weights: list[Tensor], gradients: list[Tensor]) -> None:
        """The optimiser's first step."""
        lr = self.settings.lr
        if self.settings.optimizer == "adamw":
            # Both moments, corrected for bias, are the gradient and its square.
            torch._foreach_mul_(weights, 1 - lr * self.settings.decay)
            scale = torch._foreach_abs(gradients)
            torch._foreach_add_(scale, EPSILON)
            gradients = list(torch._foreach_div(gradients, scale))
        torch._foreach_add_(weights, gradients, alpha=-lr)

    def adapted_scores(self, images: Tensor) -> Tensor:
        """Logits of each image under the weights that were stepped for it."""
        stepped = {name: w[: len(images)] for name, w in self.stepped.items()}
        if self.together:
            self._normalise(use="mapped")
            try:
                return torch.vmap(self.alone)(stepped, images)
            except (RuntimeError, ValueError):  # the network does what cannot be done under several weights
                self.together = False
            finally:
                self._normalise(use="mixed")
        each = [{name: w[place] for name, w in stepped.items()} for place in range(len(images))]
        return torch.stack([self.alone(*pair) for pair in zip(each, images, strict=True)])

    def alone(self, weights: dict[str, Tensor], image: Tensor) -> Tensor:
        """Logits of one image under these weights."""
        logits: Tensor = functional_call(self.model, weights, image[None])
        return logits[0]

    def views(self, image: Tensor) -> Tensor:
        """Random views of one image."""
        mean, std = self.pixels.mean, self.pixels.std
        return (augmix((image * std + mean).clamp(0, 1), self.settings.views, self.dice) - mean) / std

    def _normalise(self, use: str) -> None:
        for layer in self.model.modules():
            if isinstance(layer, MixedNorm):
                layer.use = use


def marginal_entropy(z: Tensor) -> Tensor:
    """-sum exp(l) l, l the logarithm of the views' mean probability."""
    log_mean = z.log_softmax(dim=1).logsumexp(dim=0) - math.log(len(z))
    log_mean = log_mean.clamp(min=torch.finfo(z.dtype).min)
    return -(log_mean.exp() * log_mean).sum()
