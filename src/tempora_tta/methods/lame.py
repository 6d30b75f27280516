"""LAME (Boudiaf et al., 2022): refine a batch's probabilities so that neighbours in feature space agree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tempora_tta.methods import LogRange, Method, Settings, register, setting

STRIDE = 8
"""Steps between two looks at the energies: a look waits for the device, a step too many is two launches."""


@dataclass(frozen=True, kw_only=True)
class LAMESettings(Settings):
    """neighbours: k of the affinity. max_steps, tolerance: when the iteration ends."""

    neighbours: int = setting(5, low=1, search=LogRange(3))
    max_steps: int = setting(100, low=1)
    tolerance: float = setting(1e-8, low=0)


@register
class LAME(Method):
    """Laplacian-adjusted maximum-likelihood estimation: only the output changes."""

    name = "lame"
    label = "LAME"
    modifies = ("output",)
    history_free = True
    stateless = True
    repeats = True
    scores_are = "probabilities"
    Settings = LAMESettings
    modes = ("iterations",)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        if self.frozen:
            return self.model(x)  # Standard's own scores, so that not even a tie is decided differently
        f = self.model.features(x)
        log_p = self.model.head(f).log_softmax(dim=1)
        if len(x) == 1:
            return log_p.exp()
        return self.refine(log_p, affinity(f, min(self.settings.neighbours, len(x) - 1)))

    def refine(self, log_p: Tensor, w: Tensor) -> Tensor:
        """Iterate Y = softmax(log p + W Y) from Y = p until the energy settles.

        With L = log p + P and Y = softmax(L), the energy sum(Y (log Y - log p - P)) is minus the sum over
        samples of logsumexp(L): it needs no pass of its own. The energies of several steps are looked at
        together, and the Y of the step at which the iteration should have stopped is taken.
        """
        y = log_p.exp()
        energies: list[float] = []
        while len(energies) < self.settings.max_steps:
            steps = min(STRIDE, self.settings.max_steps - len(energies))
            logits = log_p.new_empty(steps, *log_p.shape)
            for step in range(steps):
                torch.addmm(log_p, w, y, out=logits[step])
                y = logits[step].softmax(dim=1)
            # Summed on the host, exactly: in single precision the sum itself would wander by more than 1e-8.
            energies += [-math.fsum(samples) for samples in logits.logsumexp(dim=2).tolist()]
            settled = self._settled(energies, since=len(energies) - steps)
            self.work = ("iterations", float(len(energies)))
            if settled is not None:
                return logits[settled].softmax(dim=1)
        return y

    def _settled(self, energies: list[float], since: int) -> int | None:
        """Offset from `since` of the first step whose energy did not change; never before the third step."""
        for step in range(max(since, 2), len(energies)):
            change = abs(energies[step] - energies[step - 1])
            if change <= self.settings.tolerance * abs(energies[step - 1]):
                return step - since
        return None


def affinity(f: Tensor, k: int) -> Tensor:
    """W[i, j] = 1 for the k nearest j of i, itself excluded, 0 elsewhere.

    By Euclidean distance between unit vectors, and vectors of zeros, which are at distance 1 from all of them:
    |f_i - f_j|^2 grows with |f_j|^2 / 2 - f_i f_j.
    """
    f = normalize(f, dim=1)
    products = f @ f.T
    closeness = (products - products.diagonal().round() / 2).fill_diagonal_(-torch.inf)
    return torch.zeros_like(closeness).scatter_(1, closeness.topk(k, dim=1).indices, 1.0)
