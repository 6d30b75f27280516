"""Peak rates: laws of queues on fixed arrivals, what is exact, and what is said where it is not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_runs import BASELINE_MS, BATCHES, METHODS
from made_runs import measured_run as write_run
from tempora_tta.analysis.answer import Answer
from tempora_tta.analysis.peak import LEAST_ARRIVALS, Arrivals, Times, highest_rate, highest_rates
from tempora_tta.analysis.question import Question
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Deployment, Offline, Poisson
from tempora_tta.store import Results, open_run

LONG = 10_000
"""A queue that loses nothing."""
ONE = Arrivals(Poisson(interval_ms=1.0).times(1500, 1, "fog"))


def peak(run: Results, **limits: Any) -> Answer:
    return highest_rates(run, Question(**limits))


def constant(predict_ms: float, adapt_ms: float = 0.0, arrivals: Arrivals = ONE, **promises: bool) -> Times:
    count = len(arrivals.unit_times) // arrivals.repeats
    return Times(np.full(count, predict_ms), np.full(count, adapt_ms), np.ones(count, bool), **promises)


def rate(times: Times, bound_ms: float, queue: int = LONG, percent: int = 99) -> float:
    found = highest_rate(times, ONE, percent, bound_ms, queue).batches_per_s
    assert found is not None
    return found


@pytest.mark.parametrize("bound_ms", [10.5, 40.0, 300.0, 1e9])
def test_no_queue_is_long_enough_for_more_than_the_pipeline_can_serve(bound_ms: float) -> None:
    """10 ms each: below 100 per second, at any bound, and near it where patience has no end."""
    assert 0 < rate(constant(10.0), bound_ms) < 100.0
    assert rate(constant(10.0), 1e9) == pytest.approx(100.0, rel=2e-3)


@settings(max_examples=15, deadline=None)
@given(
    bounds=st.tuples(st.floats(9.0, 200.0), st.floats(9.0, 200.0)).map(sorted),
    adapt_ms=st.floats(0.0, 30.0),
)
def test_a_wider_bound_never_lowers_the_peak(bounds: list[float], adapt_ms: float) -> None:
    arrivals = Arrivals(ONE.unit_times[:300])
    found = [highest_rate(constant(8.0, adapt_ms, arrivals), arrivals, 99, bound, LONG) for bound in bounds]
    low, high = (one.batches_per_s or 0.0 for one in found)
    assert low <= high


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), queue=st.integers(0, 20), doublings=st.integers(-2, 3))
def test_times_that_double_halve_the_peak_exactly(seed: int, queue: int, doublings: int) -> None:
    """Arrivals nest, so it is the same course on another clock."""
    arrivals = Arrivals(ONE.unit_times[:300])
    drawn = np.random.default_rng(seed).uniform(5.0, 15.0, (2, 300))
    factor = 2.0**doublings
    times = Times(drawn[0], drawn[1], np.ones(300, bool))
    slower = Times(factor * drawn[0], factor * drawn[1], np.ones(300, bool))
    one = highest_rate(times, arrivals, 99, 60.0, queue)
    other = highest_rate(slower, arrivals, 99, factor * 60.0, queue)
    assert one.batches_per_s is not None
    assert other.batches_per_s is not None
    assert other.batches_per_s == one.batches_per_s / factor
    assert (other.in_time, other.busy) == (one.in_time, one.busy)


def test_a_longer_queue_and_a_lower_percentile_allow_more() -> None:
    times = constant(10.0, 5.0)
    assert rate(times, 60.0, queue=0) < rate(times, 60.0, queue=1) < rate(times, 60.0, queue=LONG)
    assert rate(times, 60.0, percent=90) > rate(times, 60.0, percent=95) > rate(times, 60.0, percent=99)


def test_constant_service_meets_the_known_waiting_times() -> None:
    """Erlang's distribution of the wait in M/D/1, at the peak that 20,000 arrivals give."""
    arrivals = Arrivals(Poisson(interval_ms=1.0).times(20_000, 7, "fog"))
    found = highest_rate(constant(10.0, arrivals=arrivals), arrivals, 99, 50.0, LONG)
    assert found.batches_per_s is not None
    per_ms, wait_ms = found.batches_per_s / 1000, 40.0
    within = (1 - 10.0 * per_ms) * sum(
        (-per_ms * (wait_ms - 10.0 * k)) ** k / math.factorial(k) * math.exp(per_ms * (wait_ms - 10.0 * k))
        for k in range(int(wait_ms / 10.0) + 1)
    )
    assert within == pytest.approx(0.99, abs=0.004)


