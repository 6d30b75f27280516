"""CMA-ES (Hansen, 2016) as FOA uses it: pycma's defaults, and one candidate that comes from outside."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

Covariance = Literal["full", "identity"]


class Constants:
    """Constants that follow from the number of coordinates D and of drawn candidates.

    `weights` are those of all candidates, the best first; an additional zero in the middle makes room for the one
    that was not drawn.
    """

    def __init__(self, dimensions: int, drawn: int) -> None:
        d = float(dimensions)
        raw = [math.log((drawn + 1) / 2) - math.log(i) for i in range(1, drawn + 1)]
        positive, rest = [w for w in raw if w > 0], [w for w in raw if w <= 0]
        positive = [w / sum(positive) for w in positive]
        m = 1 / sum(w * w for w in positive)  # M, the variance-effective number of parents
        self.mass = m
        self.c1 = 2 / ((d + 1.3) ** 2 + m)
        self.cm = 2 * (m - 1.75 + 1 / m) / ((d + 2) ** 2 + m)
        self.cc = (4 + m / d) / (d + 4 + 2 * m / d)
        self.cs = (m + 2) / (d + m + 3)
        self.damp = 1 + self.cs + 2 * max(0.0, math.sqrt((m - 1) / (d + 1)) - 1)
        negative = sum(rest)
        mass_of_rest = negative**2 / sum(w * w for w in rest)
        total = min(
            1 + self.c1 / self.cm,
            (1 - self.c1 - self.cm) / (d * self.cm),
            1 + 2 * mass_of_rest / (m + 2),
        )
        self.weights = [*positive, 0.0, *(w / -negative * total for w in rest)]
        self.chi = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
        self.patience = 1 / (10 * d * (self.c1 + self.cm))
        """The decomposition serves until more updates than this have passed."""
        self.longest = math.sqrt(d) + 2 * d / (d + 2)
        """The length beyond which a candidate from outside is shortened."""


class CMAES:
    """Mean m, step size sigma, covariance K = B diag(l^2) B' and two paths; all in double precision."""

    def __init__(self, dimensions: int, drawn: int, covariance: Covariance, device: torch.device) -> None:
        self.constants = Constants(dimensions, drawn)
        self.dimensions, self.drawn = dimensions, drawn
        zeros = torch.zeros(dimensions, dtype=torch.float64, device=device)
        self.mean, self.path_sigma, self.path_c = zeros, zeros.clone(), zeros.clone()
        self.sigma = torch.ones((), dtype=torch.float64, device=device)
        full = covariance == "full"
        self.covariance = torch.eye(dimensions, dtype=torch.float64, device=device) if full else None
        self.axes = self.covariance.clone() if self.covariance is not None else None  # B
        self.lengths = torch.ones_like(zeros)  # l
        self.updates, self.decomposed_at = 0, 0
        self.weights = torch.tensor(self.constants.weights, dtype=torch.float64, device=device)

    def draw(self, generator: torch.Generator) -> Tensor:
        """Candidates m + sigma B diag(l) z."""
        z = torch.randn(
            self.drawn, self.dimensions, dtype=torch.float64, device=self.mean.device, generator=generator
        )
        z = z * self.lengths
        return self.mean + self.sigma * (z if self.axes is None else z @ self.axes.T)

    def update(self, candidates: Tensor, order: Tensor) -> bool:
        """Learn from all candidates, the last from outside; `order` lists them, best first.

        True if the covariance was decomposed again: only that waits for the device.
        """
        c, d = self.constants, self.dimensions
        self.updates += 1
        steps = (candidates - self.mean) / self.sigma
        length = self.whitened(steps[-1]).norm()
        steps = torch.cat([steps[:-1], (steps[-1] * (c.longest / length).clamp(max=1))[None]])
        y = steps[order]
        s = self.weights.clamp(min=0) @ y
        self.mean = self.mean + self.sigma * s
        self.path_sigma = (1 - c.cs) * self.path_sigma + math.sqrt(
            c.cs * (2 - c.cs) * c.mass
        ) * self.whitened(s)
        spread = 1 - (1 - c.cs) ** (2 * self.updates)
        h = (self.path_sigma.square().sum() / (d * spread) < 2 + 4 / (d + 1)).double()
        self.path_c = (1 - c.cc) * self.path_c + h * math.sqrt(c.cc * (2 - c.cc) * c.mass) * s
        self.sigma = self.sigma * (c.cs / c.damp * (self.path_sigma.norm() / c.chi - 1)).clamp(-1, 1).exp()
        if self.covariance is None:
            return False
        self.covariance = self._learned(self.covariance, y, h)
        if self.updates - self.decomposed_at <= c.patience:
            return False
        self._decompose(self.covariance)
        return True

    def whitened(self, y: Tensor) -> Tensor:
        """K^(-1/2) y, of one vector or of rows, with the decomposition that serves."""
        if self.axes is None:
            return y
        return ((y @ self.axes) / self.lengths) @ self.axes.T

    def _learned(self, covariance: Tensor, y: Tensor, h: Tensor) -> Tensor:
        c, weights = self.constants, self.weights
        rescaled = self.dimensions / self.whitened(y).square().sum(dim=1)
        learned = torch.where(weights < 0, weights * rescaled, weights)
        decay = 1 - c.c1 * (1 - (1 - h) * c.cc * (2 - c.cc)) - c.cm * sum(c.weights)
        rank_one = torch.outer(self.path_c, self.path_c)
        return decay * covariance + c.c1 * rank_one + c.cm * (y.T * learned) @ y

    def _decompose(self, covariance: Tensor) -> None:
        squares, self.axes = torch.linalg.eigh((covariance + covariance.T) / 2)
        self.lengths = squares.clamp(min=torch.finfo(squares.dtype).tiny).sqrt()
        self.decomposed_at = self.updates

    _CHANGES = (
        *("mean", "sigma", "path_sigma", "path_c", "covariance", "axes", "lengths"),
        *("updates", "decomposed_at"),
    )

    def state_dict(self) -> dict[str, Any]:
        """Everything that updates change."""
        return {name: getattr(self, name) for name in self._CHANGES}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take over a result of `state_dict`."""
        for name, value in saved.items():
            setattr(self, name, value)
