"""Arrival processes: their laws, and what queueing theory says of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempora_tta import TemporaError
from tempora_tta.scenarios import (
    Arrivals,
    Bursty,
    Deployment,
    Periodic,
    Poisson,
    Recorded,
    from_spec,
    serve,
    to_spec,
)

random_kinds = st.sampled_from([Poisson, Bursty, lambda **pace: Periodic(jitter=0.3, **pace)])
seeds = st.integers(0, 2**63 - 1)

FIRST_POISSON = [0.7270968959463442, 11.747323114721276, 42.890198305119426]
FIRST_BURSTY = [68.61391725886062, 71.36897381355436, 79.15469261115389]


@given(random_kinds, seeds, st.text(max_size=8), st.integers(1, 60), st.integers(0, 60))
def test_the_same_seed_gives_the_same_times_however_many_are_asked(kind, seed, shift, count, more):
    arrivals = kind(interval_ms=7.0)
    times = arrivals.times(count, seed=seed, shift=shift)
    assert times.tolist() == arrivals.times(count + more, seed=seed, shift=shift)[:count].tolist()
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0


@given(random_kinds, seeds, st.floats(0.01, 1e4), st.floats(0.01, 100))
def test_rates_nest(kind, seed, interval_ms, factor):
    """Another rate is the same pattern, slower or faster."""
    slow, fast = (kind(interval_ms=ms).times(40, seed=seed) for ms in (interval_ms * factor, interval_ms))
    np.testing.assert_allclose(slow, fast * factor, rtol=1e-12)


def test_seed_and_shift_decide_and_nothing_else():
    times = {
        (seed, shift): tuple(Poisson(interval_ms=1).times(5, seed=seed, shift=shift))
        for seed in (1, 2)
        for shift in ("fog", "snow")
    }
    assert len(set(times.values())) == 4
    assert tuple(Poisson(rate_hz=1000).times(5, seed=1, shift="fog")) == times[1, "fog"]
    assert tuple(Poisson(utilisation=0.5).times(5, 1, "fog", baseline_ms=0.5)) == times[1, "fog"]


def test_the_draws_of_a_seed_never_change():
    """A stored run is replayed with the arrivals that it was made with, also by another version of numpy."""
    np.testing.assert_allclose(Poisson(interval_ms=10).times(3), FIRST_POISSON, rtol=1e-12)
    np.testing.assert_allclose(Bursty(interval_ms=10).times(3), FIRST_BURSTY, rtol=1e-12)


@given(seeds, st.integers(1, 200), st.floats(0.1, 100))
def test_bursts_of_one_are_poisson(seed, count, length):
    bursty = Bursty(interval_ms=3.0, burst=1, length=length).times(count, seed=seed)
    assert bursty.tolist() == Poisson(interval_ms=3.0).times(count, seed=seed).tolist()


@pytest.mark.parametrize(
    ("arrivals", "dispersion"),
    [
        (Poisson(interval_ms=2.0), 1.0),
        # Of arrivals in on-periods: the variance of counts over their mean grows to 1 + 2 length (1 - 1/burst)^2.
        (Bursty(interval_ms=2.0, burst=4, length=8), 1 + 2 * 8 * 0.75**2),
    ],
)
def test_mean_rates(arrivals, dispersion):
    """Counts in a long window, within four standard errors."""
    count = 40_000
    times = np.concatenate([arrivals.times(count, seed=seed)[None] for seed in range(20)])
    window_ms = 0.9 * 2.0 * count
    counts = (times < window_ms).sum(axis=1)
    expected = window_ms / 2.0
    error = math.sqrt(dispersion * expected / 20)
    assert abs(counts.mean() - expected) < 4 * error
    assert 0.3 < counts.var() / (dispersion * expected) < 3


def test_periodic_starts_at_zero_and_jitter_keeps_the_order_and_the_mean():
    assert Periodic(utilisation=0.5).times(4, baseline_ms=20).tolist() == [0, 40, 80, 120]
    late = Periodic(interval_ms=10, jitter=0.5).times(5000) - 10.0 * np.arange(5000)
    assert late[0] == 0
    assert ((late >= 0) & (late < 5)).all()
    assert late.mean() == pytest.approx(2.5, abs=0.1)


# -- what queueing theory says --------------------------------------------------------------------------------


def batch_means(values, parts=50):
    """Mean and its standard error; means of long parts are nearly independent where single values are not."""
    means = np.asarray(values)[: len(values) // parts * parts].reshape(parts, -1).mean(axis=1)
    return means.mean(), means.std(ddof=1) / math.sqrt(parts)


@pytest.mark.parametrize("rho", [0.2, 0.5, 0.8])
def test_without_a_queue_a_poisson_stream_loses_what_erlang_says(rho):
    count = 100_000
    course = serve(np.full(count, 1.0), Poisson(interval_ms=1 / rho).times(count, seed=5), queue=0)
    lost = np.zeros(count)
    lost[course.evicted] = 1
    mean, error = batch_means(lost)
    assert abs(mean - rho / (1 + rho)) < 4 * error < 0.02


@pytest.mark.parametrize("rho", [0.2, 0.5, 0.8])
def test_with_a_long_queue_constant_service_waits_as_pollaczek_and_khinchine_say(rho):
    count, service_ms = 200_000, 1.0
    course = serve(np.full(count, service_ms), Poisson(interval_ms=1 / rho).times(count, seed=6), queue=count)
    assert not course.evicted.size
    mean, error = batch_means(course.wait_ms)
    assert abs(mean - rho * service_ms / (2 * (1 - rho))) < 4 * error < 0.2


def test_bursts_lose_more_than_the_same_mean_rate_without_them():
    count = 20_000
    losses = [
        serve(np.full(count, 1.0), arrivals.times(count), queue=1).evicted.size
        for arrivals in (Periodic(interval_ms=2), Poisson(interval_ms=2), Bursty(interval_ms=2))
    ]
    assert losses[0] == 0
    assert losses[0] < losses[1] < losses[2]


# -- in a deployment ------------------------------------------------------------------------------------------


def test_old_and_new_forms_mean_the_same():
    lam = {"num_batches": 5, "baseline_ms": 40.0}
    assert Deployment(utilisation=0.5).resolve(**lam) == Deployment(
        arrivals=Periodic(utilisation=0.5)
    ).resolve(**lam)
    assert Deployment(arrivals=[0, 1, 2, 3, 4]).resolve(**lam) == Deployment(
        arrivals=Recorded(range(5))
    ).resolve(**lam)


def test_resolve_draws_from_seed_and_shift():
    deployment = Deployment(arrivals=Poisson(utilisation=0.5))
    resolved = deployment.resolve(num_batches=9, baseline_ms=40, seed=3, shift="fog")
    assert resolved.arrivals_ms == tuple(Poisson(interval_ms=80).times(9, seed=3, shift="fog"))
    assert resolved.interval_ms == 80
    other = deployment.resolve(num_batches=9, baseline_ms=40, seed=3, shift="snow")
    assert other.arrivals_ms != resolved.arrivals_ms


@pytest.mark.parametrize(
    "spec",
    [
        {"protocol": "deployment", "arrivals": {"poisson": {"utilisation": 0.5}}, "deadline_ms": 80},
        {"protocol": "deployment", "arrivals": {"bursty": {"rate_hz": 5, "burst": 2}}, "deadline_x": 2},
        {"protocol": "deployment", "arrivals": {"periodic": {"interval_ms": 5, "jitter": 0.5}}, "queue": 0},
        {"protocol": "deployment", "arrivals": {"recorded": [0.0, 5.0]}, "fallback": "latest"},
        {
            "protocol": "deployment",
            "arrivals": [0.0, 5.0],
            "fallback": "standard",
            "fallback_cost": "charged",
        },
    ],
)
def test_specs_survive_the_way_there_and_back(spec):
    scenario = from_spec(spec)
    assert to_spec(scenario) == spec
    assert from_spec(to_spec(scenario)) == scenario


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Poisson(), "Poisson: needs one of interval_ms, utilisation, rate_hz"),
        (lambda: Poisson(interval_ms=5, rate_hz=3), "set the same knob"),
        (lambda: Poisson(rate_hz=0), "rate_hz=0: must be a finite number above 0"),
        (lambda: Poisson(utilisation=1).times(3), "baseline_ms: needed for utilisation"),
        (lambda: Poisson(interval_ms=1).times(0), "n=0: a stream has at least one batch"),
        (lambda: Bursty(interval_ms=1, burst=0.5), "burst=0.5: .* 1 or above"),
        (lambda: Bursty(interval_ms=1, length=0), "length=0"),
        (lambda: Periodic(interval_ms=1, jitter=1.5), "jitter=1.5: is a fraction of the interval"),
        (lambda: Recorded([3, 1]), "never go back in time"),
        (lambda: Recorded([0]).times(2), "hold 1 time and the stream has 2 batches"),
        (lambda: Deployment(arrivals={"poison": {"rate_hz": 1}}), "did you mean 'poisson'"),
        (lambda: Deployment(arrivals={"poisson": {"rate": 1}}), "unknown poisson setting 'rate'"),
        (lambda: Deployment(arrivals={"poisson": 0.5}), r"give its settings, as in \{utilisation: 0.5\}"),
        (lambda: Deployment(arrivals={}), "name one kind of arrivals"),
        (lambda: Deployment(arrivals=Poisson(rate_hz=1), interval_ms=5), "set the same knob"),
    ],
)
def test_wrong_arrivals_say_what_to_do(make, message):
    with pytest.raises(TemporaError, match=message):
        make()


def test_arrivals_of_ones_own_class_cannot_be_kept_with_a_run_and_that_is_said():
    class Mine(Arrivals):
        kind, label = "mine", "mine"

        def times(self, n, seed=2025, shift="", baseline_ms=None):
            return np.arange(n) * 40.0

        def mean_interval(self, baseline_ms=None):
            return 40.0

    with pytest.raises(
        TemporaError, match=r"a run can keep periodic, poisson, bursty, recorded; .* Recorded"
    ):
        to_spec(Deployment(arrivals=Mine()))
