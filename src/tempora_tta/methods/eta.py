"""ETA (Niu et al., 2022): minimise the entropy of samples that are reliable and not redundant."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import cosine_similarity

from tempora_tta.methods import by_classes, register, setting
from tempora_tta.methods.functions import entropy, indices, max_entropy
from tempora_tta.methods.gradient import GradientMethod, NormSettings


@dataclass(frozen=True, kw_only=True)
class ETASettings(NormSettings):
    """margin: E0 = margin * ln C. max_similarity: d."""

    margin: float = setting(0.4, above=0)
    max_similarity: float = by_classes({10: 0.4, 100: 0.1, 1000: 0.05}, above=0)


@register
class ETA(GradientMethod):
    """Norm affine; loss = mean over kept samples of exp(E0 - H) H, the weight without gradient."""

    name = "eta"
    label = "ETA"
    Settings = ETASettings
    state = ("average",)
    modes = ("kept",)

    def setup(self) -> None:
        super().setup()
        self.e0: float = self.settings.margin * max_entropy(self.model.num_classes)
        self.average: Tensor | None = None  # q, the running mean of kept probabilities

    def loss(self, x: Tensor, z: Tensor) -> Tensor | None:
        p = z.detach().softmax(dim=1)
        keep = entropy(z.detach()) < self.e0
        if self.average is not None:
            keep &= cosine_similarity(self.average, p, dim=1).abs() < self.settings.max_similarity
        kept = indices(keep)
        if not self.keep(kept):
            return None
        mean = p[kept].mean(dim=0, keepdim=True)
        self.average = mean if self.average is None else 0.9 * self.average + 0.1 * mean
        h = entropy(z[kept])
        return ((self.e0 - h.detach()).exp() * h).mean()
