"""Mean power from a counter that moves in steps, by a clock of the test's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempora_tta.timing.device import LEAST_S, READ_EVERY_S, mean_watts


class Device:
    """Device that draws `watts` while it works, and counts them every `step_s`."""

    def __init__(self, watts: float, busy_s: float, step_s: float) -> None:
        self.watts, self.busy_s, self.step_s, self.seconds = watts, busy_s, step_s, 0.0

    def work(self) -> None:
        self.seconds += self.busy_s

    def joules(self) -> float | None:
        return self.watts * self.step_s * (self.seconds // self.step_s)

    def now_s(self) -> float:
        return self.seconds


@given(st.floats(1, 700), st.floats(0.0005, 0.09), st.floats(0.001, 0.1))
def test_power_is_found_through_the_steps_of_the_counter(watts: float, busy_s: float, step_s: float) -> None:
    device = Device(watts, busy_s, step_s)
    found = mean_watts(device.work, device.joules, now_s=device.now_s)
    late_s = READ_EVERY_S + busy_s  # either end is seen at most so much later
    assert found == pytest.approx(watts, rel=(late_s + step_s * (late_s > step_s)) / LEAST_S + 1e-6)


class SlowlyRead(Device):
    """Its counter takes twice as long to read as a piece of work, which costs half as much power."""

    read_s = 0.0

    def joules(self) -> float | None:
        self.seconds += 2 * self.busy_s
        self.read_s += 2 * self.busy_s
        return self.watts * (self.seconds - self.read_s / 2)


def test_a_counter_that_is_slow_to_read_does_not_count_for_the_work() -> None:
    device = SlowlyRead(200.0, 0.0012, 0.0)
    found = mean_watts(device.work, device.joules, now_s=device.now_s)
    assert found == pytest.approx(200.0, rel=0.05), "reading it after every piece would give 133 or 400"


def test_without_a_counter_or_where_it_stands_still_or_wraps_there_is_none() -> None:
    device = Device(300.0, 0.01, 1e9)
    assert mean_watts(device.work, lambda: None, now_s=device.now_s) is None
    assert device.seconds == 0, "nothing was worked for it"
    assert mean_watts(device.work, device.joules, now_s=device.now_s) is None
    falling = iter(range(1000, 0, -1))
    assert mean_watts(device.work, lambda: float(next(falling)), now_s=device.now_s) is None
