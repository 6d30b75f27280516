"""A clock by the name a user gives it, and the lambda that comes with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tempora_tta.config import PROVISION_X
from tempora_tta.timing import (
    Baseline,
    Clock,
    MeasuredClock,
    ProfileClock,
    load_profile,
)

STEADY, MEASURED = "steady", "measured"


def open_clock(
    clock: str | Path | Mapping[str, Any],
    device: torch.device,
    baseline_ms: float | None = None,
    provision_x: float | str = PROVISION_X,
) -> tuple[Clock, Baseline | None]:
    """The clock, and its lambda: given, or the profile's own; None where it has yet to be measured."""
    given = None if baseline_ms is None else Baseline(float(baseline_ms), source="given")
    if clock == MEASURED:
        return MeasuredClock(device), given
    if clock == STEADY:
        return ProfileClock(None, provision_x), given
    profile = load_profile(clock)
    return ProfileClock(profile, provision_x, own=False), given or profile.baseline(provision_x)


def clock_record(clock: Clock) -> dict[str, Any] | None:
    """The profile behind a clock, as run.json keeps it; None: measured, or not profiled yet."""
    if not isinstance(clock, ProfileClock) or not clock.recorded:
        return None
    profile = clock.profile
    told = {"name": profile.name, "id": profile.id, "device": profile.device}
    about = {"model": profile.model, "batch_size": profile.batch_size}
    return {**told, **{key: value for key, value in about.items() if value}}
