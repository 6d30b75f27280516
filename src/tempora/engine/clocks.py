"""A clock by the name a user gives it, and the lambda that comes with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tempora.errors import TemporaError
from tempora.measure import Baseline, Clock, MeasuredClock, RecordedClock, load_profile

MEASURED = "measured"


def open_clock(
    clock: str | Path | Mapping[str, Any], device: torch.device, baseline_ms: float | None = None
) -> tuple[Clock, Baseline | None]:
    """The clock, and its lambda: given, or the profile's own; None where it has yet to be measured."""
    given = None if baseline_ms is None else Baseline(_checked(baseline_ms), source="given")
    if clock == MEASURED:
        return MeasuredClock(device), given
    profile = load_profile(clock)
    recorded = RecordedClock(profile)
    return recorded, given or Baseline(profile.baseline_ms, source=recorded.name)


def _checked(baseline_ms: float) -> float:
    if not 0 < baseline_ms < float("inf"):
        raise TemporaError(f"baseline_ms={baseline_ms!r}: must be a finite number of milliseconds above 0")
    return float(baseline_ms)