def test_the_peak_is_a_deployment_that_holds_and_the_next_does_not() -> None:
    generator = np.random.default_rng(3)
    times = Times(generator.uniform(8, 12, 1500), generator.uniform(0, 9, 1500), np.ones(1500, bool))
    found = rate(times, 70.0, queue=3)

    def p99(rate_hz: float) -> float:
        server = Deployment(arrivals=Poisson(rate_hz=rate_hz), queue=3)
        score = server.score(
            accuracy=np.ones(1500),
            predict_ms=times.predict_ms,
            adapt_ms=times.adapt_ms,
            baseline_ms=BASELINE_MS,
            seed=1,
            shift="fog",
        )
        return float(score.terms["response_p99_ms"] or math.nan)

    assert p99(found) <= 70.0 < p99(1.002 * found)


def test_a_bound_that_predictions_miss_has_no_rate() -> None:
    found = highest_rate(constant(10.0), ONE, 99, 9.0, LONG)
    assert (found.batches_per_s, found.answer) == (0.0, "replayed")
    assert "10.0 ms, above 9" in found.why


# -- what is exact ---------------------------------------------------------------------------------------------


def test_losses_are_exact_for_methods_without_a_history_only() -> None:
    times = constant(10.0, 5.0)
    assert highest_rate(replace(times, history_free=True), ONE, 99, 60.0, 1).answer == "replayed"
    found = highest_rate(times, ONE, 99, 60.0, 1)
    assert found.answer == "approximate"
    assert highest_rate(times, ONE, 99, 60.0, LONG).answer == "replayed", "nothing is lost"
    found = highest_rate(replace(constant(10.0), time_aware=True), ONE, 99, 60.0, LONG)
    assert (found.batches_per_s, found.answer) == (None, "none"), "it looks at the clock"
    assert "clock" in found.why


# -- a run -----------------------------------------------------------------------------------------------------


def test_streams_come_again_with_other_arrivals_until_there_are_a_thousand(run: Results) -> None:
    found = peak(run, p99_ms=60.0)
    assert found.setting["arrivals"] == 13 * 2 * BATCHES >= LEAST_ARRIVALS
    assert found.notes == (), "measured times hold the device's own variation"
    arrivals = Arrivals.of([("fog", 1, BATCHES), ("snow", 1, BATCHES)])
    times = np.split(arrivals.unit_times, 2 * arrivals.repeats)
    assert arrivals.repeats == 13
    assert times[0].tolist() == Poisson(interval_ms=1.0).times(BATCHES, 1, "fog").tolist()
    assert len({tuple(np.diff(part)) for part in times}) == 26
    assert (np.diff(arrivals.unit_times) > 0).all()
    assert arrivals.unit_times[-1] / arrivals.unit_times.size == pytest.approx(1.0, abs=0.1)


def test_the_device_s_own_variation_lowers_the_peak(tmp_path: Path) -> None:
    one = {"standard": METHODS["standard"]}
    steady = write_run(tmp_path / "steady", methods=one, scenarios=[Offline()], variation=[1.0])
    varied = write_run(tmp_path / "varied", methods=one, scenarios=[Offline()], variation=[0.8, 0.8, 1.4])
    quiet, shaken = (peak(results, p99_ms=30.0) for results in (steady, varied))
    assert shaken.ranking["batches_per_s"][0] < quiet.ranking["batches_per_s"][0]
    assert "queueing only" in quiet.notes[0]
    assert shaken.notes == ()
    (tmp_path / "varied" / "profile.json").write_text('{"residuals": {"clean_samples": 120}}')
    assert "p99 is not known on this machine: its profile has 120" in peak(varied, p99_ms=30.0).notes[0]
    assert peak(varied, p95_ms=30.0).notes == ()


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        ({"p99_ms": 50.0, "p90_ms": 20.0}, ["one limit"]),
        ({"p99_ms": -1.0}, ["p99_ms=-1.0", "above 0"]),
        ({"p99_ms": math.inf}, ["p99_ms=inf"]),
        ({"p99_ms": 50.0, "shifts": ("fgo",)}, ["fgo", "fog"]),
    ],
)
def test_questions_that_make_no_sense(run: Results, asked: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(TemporaError) as caught:
        peak(run, **asked)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_a_method_that_is_missing_somewhere_has_no_peak(run: Results) -> None:
    some = open_run(run.path)
    cells = some.utilities
    some.utilities = cells[(cells["method"] != "tent") | (cells["shift"] != "snow")]
    found = peak(some, p99_ms=60.0)
    assert "snow, seed 1" in found.left_out["tent"]
    assert "tent" not in set(found.ranking["method"])
