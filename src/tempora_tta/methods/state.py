"""Copies of what a method changes: independent of the original, on the same device, exact to the bit.

`saved` takes a copy, `restored` puts it back. Networks, parameters, optimisers and generators are written in
place, because others hold them; whatever else is replaced by a copy.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tempora_tta.errors import TemporaError

LIVE = (nn.Module, nn.Parameter, Optimizer, torch.Generator)
"""What others hold and a copy would part them from."""
_MODULE_INTERNALS = frozenset(vars(nn.Module()))
"""Attributes of a module that are PyTorch's own: what is in it is saved by name, hooks do not change."""


@dataclass(frozen=True)
class InPlace:
    """What a live object held: `write(current, held)` puts it back into whatever is there now."""

    kind: str
    held: Any
    write: Callable[[Any, Any, str], Any]


def saved(value: Any, name: str = "state", seen: dict[int, Any] | None = None) -> Any:
    """A copy that shares no memory with `value`. Tensors that are one in `value` are one in the copy."""
    seen = {} if seen is None else seen
    if id(value) not in seen:
        seen[id(value)] = None  # a module may hold itself
        seen[id(value)] = _saved(value, name, seen)
    return seen[id(value)]


def _saved(value: Any, name: str, seen: dict[int, Any]) -> Any:
    if isinstance(value, nn.Parameter):
        return InPlace("parameter", value.detach().clone(), _write_parameter)
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, nn.Module):
        return InPlace("network", _module_contents(value, name, seen), _write_module)
    if isinstance(value, Optimizer):
        return InPlace("optimiser", _optimizer_contents(value, name), _write_optimizer)
    if isinstance(value, torch.Generator):
        return InPlace("generator", value.get_state(), _write_generator)
    if isinstance(value, (dict, list, tuple, deque)):
        return _like(value, (saved(entry, name, seen) for entry in _entries(value)))
    if hasattr(value, "load_state_dict"):
        return saved(value.state_dict(), name)
    return _copy_of(value, name)


def restored(current: Any, copied: Any, name: str = "state", seen: dict[int, Any] | None = None) -> Any:
    """What to put where `current` is, so that it equals `copied`, a result of `saved`, which stays good."""
    seen = {} if seen is None else seen
    if id(copied) not in seen:
        seen[id(copied)] = _restored(current, copied, name, seen)
    return seen[id(copied)]


def _restored(current: Any, copied: Any, name: str, seen: dict[int, Any]) -> Any:
    if isinstance(copied, InPlace):
        return copied.write(current, copied.held, name)
    if hasattr(current, "load_state_dict"):
        current.load_state_dict(restored({}, copied, name))
        return current
    if isinstance(copied, Tensor):
        return copied.clone()
    if isinstance(copied, dict):
        now = current if isinstance(current, Mapping) else {}
        return _like(copied, (restored(now.get(key), entry, name, seen) for key, entry in copied.items()))
    if isinstance(copied, (list, tuple, deque)):
        there = list(current) if isinstance(current, (list, tuple, deque)) else []
        there += [None] * (len(copied) - len(there))
        return _like(copied, (restored(*pair, name, seen) for pair in zip(there, copied, strict=False)))
    return _copy_of(copied, name)


