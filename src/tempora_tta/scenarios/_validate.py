"""Checks of what a caller hands to the time model: errors say what was given, what is allowed, what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempora_tta.errors import TemporaError, unknown, wrong

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

RULES = ("strict", "overshoot")
MOST_WAITING = 2**31 - 1
"""Far more than any stream has: a queue of this length loses nothing."""


def positive(name: str, value: float, hint: str = "") -> float:
    """`value` as a float, if it is a finite number above zero."""
    number = _number(name, value)
    if not (math.isfinite(number) and number > 0):
        raise wrong(name, value, f"must be a finite number above 0{_also(hint)}")
    return number


def non_negative(name: str, value: float, hint: str = "") -> float:
    """`value` as a float, if it is zero or above; infinity is allowed and means 'no limit'."""
    number = _number(name, value)
    if math.isnan(number) or number < 0:
        raise wrong(name, value, f"must be 0 or above{_also(hint)}")
    return number


def baseline(value: float | None, knob: str) -> float:
    """lambda, for a knob that is relative to it or compared with it."""
    if value is None:
        raise TemporaError(f"baseline_ms: needed for {knob}; give lambda, the latency of standard inference")
    return positive("baseline_ms", value, "it is lambda, the latency of standard inference")


def count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise wrong(name, value, "a stream has at least one batch")
    return int(value)


def whole(name: str, value: object) -> int:
    """`value`, if it is a whole number, 1 or above."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise wrong(name, value, "must be a whole number, 1 or above")
    return int(value)


def percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


def queue_length(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise wrong(
            "queue",
            value,
            "must be a whole number of batches that may wait, 0 or above (0 drops every arrival that finds the "
            "pipeline busy; the paper's protocol is 1)",
        )
    if value > MOST_WAITING:
        raise TemporaError(
            f"queue={value!r:.30}: must be at most {MOST_WAITING}, which no stream fills (give that for a queue that "
            "loses nothing)",
            about="queue",
        )
    return int(value)


def name(value: str | None) -> None:
    """A scenario's own name, if it has one."""
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise wrong("name", value, "must be a text to show in tables; leave it out for the usual label")


def budget_rule(value: str) -> str:
    if value not in RULES:
        raise unknown("rule", str(value), RULES, about="rule")
    return value


def series(name: str, values: ArrayLike, length: int | None = None, *, like: str = "accuracy") -> FloatArray:
    """`values` as a flat float array; a single number stands for a constant series of `length`."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TemporaError(f"{name}: must be numbers, one per batch; got {values!r:.80}") from None
    if array.ndim == 0 and length is not None:
        array = np.full(length, float(array))
    if array.ndim != 1:
        raise TemporaError(f"{name}: must be one number per batch (1-d); got an array of shape {array.shape}")
    if array.size == 0:
        raise TemporaError(f"{name}: is empty; a stream has at least one batch")
    if length is not None and array.size != length:
        raise TemporaError(
            f"{name} has {array.size} entries and {like} has {length}: give one entry per batch in both"
        )
    return array


def times(name: str, values: ArrayLike, length: int | None = None, *, like: str = "accuracy") -> FloatArray:
    """A series of durations in milliseconds: finite and not negative."""
    array = series(name, values, length, like=like)
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise TemporaError(
            f"{name}[{at}]={float(array[at])}: times are finite milliseconds, 0 or above; "
            "drop the batch or repair the measurement"
        )
    return array


def arrival_times(values: ArrayLike) -> FloatArray:
    array = times("arrivals_ms", values)
    back = np.diff(array) < 0
    if back.any():
        at = int(np.argmax(back)) + 1
        raise TemporaError(
            f"arrivals_ms[{at}]={float(array[at])} comes before arrivals_ms[{at - 1}]={float(array[at - 1])}: "
            "arrivals never go back in time; sort them (equal times are allowed)"
        )
    return array


def right(name: str, values: ArrayLike, like: tuple[int, ...] | None = None) -> FloatArray:
    """Read which samples of each batch are right, (batches, samples). `like`: the shape of others on the same stream,
    where one number per batch will do, too."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if like is not None and array.ndim < 2:
        return series(name, values, like[0])[:, None]
    if array.ndim != 2 or not array.size:
        raise TemporaError(
            f"{name}: must say of every sample whether it is right, (batches, batch size); got {values!r:.80}"
        )
    if like is not None and (len(array) != like[0] or like[1] not in (1, array.shape[1])):
        raise TemporaError(
            f"{name} is of shape {array.shape}, the stream of {like}: give (batches, batch size)"
        )
    return array


def fractions(name: str, values: FloatArray) -> FloatArray:
    """Accuracies of batches, (batches, samples): fractions between 0 and 1."""
    wrong = ~((values >= 0) & (values <= 1))
    if wrong.any():
        at, sample = divmod(int(np.argmax(wrong)), values.shape[1])
        raise TemporaError(
            f"{name}[{at}]={float(values[at, sample])}: accuracies are fractions from 0 to 1 (divide percentages by "
            "100)"
        )
    return values


def at_most_one(**given: object) -> None:
    """The absolute and relative spellings of one knob exclude each other."""
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise TemporaError(f"{' and '.join(named)} set the same knob: give one of them")


def exactly_one(scenario: str, **given: object) -> None:
    at_most_one(**given)
    if all(value is None for value in given.values()):
        raise TemporaError(f"{scenario}: needs one of {', '.join(given)}")


def _number(name: str, value: float) -> float:
    if isinstance(value, (bool, str, bytes, Sequence)):
        raise wrong(name, value, "must be a number")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise wrong(name, value, "must be a number") from None


def _also(hint: str) -> str:
    return f"; {hint}" if hint else ""
