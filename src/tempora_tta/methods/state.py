"""Copies of what a method changes: independent of the original, on the same device, exact to the bit.

`saved` takes a copy, `restored` puts it back. Networks, parameters, generators and what has load_state_dict() are
written in place, because others hold them; anything else is replaced by a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from tempora_tta.errors import TemporaError


@dataclass(frozen=True)
class GeneratorState:
    """State of a random generator, which fits its own kind of device only."""

    state: Tensor
    kind: ClassVar[str] = "generator"


def saved(value: Any, name: str = "state") -> Any:
    """A copy that shares no memory with `value`, an attribute called `name`."""
    if isinstance(value, torch.Generator):
        return GeneratorState(value.get_state())
    if isinstance(value, nn.Module):
        return saved(_tensors_of(value), name)
    if hasattr(value, "load_state_dict"):
        return saved(value.state_dict(), name)
    if isinstance(value, nn.Parameter):
        return value.detach().clone()
    return tree_map(lambda part: _copied(part, name), value)


def restored(current: Any, held: Any, name: str = "state") -> Any:
    """The value for the place of `current`: equal to `held`, a result of `saved`, which stays good."""
    if isinstance(current, torch.Generator):
        current.set_state(held.state)
    elif isinstance(current, nn.Module):
        now = _tensors_of(current)
        if {key: tensor.shape for key, tensor in now.items()} != {
            key: one.shape for key, one in held.items()
        }:
            raise TemporaError(
                f"{name}: the network's parts or their shapes changed since it was saved, so it cannot be put back: "
                "make all of them in setup()."
            )
        overwrite(list(now.values()), list(held.values()))
    elif isinstance(current, nn.Parameter):
        overwrite([current], [held])
    elif hasattr(current, "load_state_dict"):
        current.load_state_dict(saved(held, name))
    else:
        return saved(held, name)
    return current


@torch.no_grad()
def overwrite(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy values in place, in a launch for each type; what holds the targets sees the new values."""
    for kind in dict.fromkeys(target.dtype for target in targets):
        pairs = [pair for pair in zip(targets, sources, strict=True) if pair[0].dtype == kind]
        torch._foreach_copy_([target for target, _ in pairs], [source for _, source in pairs])


def _tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, those too that are no part of its state_dict."""
    named = (*network.named_parameters(), *network.named_buffers())
    return {name: tensor.detach() for name, tensor in named}


def _copied(part: Any, name: str) -> Any:
    """A copy of what a container holds."""
    if isinstance(part, (nn.Module, nn.Parameter, torch.optim.Optimizer, torch.Generator)):
        kind = type(part).__name__  # a copy would part it from those who hold it
        raise TemporaError(
            f"{name}: a {kind} in a container cannot be saved: make it an attribute and name that in `state`."
        )
    if isinstance(part, Tensor):
        return part.detach().clone()
    try:
        return copy.deepcopy(part)
    except Exception as error:
        raise TemporaError(
            f"{name}: a {type(part).__name__} cannot be copied ({error}): keep tensors, numbers, containers of "
            "them, networks, optimisers or generators in `state`."
        ) from error
