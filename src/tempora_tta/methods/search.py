"""What tuning may try: a method declares it with its settings, `lr: float = setting(1e-3, search=Times(30))`.

Trials are the same for everybody: the first is the default, the others go through the declared ranges in an order in
which every beginning covers them evenly (Halton's), so more trials contain fewer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tempora_tta.methods.settings import Settings

_BASES = (2, 3, 5, 7)


@dataclass(frozen=True)
class Times:
    """From the default divided by `factor` to the default times it, evenly in its logarithm."""

    factor: float

    def at(self, share: float, default: float) -> float:
        return default * float(self.factor ** (2 * share - 1))


@dataclass(frozen=True)
class Between:
    """From `low` to `high`."""

    low: float
    high: float

    def at(self, share: float, default: float) -> float:
        return self.low + share * (self.high - self.low)


def searched(settings: Settings) -> Mapping[str, Times | Between]:
    """The settings that tuning may change, of those that have a value."""
    return {
        field.name: field.metadata["search"]
        for field in dataclasses.fields(settings)
        if field.metadata.get("search") is not None and getattr(settings, field.name) is not None
    }


def trials(settings: Settings, count: int) -> Iterator[dict[str, Any]]:
    """What to set in each of `count` trials, the default first; it alone where nothing is declared.

    settings: resolved, so that every default is a number.
    """
    ranges = searched(settings)
    yield {}
    for number in range(1, count) if ranges else ():
        yield {
            name: _rounded(where.at(_halton(number, base), getattr(settings, name)), getattr(settings, name))
            for (name, where), base in zip(ranges.items(), _BASES, strict=False)
        }


def _halton(number: int, base: int) -> float:
    """The digits of a number mirrored behind the point.

    >>> [_halton(number, 2) for number in (1, 2, 3, 4)]
    [0.5, 0.25, 0.75, 0.125]
    """
    share, digit = 0.0, 1.0
    while number:
        digit /= base
        number, rest = divmod(number, base)
        share += digit * rest
    return share


def _rounded(value: float, default: float) -> float | int:
    """Three digits; whole where the default is."""
    return max(1, round(value)) if isinstance(default, int) else float(f"{value:.3g}")
