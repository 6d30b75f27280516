"""A user's `features(x)` that goes along when the network is copied.

Methods adapt a copy of the network, and what the user gave must then compute with that copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor, nn

from tempora_tta.errors import TemporaError


class Following:
    """`function(x)` as a function of (network, x): anything callable that leads to the network.

    Copying a classifier deep-copies this object as well, with the same memo, so that modules, bound methods and
    objects come out with the copied network inside. Only functions need help: `deepcopy` shares them.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], network: nn.Module) -> None:
        if not _leads_to(_parts(network), function):
            raise TemporaError(
                f"features={function!r} does not lead to the network, so a copy of the network "
                "would still compute the original's features: write it as f(module, x)."
            )
        self.function = function
        self.network = network

    def __call__(self, network: nn.Module, x: Tensor) -> Tensor:
        return self.function(x)

    def __deepcopy__(self, memo: dict[int, Any]) -> Following:
        other = copy.copy(self)
        other.function = _copied(self.function, _parts(self.network), memo)
        other.network = copy.deepcopy(self.network, memo)
        return other


def _parts(network: nn.Module) -> set[int]:
    return {id(part) for part in (*network.modules(), *network.parameters())}


def _copied(value: Any, parts: set[int], memo: dict[int, Any]) -> Any:
    """`value` with the network's copy in place of the network; what does not lead there stays as it is."""
    if id(value) in memo:
        return memo[id(value)]
    if not _leads_to(parts, value):
        return value
    if isinstance(value, FunctionType):
        return _copied_function(value, parts, memo)
    if isinstance(value, partial):
        function, *args = (_copied(part, parts, memo) for part in (value.func, *value.args))
        return partial(function, *args, **_copied_values(value.keywords, parts, memo))
    return copy.deepcopy(value, memo)


def _copied_values(values: dict[str, Any], parts: set[int], memo: dict[int, Any]) -> dict[str, Any]:
    return {name: _copied(value, parts, memo) for name, value in values.items()}


def _copied_function(function: FunctionType, parts: set[int], memo: dict[int, Any]) -> FunctionType:
    """The same code over copied outer variables. These come last: the function may be among them itself."""
    cells = {name: CellType() for name in function.__code__.co_freevars}
    outside = dict(function.__globals__)
    other = FunctionType(function.__code__, outside, function.__name__, closure=tuple(cells.values()) or None)
    memo[id(function)] = other
    outside.update(_copied_values(_globals(function), parts, memo))
    for name, value in _closure(function).items():
        cells[name].cell_contents = _copied(value, parts, memo)
    other.__defaults__ = tuple(_copied(value, parts, memo) for value in function.__defaults__ or ())
    other.__kwdefaults__ = _copied_values(function.__kwdefaults__ or {}, parts, memo)
    return other


def _leads_to(parts: set[int], value: Any) -> bool:
    """Whether one of `parts` is `value`, or is held by it."""
    waiting, seen = [value], set[int]()
    while waiting:
        item = waiting.pop()
        if id(item) in parts:
            return True
        if id(item) not in seen:
            seen.add(id(item))
            waiting += _held(item)
    return False


def _held(value: Any) -> Iterable[Any]:
    """What `value` refers to, as far as `_copied` would copy it: functions, in functions and partials alone."""
    if isinstance(value, FunctionType):
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        return (*_globals(value).values(), *_closure(value).values(), *defaults)
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, MethodType):
        return (value.__self__,)
    if isinstance(value, dict):
        held: Iterable[Any] = value.values()
    elif isinstance(value, (list, tuple, set)):
        held = value
    elif isinstance(value, (type, ModuleType)):
        return ()
    else:
        held = getattr(value, "__dict__", {}).values()
    return [item for item in held if not isinstance(item, FunctionType)]


def _globals(function: FunctionType) -> dict[str, Any]:
    names = _names(function.__code__)
    return {name: value for name, value in function.__globals__.items() if name in names}


def _names(code: CodeType) -> set[str]:
    """Names that `code` looks up, and those of the functions and comprehensions inside it."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _closure(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells}
