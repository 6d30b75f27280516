"""Clocks, the profiles they look times up in, and the machine that the times are of."""

from tempora_tta.timing.baseline import Baseline
from tempora_tta.timing.clock import Clock, MeasuredClock, ProfileClock
from tempora_tta.timing.device import choose_device
from tempora_tta.timing.machine import device_kind, machine_facts
from tempora_tta.timing.profile import Profile
from tempora_tta.timing.sources import load_profile

__all__ = [
    "Baseline",
    "Clock",
    "MeasuredClock",
    "Profile",
    "ProfileClock",
    "choose_device",
    "device_kind",
    "load_profile",
    "machine_facts",
]
