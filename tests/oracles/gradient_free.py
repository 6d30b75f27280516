"""Standard inference, AdaBN, LAME and NEO, restated."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oracles.plain import Oracle, log_probabilities


class Standard(Oracle):
    pass


class AdaBN(Oracle):
    batch_statistics = True


class Lame(Oracle):
    steps: list[int]

    def __init__(self, network: nn.Module) -> None:
        super().__init__(network)
        self.steps = []

    def scores(self, z: Tensor) -> Tensor:
        if self.frozen:
            return z
        log_p = [log_probabilities(row.detach()) for row in z]
        neighbours = self.neighbours(self.features.detach())
        y = [torch.exp(row) for row in log_p]
        previous = None
        for step in range(1, 101):
            pull = [self.sum_over(y, near) for near in neighbours]
            y = [torch.exp(log_probabilities(a + b)) for a, b in zip(log_p, pull, strict=True)]
            energy = 0.0
            for a, b, c in zip(log_p, y, pull, strict=True):
                energy += float((-a * b).sum() + torch.special.xlogy(b, b).sum() - (c * b).sum())
            if step >= 3 and abs(energy - previous) <= 1e-8 * abs(previous):
                break
            previous = energy
        self.steps.append(step)
        return torch.stack(y)

    @staticmethod
    def neighbours(features: Tensor) -> list[list[int]]:
        unit = [f / torch.sqrt((f * f).sum()) for f in features]
        nearest = []
        for i in range(len(unit)):
            others = [j for j in range(len(unit)) if j != i]
            others.sort(key=lambda j, i=i: float(torch.sqrt(((unit[i] - unit[j]) ** 2).sum())))
            nearest.append(others[:5])
        return nearest

    @staticmethod
    def sum_over(y: list[Tensor], indices: list[int]) -> Tensor:
        total = torch.zeros_like(y[0])
        for j in indices:
            total = total + y[j]
        return total


class Neo(Oracle):
    def __init__(self, network: nn.Module) -> None:
        super().__init__(network)
        self.seen: list[Tensor] = []

    def scores(self, z: Tensor) -> Tensor:
        if not self.frozen:
            self.seen += list(self.features.detach())
        features = self.features.detach()  # the head below overwrites what the hook remembers
        mu = sum(self.seen) / len(self.seen) if self.seen else torch.zeros_like(features[0])
        return torch.stack([self.head(f - mu) for f in features])
