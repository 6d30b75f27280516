"""Clocks, calibration of lambda, what machine this is, and how far its timings can be trusted."""

from tempora_tta.measure.baseline import Baseline
from tempora_tta.measure.clock import Clock, MeasuredClock, ProfileClock
from tempora_tta.measure.device import choose_device
from tempora_tta.measure.machine import device_kind, machine_facts
from tempora_tta.measure.profile import Profile
from tempora_tta.measure.sources import load_profile
from tempora_tta.measure.verdict import judge_baseline, judge_pass, judge_run
from tempora_tta.store.verdicts import Verdict

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
