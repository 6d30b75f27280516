"""Copies of what a method changes: independent of the original, and on the same device."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def clone(value: Any) -> Any:
    """A copy that shares no memory: of tensors, containers of them, and whatever has a `state_dict`."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: clone(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(clone(entry) for entry in value)
    if hasattr(value, "state_dict"):
        return clone(value.state_dict())
    return copy.deepcopy(value)


def restored(current: Any, saved: Any) -> Any:
    """What to put where `current` is, so that it equals `saved`, a result of `clone`."""
    if hasattr(current, "load_state_dict"):
        current.load_state_dict(clone(saved))
        return current
    return clone(saved)


@torch.no_grad()
def overwrite(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy values in place, in a few launches; whoever holds the targets sees the new values."""
    if targets:
        torch._foreach_copy_(list(targets), list(sources))
