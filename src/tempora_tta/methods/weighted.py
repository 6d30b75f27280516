"""The base of CMF and ROID: samples weighted by certainty and diversity, and consistency with a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tempora_tta.methods.functions import indices
from tempora_tta.methods.gradient import GradientMethod, gradients_of


class WeightedMethod(GradientMethod):
    """Norm affine; loss = sum over kept samples of weight * (likelihood ratio + consistency) / n."""

    modifies = ("output", "parameters")
    state: ClassVar[tuple[str, ...]] = ("distribution",)
    modes = ("kept",)

    def setup(self) -> None:
        super().setup()
        classes = self.model.num_classes
        uniform = torch.full((1, classes), 1 / classes, device=self.model.device, dtype=self.model.dtype)
        self.distribution = uniform  # r, the running class distribution
        self.outputs: tuple[Tensor, ...] = ()  # logits of the batch and of its view, while it learns
        self.source_weights = [w.detach().clone() for w in self.parameters]

    def scores(self, z: Tensor) -> Tensor:
        """z times the smoothed prior of the batch."""
        return z * smoothed_prior(z)

    def loss(self, x: Tensor, z: Tensor) -> Tensor | None:
        log_p = z.log_softmax(dim=1)
        known = log_p.detach().exp()
        weight = self.weights(known, -(known * log_p.detach()).sum(dim=1))
        kept = indices(weight > 0)
        if not self.keep(kept):
            return None
        self.batch_distribution = known.mean(dim=0, keepdim=True)
        of_view = self.view_logits(self.view(x[kept]))
        self.outputs = (z, of_view)
        log_q = of_view.log_softmax(dim=1)
        log_p, weight = log_p[kept], weight[kept] / len(x)
        p, q = log_p.exp(), log_q.exp()
        consistency = -0.5 * (p * log_q + q * log_p).sum(dim=1)  # symmetric cross-entropy
        return weight @ (likelihood_ratio(p) + consistency)

    def weights(self, p: Tensor, h: Tensor) -> Tensor:
        """exp(3 div cert): more for certain samples unlike the running distribution; 0 for dropped ones."""
        alike = cosine_similarity(self.distribution, p, dim=1)
        diversity, certainty = scaled(torch.stack([1 - alike, -h]))
        return torch.where(diversity >= diversity.mean(), (3 * diversity * certainty).exp(), 0)

    def gradients(self, loss: Tensor) -> Sequence[Tensor]:
        """Through the batch and its view one after the other: together, each parameter's sum would be a launch."""
        parts = torch.autograd.grad(loss, self.outputs)
        parameters = self.parameters
        first, second = (
            gradients_of(z, parameters, part) for z, part in zip(self.outputs, parts, strict=True)
        )
        self.outputs = ()
        return torch._foreach_add(list(first), list(second))

    def view(self, x: Tensor) -> Tensor:
        """One random view of each image."""
        raise NotImplementedError

    @torch.no_grad()
    def after_step(self) -> None:
        """r follows the batch, the weights remember the source."""
        self.distribution = 0.9 * self.distribution + 0.1 * self.batch_distribution
        self.remember_source()

    def remember_source(self) -> None:
        """Draw the weights back, each step a little."""
        raise NotImplementedError


def smoothed_prior(z: Tensor) -> Tensor:
    """The batch's mean prediction, smoothed the more the smaller the batch: (mean p + s) / (1 + s C)."""
    n, classes = z.shape
    mean = z.softmax(dim=1).mean(dim=0, keepdim=True)
    smoothing = max(1 / n, 1 / classes) / mean.max()
    return (mean + smoothing) / (1 + smoothing * classes)


def likelihood_ratio(p: Tensor) -> Tensor:
    """-sum u log(u / (1 - u)), u = p up to 0.99; unlike entropy's, its gradient outlasts certainty."""
    u = p.clamp(max=0.99)
    return -(u * (u / (1 - u) + 1e-5).log()).sum(dim=1)


def scaled(values: Tensor) -> Tensor:
    """Each row's values moved and scaled to [0, 1]; 0 where all are equal."""
    least, greatest = values.aminmax(dim=1, keepdim=True)
    width = greatest - least
    return torch.where(width > 0, (values - least) / width, 0)
