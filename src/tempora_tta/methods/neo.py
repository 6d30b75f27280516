"""NEO: centre the features on their running mean before classifying them."""

from __future__ import annotations

import torch
from torch import Tensor

from tempora_tta.methods import LEARNS, UNTIMED, Method, register


@register
class NEO(Method):
    """z = head(f - mu), mu the mean of all features seen, the current batch included."""

    name = "neo"
    label = "NEO"
    modifies = ("activations",)
    actions = {"none": LEARNS | UNTIMED}
    repeats = True
    state = ("mu", "seen")

    def setup(self) -> None:
        device = self.model.device
        self.mu = torch.zeros((), device=device, dtype=self.model.dtype)  # (d,) from the first batch on
        self.seen = torch.zeros((), device=device)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        f = self.model.features(x)
        if self.follows:
            self._include(f)
        return self.model.head(f - self.mu)

    def _include(self, f: Tensor) -> None:
        """Move the mean, unless the batch holds something that is not finite: it would stay forever."""
        seen = self.seen + len(f)
        mu = self.mu + (f - self.mu).sum(dim=0) / seen
        usable = mu.isfinite().all()
        self.mu = torch.where(usable, mu, self.mu)
        self.seen = torch.where(usable, seen, self.seen)
