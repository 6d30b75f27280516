"""Clocks, calibration of lambda, what machine this is, and how far its timings can be trusted."""

from tempora_tta.store.verdicts import Verdict
from tempora_tta.timing.baseline import Baseline
from tempora_tta.timing.clock import Clock, MeasuredClock, ProfileClock
from tempora_tta.timing.device import choose_device
from tempora_tta.timing.machine import device_kind, machine_facts
from tempora_tta.timing.profile import Profile
from tempora_tta.timing.sources import load_profile
from tempora_tta.timing.verdict import judge_baseline, judge_pass, judge_run

__all__ = [
    "Baseline",
    "Clock",
    "MeasuredClock",
    "Profile",
    "ProfileClock",
    "Verdict",
    "choose_device",
    "device_kind",
    "judge_baseline",
    "judge_pass",
    "judge_run",
    "load_profile",
    "machine_facts",
]
