"""Settings of a method: a frozen dataclass, checked, with errors that say what to write instead."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tempora_tta.errors import TemporaError, suggestion, unknown
from tempora_tta.methods.search import Between, Times
from tempora_tta.models import Classifier

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound="Settings")


def setting(
    default: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    search: Times | Between | None = None,
) -> Any:
    """A field of a `Settings` class: its default and, for numbers, low <= value <= high or value > above; `search`
    says what tuning may try."""
    metadata = {"low": low, "high": high, "above": above, "search": search}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every method understands; a method's own settings extend it.

    every: adapt on every k-th batch only (`Every`).
    stop_after: freeze after so many batches (`StopAfter`); None: never.
    reforward: predict each batch again after adapting to it (`Reforward`).

    A default of None elsewhere means "as the model needs it"; `resolved` fills it in.
    """

    every: int = setting(1, low=1)
    stop_after: int | None = setting(None, low=0)
    reforward: bool = False

    paper: ClassVar[Mapping[str, Any]] = {}
    """What the preset "paper" changes, for comparison with the published tables."""

    def resolved(self, model: Classifier) -> Self:
        """These settings with everything decided that depends on the model."""
        return self


def build(kind: type[S], values: Mapping[str, Any], method: str) -> S:
    """`kind(**values)`, or a TemporaError that names the method, the setting and what is allowed."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    checked = {}
    for name, value in values.items():
        if name not in fields:
            raise unknown(f"setting of {method}", name, fields)
        try:
            checked[name] = _converted(value, hints[name])
            _check_range(checked[name], fields[name].metadata)
        except ValueError as problem:
            raise TemporaError(f"{method}: {name}={value!r}: {problem}") from None
    return kind(**checked)


def _converted(value: Any, hint: Any) -> Any:
    """`value` as its type hint wants it; only an int where a float is wanted is changed."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for option in options:
        if typing.get_origin(option) is typing.Literal:
            choices = typing.get_args(option)
            if value in choices and type(value) in {type(choice) for choice in choices}:
                return value
            raise ValueError(suggestion(str(value), [str(choice) for choice in choices]))
        if option is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, option) and not (option is int and isinstance(value, bool)):
            return value
    if float in options and isinstance(value, str):
        raise ValueError("must be a number (YAML reads 1e-3 as text: write 0.001 or 1.0e-3)")
    names = {float: "a number", int: "a whole number", bool: "true or false", type(None): "none"}
    raise ValueError(f"must be {' or '.join(names.get(o, getattr(o, '__name__', str(o))) for o in options)}")


def _check_range(value: Any, bounds: Mapping[str, Any]) -> None:
    low, high, above = (bounds.get(name) for name in ("low", "high", "above"))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if not math.isfinite(value):
        raise ValueError("must be finite")
    if above is not None and value <= above:
        raise ValueError(f"must be greater than {above:g}")
    if low is not None and value < low:
        raise ValueError(f"must be at least {low:g}")
    if high is not None and value > high:
        raise ValueError(f"must be at most {high:g}")
