"""Laws of serving and of budgets, on random streams."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempora_tta.scenarios import (
    Continuous,
    Course,
    Deployment,
    Discrete,
    Recorded,
    budget_cutoff,
    replay,
    serve,
)
from tempora_tta.scenarios.replaying import serve_lanes, step_by_step

queues = st.sampled_from([0, 1, 2, 3, 5])


@st.composite
def arriving(draw):
    count = draw(st.integers(1, 40))
    gaps = draw(st.lists(st.integers(0, 30), min_size=count, max_size=count))
    service = draw(st.lists(st.integers(0, 100), min_size=count, max_size=count))
    return np.cumsum(gaps).astype(float), np.array(service, dtype=float)


@given(arriving(), queues)
def test_every_arrival_is_served_or_evicted_and_services_never_overlap(stream, queue):
    arrivals, service = stream
    course = serve(service, arrivals, queue)
    assert sorted([*course.served, *course.evicted]) == list(range(arrivals.size))
    assert (np.diff(course.served) > 0).all(), "first come, first served"
    assert (course.start_ms[1:] >= course.finish_ms[:-1]).all()
    assert (course.start_ms >= arrivals[course.served]).all()
    assert (course.idle_ms >= 0).all()
    assert (course.wait_ms >= 0).all()
    assert course.waitspan_ms <= course.idle_ms.sum()
    if queue > 0:
        assert course.waitspan_ms == 0, "a batch that may wait is there when the pipeline becomes free"


@given(arriving(), queues, st.integers(0, 2**16))
def test_a_schedule_at_once_is_the_timeline_in_its_steps(stream, queue, seed):
    """To the digit, in all that the course tells."""
    arrivals, service = stream
    generator = np.random.default_rng(seed)
    predict = service * generator.random(service.size)
    adapted = generator.random(service.size) < 0.7
    resolved = Deployment(arrivals=Recorded(tuple(arrivals)), queue=queue).resolve(
        num_batches=arrivals.size, baseline_ms=20.0
    )
    at_once, in_steps = (
        way(resolved.timeline(), predict, service - predict, predict, adapted)
        for way in (replay, step_by_step)
    )
    for field in dataclasses.fields(Course):
        assert np.array_equal(getattr(at_once, field.name), getattr(in_steps, field.name)), field.name


@given(arriving(), queues, st.integers(1, 4))
def test_lanes_side_by_side_are_served_as_each_alone(stream, queue, lanes):
    """Instants that coincide and work that takes no time included."""
    arrivals, service = (np.stack([np.roll(one, lane) for lane in range(lanes)], axis=1) for one in stream)
    arrivals = np.sort(arrivals, axis=0)
    starts = serve_lanes(service, arrivals, queue)
    for lane in range(lanes):
        course = serve(service[:, lane], arrivals[:, lane], queue)
        assert np.flatnonzero(~np.isnan(starts[:, lane])).tolist() == course.served.tolist()
        assert starts[course.served, lane].tolist() == course.start_ms.tolist()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), queues)
def test_zero_service_serves_everything_when_arrivals_are_distinct(gaps, queue):
    course = serve(np.zeros(len(gaps)), np.cumsum(gaps), queue)
    assert course.served.size == len(gaps)


@given(st.integers(1, 60), st.integers(1, 200), st.integers(1, 200), st.integers(0, 100), queues)
def test_a_longer_interval_never_serves_less_at_constant_service(count, service, interval, more, queue):
    availability = [
        Discrete(interval_ms=gamma, queue=queue)
        .score(accuracy=np.ones(count), service_ms=float(service))
        .terms["availability"]
        for gamma in (interval, interval + more)
    ]
    assert availability[0] <= availability[1]


def test_with_varying_service_a_longer_interval_can_serve_less():
    """The law above needs constant times: the slower stream picks up a long batch the faster one skips."""
    service = [10.0, 20.0, 5.0, 20.0, 20.0]
    assert serve(service, np.arange(5) * 4.0, queue=1).served.tolist() == [0, 2, 3, 4]
    assert serve(service, np.arange(5) * 6.0, queue=1).served.tolist() == [0, 1, 4]


@given(st.integers(1, 80), st.integers(1, 60), st.integers(1, 60), st.integers(1, 6))
def test_a_longer_queue_serves_only_what_it_drains(count, interval, excess, queue):
    service = interval + excess
    arrivals = np.arange(count) * float(interval)
    single, longer = (serve(np.full(count, float(service)), arrivals, b) for b in (1, queue))
    assert single.served.size <= longer.served.size <= single.served.size + queue - 1
    while_arriving = longer.start_ms <= arrivals[-1]
    assert (longer.wait_ms[while_arriving] <= queue * interval).all()


@given(
    st.lists(st.floats(0, 300), min_size=1, max_size=50),
    st.floats(1, 100),
    st.floats(0, 2000),
    st.floats(0, 2000),
)
def test_budgets_nest_and_strict_is_never_beyond_overshoot(service, baseline, budget, more):
    for rule in ("strict", "overshoot"):
        assert budget_cutoff(service, baseline, budget, rule) <= budget_cutoff(
            service, baseline, budget + more, rule
        )
    spent = np.maximum(0.0, np.array(service) - baseline)
    strict = budget_cutoff(service, baseline, budget, "strict")
    assert math.fsum(spent[:strict]) <= budget + 1e-9
    overshoot = budget_cutoff(service, baseline, budget, "overshoot")
    assert math.fsum(spent[: max(0, overshoot - 1)]) <= budget + 1e-9
    if (spent > 0).all():
        assert overshoot - strict in (0, 1)


def test_an_empty_budget_adapts_nothing_under_overshoot_and_free_batches_under_strict():
    assert budget_cutoff([10, 10], 40, 0, "overshoot") == 0
    assert budget_cutoff([10, 10, 50, 10], 40, 0, "strict") == 2


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 200), st.floats(0, 200)), min_size=1, max_size=30))
def test_endless_patience_gives_accuracy(batches):
    accuracy, predict, adapt = (list(column) for column in zip(*batches, strict=True))
    score = Continuous(threshold_ms=1e15).score(
        accuracy=accuracy, predict_ms=predict, adapt_ms=adapt, baseline_ms=40
    )
    assert score.utility == pytest.approx(np.mean(accuracy), abs=1e-10)


def test_arrivals_of_one_instant():
    """An idle pipeline takes the first at once; one that becomes free then picks after all have queued."""
    idle = serve([10, 10, 10], [5, 5, 5], queue=1)
    assert idle.served.tolist() == [0, 2]
    becoming_free = serve([10, 10, 10], [0, 10, 10], queue=1)
    assert becoming_free.served.tolist() == [0, 2]
    unbuffered = serve([10, 10, 10], [0, 10, 10], queue=0)
    assert unbuffered.served.tolist() == [0, 1]