@torch.no_grad()
def overwrite(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy values in place, in a launch for each type; whoever holds the targets sees the new values."""
    for kind in dict.fromkeys(target.dtype for target in targets):
        pairs = [pair for pair in zip(targets, sources, strict=True) if pair[0].dtype == kind]
        torch._foreach_copy_([target for target, _ in pairs], [source for _, source in pairs])


def _entries(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _like(container: Any, entries: Iterable[Any]) -> Any:
    """A container of the same kind with other entries: named tuples, default dicts and bounded deques too."""
    if isinstance(container, dict):
        made: Any = copy.copy(container)
        for key, entry in zip(list(container), list(entries), strict=True):
            made[key] = entry
        return made
    if isinstance(container, tuple):
        return type(container)(*entries) if hasattr(container, "_fields") else type(container)(entries)
    made = copy.copy(container)
    made.clear()
    made.extend(entries)
    return made


def _copy_of(value: Any, name: str) -> Any:
    """A deep copy, unless something live is inside, which a copy would part from those who hold it."""
    if live := _live_inside(value):
        raise TemporaError(
            f"{name}: a {type(value).__name__} that holds a {live} cannot be saved: name the {live} itself in "
            f"`state`, or give {type(value).__name__} state_dict() and load_state_dict()."
        )
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise TemporaError(
            f"{name}: a {type(value).__name__} cannot be copied ({error}): keep tensors, numbers, containers, "
            "networks, optimisers or generators in `state`."
        ) from error


def _live_inside(value: Any, depth: int = 4) -> str | None:
    if isinstance(value, LIVE):
        return type(value).__name__
    if depth == 0 or isinstance(value, (Tensor, type)):
        return None
    if isinstance(value, (dict, list, tuple, set, frozenset, deque)):
        parts = list(_entries(value))
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    return next((found for part in parts if (found := _live_inside(part, depth - 1))), None)


def _module_contents(module: nn.Module, name: str, seen: dict[int, Any]) -> dict[str, Any]:
    """Parameters and buffers (unsaved ones too) by name, and the attributes of every module in it."""
    attributes = {
        path: {
            key: saved(value, f"{name}.{path}.{key}".replace("..", "."), seen)
            for key, value in vars(part).items()
            if (key == "training" or key not in _MODULE_INTERNALS) and not _is_code(value)
        }
        for path, part in module.named_modules()
    }
    tensors = {key: tensor.detach().clone() for key, tensor in _tensors_of(module).items()}
    return {"tensors": tensors, "attributes": attributes}


def _is_code(value: Any) -> bool:
    """Functions and classes: code, not state."""
    return callable(value) and not isinstance(value, nn.Module)


def _tensors_of(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _write_module(module: Any, held: dict[str, Any], name: str) -> nn.Module:
    _same_kind(isinstance(module, nn.Module), "network", name)
    network: nn.Module = module
    now, parts = _tensors_of(network), dict(network.named_modules())
    if {key: tensor.shape for key, tensor in now.items()} != {
        key: tensor.shape for key, tensor in held["tensors"].items()
    } or parts.keys() != held["attributes"].keys():
        raise TemporaError(
            f"{name}: the network's parts or their shapes changed since it was saved, so it cannot be put back: "
            "make all of them in setup()."
        )
    overwrite(list(now.values()), list(held["tensors"].values()))
    for path, attributes in held["attributes"].items():
        part = parts[path]
        for key in [key for key in vars(part) if key not in _MODULE_INTERNALS and key not in attributes]:
            if not _is_code(vars(part)[key]):
                delattr(part, key)
        for key, value in attributes.items():
            setattr(part, key, restored(vars(part).get(key), value, f"{name}.{path}.{key}"))
    return network


def _write_parameter(parameter: Any, held: Tensor, name: str) -> nn.Parameter:
    _same_kind(isinstance(parameter, nn.Parameter) and parameter.shape == held.shape, "parameter", name)
    same: nn.Parameter = parameter
    overwrite([same], [held])
    return same


def _optimizer_contents(optimizer: Optimizer, name: str) -> dict[str, Any]:
    """State and settings by the parameter's place: exact, where load_state_dict() would convert types."""
    return {
        "state": [
            saved(dict(optimizer.state[parameter]), name) if parameter in optimizer.state else None
            for parameter in _parameters_of(optimizer)
        ],
        "groups": [
            {key: saved(value, name) for key, value in group.items() if key != "params"}
            for group in optimizer.param_groups
        ],
    }


def _write_optimizer(optimizer: Any, held: dict[str, Any], name: str) -> Optimizer:
    alike = isinstance(optimizer, Optimizer) and len(_parameters_of(optimizer)) == len(held["state"])
    _same_kind(alike and len(optimizer.param_groups) == len(held["groups"]), "optimiser", name)
    same: Optimizer = optimizer
    same.state.clear()
    for parameter, state in zip(_parameters_of(same), held["state"], strict=True):
        if state is not None:
            same.state[parameter] = restored(None, state, name)
    for group, settings in zip(same.param_groups, held["groups"], strict=True):
        group.update(restored({}, settings, name))
    return same


def _parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _write_generator(generator: Any, held: Tensor, name: str) -> torch.Generator:
    _same_kind(isinstance(generator, torch.Generator), "generator", name)
    same: torch.Generator = generator
    same.set_state(held)
    return same


def _same_kind(same: bool, kind: str, name: str) -> None:
    if not same:
        raise TemporaError(
            f"{name}: there was a {kind} when it was saved and there is none like it now, so it cannot be put "
            "back: make all of them in setup() and keep their places."
        )
