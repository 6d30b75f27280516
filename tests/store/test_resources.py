"""Joules and megabytes of a cell: busy time x power, and what was held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempora_tta.scenarios import Amortised, Course, Offline
from tempora_tta.store.resources import Resources


def course_of(predict_ms: float, adapt_ms: float, batches: int = 8, budget_ms: float | None = None) -> Course:
    scenario = Offline() if budget_ms is None else Amortised(budget_ms=budget_ms)
    times = {"predict_ms": np.full(batches, predict_ms), "adapt_ms": np.full(batches, adapt_ms)}
    right = np.full(batches, 0.5)
    return (
        scenario.deployment()
        .score(
            accuracy=right, frozen_accuracy=right, frozen_ms=np.full(batches, 9.0), baseline_ms=10.0, **times
        )
        .course
    )


def test_a_worked_example() -> None:
    """Three batches adapt at 200 W for 30 ms, five are frozen at 100 W for 9 ms; lambda 10 ms is worth 1 J."""
    course = course_of(10.0, 20.0, budget_ms=60.0)
    assert course.cutoff == 3
    assert Resources(200.0, 100.0, 512_000_000).columns(course, baseline_ms=10.0) == {
        "energy_j": pytest.approx(3 * 6.0 + 5 * 0.9),
        "overhead_j": pytest.approx(3 * 5.0),
        "memory_mb": 512.0,
    }


def test_what_was_not_counted_is_no_number() -> None:
    course = course_of(10.0, 20.0)
    unknown = {"energy_j": None, "overhead_j": None, "memory_mb": None}
    assert Resources().columns(course, 10.0) == unknown
    assert Resources(watts=200.0).columns(course, 10.0) == unknown, "overhead is above standard inference"
    assert Resources(standard_watts=100.0).columns(course, 10.0) == unknown
    untimed = replace(course, predict_ms=np.where(np.arange(8) < 7, course.predict_ms, np.nan))
    assert Resources(200.0, 100.0).columns(untimed, 10.0) == unknown


@given(st.floats(0, 1000), st.floats(0, 1000), st.floats(1, 50), st.floats(0, 50))
def test_energy_is_never_below_overhead(watts: float, standard: float, predict: float, adapt: float) -> None:
    told = Resources(watts, standard).columns(course_of(predict, adapt), 10.0)
    assert told["energy_j"] >= told["overhead_j"] >= 0
    assert told["energy_j"] == pytest.approx(8 * watts * (predict + adapt) / 1000)


@pytest.mark.parametrize(
    "told", [None, [], "x", {"watts": "200"}, {"watts": -1}, {"watts": float("nan")}, {"watts": True}]
)
def test_facts_that_say_nothing(told: object) -> None:
    assert Resources.of({"resources": told}) == Resources()


def test_facts_come_back() -> None:
    known = Resources(200.0, 100.0, 512)
    assert Resources.of(known.to_facts()) == known
