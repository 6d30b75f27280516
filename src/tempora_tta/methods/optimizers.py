"""Gradient descent, a few launches for all parameters together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from tempora_tta.methods.state import overwrite

Groups = Sequence[tuple[Sequence[Tensor], float]]
OptimizerName = Literal["sgd", "nesterov", "adam"]


class Optimizer(Protocol):
    """What methods step with. Groups are (parameters, learning rate)."""

    parameters: list[Tensor]

    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step; `gradients` are ordered as `parameters`."""

    def state_dict(self) -> dict[str, Any]:
        """What changes; parameters belong to whoever made them."""

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """What `state_dict` gave, in place."""


def make_optimizer(name: OptimizerName, groups: Groups, momentum: float) -> Optimizer:
    """The optimiser of that name; `momentum` is SGD's, with or without Nesterov's."""
    if name == "adam":
        return Adam(groups)
    return SGD(groups, momentum, nesterov=name == "nesterov")


class SGD:
    """v = momentum v + g; w = w - lr v, or with Nesterov's w - lr (g + momentum v)."""

    def __init__(self, groups: Groups, momentum: float, nesterov: bool = False) -> None:
        self.groups = groups
        self.momentum = momentum
        self.nesterov = nesterov
        self.parameters = [parameter for parameters, _ in groups for parameter in parameters]
        self.velocities = [torch.zeros_like(parameter) for parameter in self.parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        torch._foreach_mul_(self.velocities, self.momentum)
        torch._foreach_add_(self.velocities, list(gradients))
        ahead = (
            torch._foreach_add(list(gradients), self.velocities, alpha=self.momentum)
            if self.nesterov
            else None
        )
        _descend(self.groups, ahead or self.velocities)

    def state_dict(self) -> dict[str, Any]:
        return {"velocities": self.velocities}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        overwrite(self.velocities, saved["velocities"])


class Adam:
    """m = 0.9 m + 0.1 g; v = 0.999 v + 0.001 g^2; w = w - lr m^ / (sqrt(v^) + eps), both corrected for bias."""

    BETA1, BETA2, EPS = 0.9, 0.999, 1e-8

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.parameters = [parameter for parameters, _ in groups for parameter in parameters]
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        gradients = list(gradients)
        self.steps += 1
        torch._foreach_lerp_(self.means, gradients, 1 - self.BETA1)
        torch._foreach_mul_(self.squares, self.BETA2)
        torch._foreach_addcmul_(self.squares, gradients, gradients, 1 - self.BETA2)
        # m^ / (sqrt(v^) + eps), with both corrections taken out of it.
        of_square = math.sqrt(1 - self.BETA2**self.steps)
        scale = torch._foreach_sqrt(self.squares)
        torch._foreach_add_(scale, self.EPS * of_square)
        correction, start = of_square / (1 - self.BETA1**self.steps), 0
        for parameters, lr in self.groups:
            part = slice(start, start + len(parameters))
            torch._foreach_addcdiv_(list(parameters), self.means[part], scale[part], value=-lr * correction)
            start += len(parameters)

    def state_dict(self) -> dict[str, Any]:
        return {"means": self.means, "squares": self.squares, "steps": self.steps}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        overwrite(self.means, saved["means"])
        overwrite(self.squares, saved["squares"])
        self.steps = saved["steps"]


def _descend(groups: Groups, directions: Sequence[Tensor]) -> None:
    """w = w - lr d for every group."""
    start = 0
    for parameters, lr in groups:
        torch._foreach_add_(list(parameters), list(directions[start : start + len(parameters)]), alpha=-lr)
        start += len(parameters)


def gradients_of(
    loss: Tensor, parameters: Sequence[Tensor], into: Tensor | None = None
) -> tuple[Tensor, ...]:
    """d loss / d parameter for each; zero for one that the loss does not depend on.

    into: d loss / d `loss`, where that is an output which the loss is made of.
    """
    return torch.autograd.grad(loss, list(parameters), into, allow_unused=True, materialize_grads=True)


def all_finite(loss: Tensor, gradients: Sequence[Tensor]) -> Tensor:
    """Whether the loss and every gradient are finite, as a scalar on the device: nobody has waited yet."""
    norms = torch.stack(torch._foreach_norm(list(gradients)))
    return (loss.detach() + norms.sum()).isfinite()
