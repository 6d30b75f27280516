"""CMF (Lee et al., 2024): weighted, consistent updates, and a Kalman filter that remembers the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tempora.methods.crops import random_resized_crops
from tempora.methods.functions import cross_entropy, entropy, indices
from tempora.methods.gradient import GradientMethod, NormSettings, TrackSettings, fill
from tempora.methods.registry import register
from tempora.methods.settings import setting
from tempora.models import Classifier

REVERSION = 0.99  # of the hidden state to the source, and of the weights to the hidden state
LEAST_TRUST = 0.89  # of the filter in its hidden state
FULL_TRUST = 0.9999


@dataclass(frozen=True, kw_only=True)
class CMFSettings(NormSettings, TrackSettings):
    """noise: of the Kalman filter; follows the network's family unless given."""

    noise: float | None = setting(None, above=0, high=1)

    default_lr: ClassVar[dict[str, float]] = {"cnn": 2e-4, "vit": 2.5e-4}
    default_noise: ClassVar[dict[str, float]] = {"cnn": 2.5e-4, "vit": 5e-3}

    def resolved(self, model: Classifier) -> CMFSettings:
        return fill(super().resolved(model), noise=self.default_noise[model.family])


@register
class CMF(GradientMethod):
    """Norm affine; loss = sum over kept samples of weight * (likelihood ratio + consistency) / n."""

    name = "cmf"
    label = "CMF"
    modifies = ("output", "parameters")
    Settings = CMFSettings
    state = ("distribution", "hidden", "variance")

    def setup(self) -> None:
        super().setup()
        classes = self.model.num_classes
        uniform = torch.full((1, classes), 1 / classes, device=self.model.device, dtype=self.model.dtype)
        self.distribution = uniform  # r, the running class distribution
        self.source = [w.detach().clone() for w in self.optimizer.parameters]
        self.hidden = [w.clone() for w in self.source]  # h
        self.variance = 0.0  # v

    def scores(self, z: Tensor) -> Tensor:
        """z times the smoothed prior of the batch."""
        n, classes = z.shape
        mean = z.softmax(dim=1).mean(dim=0, keepdim=True)
        smoothing = max(1 / n, 1 / classes) / mean.max()
        return z * (mean + smoothing) / (1 + smoothing * classes)

    def loss(self, x: Tensor, z: Tensor) -> Tensor | None:
        log_p = z.log_softmax(dim=1)
        weight = self.weights(log_p.detach().exp(), entropy(z.detach()))
        kept = indices(weight > 0)
        if len(kept) == 0:
            return None
        log_p = log_p[kept]
        log_q = self.view_logits(self.view(x[kept])).log_softmax(dim=1)
        consistency = 0.5 * cross_entropy(log_p, log_q) + 0.5 * cross_entropy(log_q, log_p)
        self.batch_distribution = z.detach().softmax(dim=1).mean(dim=0, keepdim=True)
        return (weight[kept] * (likelihood_ratio(log_p.exp()) + consistency)).sum() / len(x)

    def weights(self, p: Tensor, h: Tensor) -> Tensor:
        """exp(3 div cert): more for certain samples unlike the running distribution; 0 for dropped ones."""
        diversity = scaled(1 - cosine_similarity(self.distribution, p, dim=1))
        certainty = scaled(-h)
        return torch.where(diversity >= diversity.mean(), (3 * diversity * certainty).exp(), 0)

    def view(self, x: Tensor) -> Tensor:
        """One random view of each image."""
        return random_resized_crops(x, self.generator)

    @torch.no_grad()
    def after_step(self) -> None:
        """r follows the batch; the Kalman filter blends hidden state and weights, each with the other."""
        self.distribution = 0.9 * self.distribution + 0.1 * self.batch_distribution
        w, noise = self.optimizer.parameters, self.settings.noise
        torch._foreach_lerp_(self.hidden, self.source, 1 - REVERSION)
        variance = REVERSION**2 * self.variance + noise
        trust = (1 - noise) / (variance + 1 - noise)
        trust = 1.0 if trust >= FULL_TRUST else max(trust, LEAST_TRUST)
        self.variance = trust * variance
        torch._foreach_lerp_(self.hidden, w, 1 - trust)
        torch._foreach_lerp_(w, self.hidden, 1 - REVERSION)


def likelihood_ratio(p: Tensor) -> Tensor:
    """-sum u log(u / (1 - u)), u = p up to 0.99; unlike entropy's, its gradient outlasts certainty."""
    u = p.clamp(max=0.99)
    return -(u * (u / (1 - u) + 1e-5).log()).sum(dim=1)


def scaled(values: Tensor) -> Tensor:
    """Values moved and scaled to [0, 1]; 0 where all are equal."""
    least, greatest = values.aminmax()
    width = greatest - least
    return torch.where(width > 0, (values - least) / width, 0)
