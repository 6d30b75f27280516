"""Settings of a method: a frozen dataclass whose fields say what is allowed, what tuning may try and what a default
follows."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from tempora_tta.errors import TemporaError, suggestion, unknown
from tempora_tta.models import Classifier

S = TypeVar("S", bound="Settings")


@dataclass(frozen=True)
class LogRange:
    """From the default divided by `factor` to the default times it, evenly in its logarithm."""

    factor: float

    def at(self, share: float, default: float) -> float:
        return default * float(self.factor ** (2 * share - 1))


@dataclass(frozen=True)
class Range:
    """From `low` to `high`."""

    low: float
    high: float

    def at(self, share: float, default: float) -> float:
        return self.low + share * (self.high - self.low)


def setting(
    default: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    search: LogRange | Range | None = None,
    rule: Callable[[Classifier], Any] | None = None,
) -> Any:
    """Make a field of a `Settings` class.

    Numbers lie between `low` and `high`, both allowed, and above `above`; `search` says what tuning may try; `rule`
    gives the value for a network where the setting is None.
    """
    metadata = {"low": low, "high": high, "above": above, "search": search, "rule": rule}
    return dataclasses.field(default=default, metadata=metadata)


def by_family(cnn: Any, vit: Any, **limits: Any) -> Any:
    """Make a field whose default follows the kind of network."""
    return setting(None, rule=lambda model: vit if model.family == "vit" else cnn, **limits)


def by_classes(published: Mapping[int, Any], vit: Any = None, **limits: Any) -> Any:
    """Make a field whose default is what was published for the number of classes that is nearest in log scale.

    vit: what a ViT takes instead, with any number of classes.
    """

    def rule(model: Classifier) -> Any:
        if vit is not None and model.family == "vit":
            return vit
        return published[min(published, key=lambda classes: abs(math.log(classes / model.num_classes)))]

    return setting(None, rule=rule, **limits)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of every method; a method's own extend them.

    Attributes:
        every: adapt on every k-th batch only.
        stop_after: freeze after that many batches; None: never.
        reforward: predict each batch again after adapting to it.
    """

    every: int = setting(1, low=1)
    stop_after: int | None = setting(None, low=0)
    reforward: bool = False

    paper: ClassVar[Mapping[str, Any]] = {}
    """Changes of the preset "paper", for comparison with the published tables."""

    def resolved(self: S, model: Classifier) -> S:
        """These settings with everything decided that depends on the model."""
        rules = {field.name: field.metadata.get("rule") for field in dataclasses.fields(self)}
        open_ = {name: rule for name, rule in rules.items() if rule and getattr(self, name) is None}
        return dataclasses.replace(self, **{name: rule(model) for name, rule in open_.items()})


def build(kind: type[S], values: Mapping[str, Any], method: str) -> S:
    """`kind(**values)`, or a TemporaError that names the method, the setting and what is allowed."""
    checks, checked = _checks(kind), {}  # type: ignore[arg-type]  # a class can be hashed
    for name, value in values.items():
        if name not in checks:
            raise unknown(f"setting of {method}", name, checks)
        try:
            checked[name] = checks[name].validate_python(value)
        except ValidationError as error:
            raise TemporaError(f"{method}: {name}={value!r}: {_reason(error.errors()[0])}") from None
    return kind(**checked)


@cache
def _checks(kind: type[Settings]) -> dict[str, TypeAdapter[Any]]:
    """Checks of a value against the type and the limits of its field."""
    hints, config = typing.get_type_hints(kind), ConfigDict(strict=True, allow_inf_nan=False)
    checks = {}
    for field in dataclasses.fields(kind):
        low, high, above = (field.metadata.get(name) for name in ("low", "high", "above"))
        limited: Any = Annotated[hints[field.name], Field(ge=low, le=high, gt=above)]
        checks[field.name] = TypeAdapter(
            limited if field.default is not None else limited | None, config=config
        )
    return checks


def _reason(problem: Any) -> str:
    """The reason why a value is refused, given what pydantic says of it."""
    if problem["type"] == "literal_error":
        allowed = problem["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return suggestion(str(problem["input"]), allowed)
    if problem["type"] == "float_type" and isinstance(problem["input"], str):
        return "must be a number (YAML reads 1e-3 as text: write 0.001 or 1.0e-3)"
    words = {
        "Input should be": "must be",
        "greater than or equal to": "at least",
        "less than or equal to": "at most",
    }
    reason = str(problem["msg"])
    for theirs, ours in words.items():
        reason = reason.replace(theirs, ours)
    return reason
