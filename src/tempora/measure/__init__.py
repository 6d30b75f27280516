"""Clocks, calibration of lambda, what machine this is, and how far its timings can be trusted."""

from tempora.measure.baseline import Baseline
from tempora.measure.clock import Batch, Clock, MeasuredClock, PacedClock, RecordedClock, SteadyClock
from tempora.measure.device import choose_device
from tempora.measure.machine import device_kind, machine_facts
from tempora.measure.profile import MethodTimes, Profile, load_profile
from tempora.measure.steady import SteadyProfile
from tempora.measure.verdict import judge_baseline, judge_pass, judge_run
from tempora.store.verdicts import Verdict

__all__ = [
    "Baseline",
    "Batch",
    "Clock",
    "MeasuredClock",
    "MethodTimes",
    "PacedClock",
    "Profile",
    "RecordedClock",
    "SteadyClock",
    "SteadyProfile",
    "Verdict",
    "choose_device",
    "device_kind",
    "judge_baseline",
    "judge_pass",
    "judge_run",
    "load_profile",
    "machine_facts",
]
