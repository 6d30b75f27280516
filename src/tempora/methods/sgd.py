"""Stochastic gradient descent with momentum, a few launches for all parameters together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tempora.methods.state import overwrite


class SGD:
    """v = momentum v + g; w = w - lr v. Groups are (parameters, learning rate)."""

    def __init__(self, groups: Sequence[tuple[Sequence[Tensor], float]], momentum: float) -> None:
        self.groups = groups
        self.momentum = momentum
        self.parameters = [parameter for parameters, _ in groups for parameter in parameters]
        self.velocities = [torch.zeros_like(parameter) for parameter in self.parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step; `gradients` are ordered as `parameters`."""
        torch._foreach_mul_(self.velocities, self.momentum)
        torch._foreach_add_(self.velocities, list(gradients))
        start = 0
        for parameters, lr in self.groups:
            velocities = self.velocities[start : start + len(parameters)]
            torch._foreach_add_(list(parameters), velocities, alpha=-lr)
            start += len(parameters)

    def state_dict(self) -> dict[str, Any]:
        """The velocities; parameters belong to whoever made them."""
        return {"velocities": self.velocities}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Velocities from `state_dict`, in place."""
        overwrite(self.velocities, saved["velocities"])


def gradients_of(loss: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """d loss / d parameter for each; zero for one that the loss does not depend on."""
    return torch.autograd.grad(loss, list(parameters), allow_unused=True, materialize_grads=True)


def all_finite(loss: Tensor, gradients: Sequence[Tensor]) -> Tensor:
    """Whether the loss and every gradient are finite, as a scalar on the device: nobody has waited yet."""
    norms = torch.stack(torch._foreach_norm(list(gradients)))
    return (loss.detach() + norms.sum()).isfinite()
