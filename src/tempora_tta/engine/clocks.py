"""A clock by the name a user gives it, and the lambda that comes with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tempora_tta.errors import TemporaError
from tempora_tta.measure import (
    Baseline,
    Clock,
    MeasuredClock,
    RecordedClock,
    SteadyClock,
    SteadyProfile,
    load_profile,
)
from tempora_tta.measure.steady import PROVISION_X, TAIL

STEADY, MEASURED = "steady", "measured"


def open_clock(
    clock: str | Path | Mapping[str, Any],
    device: torch.device,
    baseline_ms: float | None = None,
    provision_x: float | str = PROVISION_X,
) -> tuple[Clock, Baseline | None]:
    """The clock, and its lambda: given, or the profile's own; None where it has yet to be measured."""
    given = None if baseline_ms is None else Baseline(_checked(baseline_ms), source="given")
    if isinstance(provision_x, str) and provision_x != TAIL:
        raise TemporaError(f"provision_x={provision_x!r}: give a factor such as 1.03, or tail")
    if clock == MEASURED:
        return MeasuredClock(device), given
    if clock == STEADY:
        return SteadyClock(None, provision_x), given
    profile = load_profile(clock)
    if isinstance(profile, SteadyProfile):
        steady = SteadyClock(profile, provision_x, own=False)
        return steady, given or profile.baseline(provision_x)
    recorded = RecordedClock(profile)
    return recorded, given or Baseline(profile.baseline_ms, source=recorded.name)


def clock_record(clock: Clock) -> dict[str, Any] | None:
    """Whose times a clock gives, as run.json keeps it: a file's path says nothing of the device. None: measured, or
    not profiled yet."""
    if isinstance(clock, SteadyClock):
        if not clock.recorded:
            return None
        found = clock.profile
        named = {"device": found.device, "model": found.model, "batch_size": found.batch_size}
        return {"name": found.name, "id": found.id, **named}
    if isinstance(clock, RecordedClock):
        profile, machine = clock.profile, clock.profile.machine
        device = machine.get("gpu") or machine.get("cpu") or profile.name
        kinds = (("model", str), ("batch_size", int))
        about = {name: machine[name] for name, kind in kinds if isinstance(machine.get(name), kind)}
        return {"name": profile.name, "id": profile.fingerprint, "device": str(device), **about}
    return None


def _checked(baseline_ms: float) -> float:
    if not 0 < baseline_ms < float("inf"):
        raise TemporaError(f"baseline_ms={baseline_ms!r}: must be a finite number of milliseconds above 0")
    return float(baseline_ms)
