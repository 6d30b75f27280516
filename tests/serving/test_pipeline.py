"""The live pipeline does what the timeline says: on a clock of the test's own, to the last digit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from live_clock import FakeClock, Scripted, ScriptedStandard, numbered, tiny_network
from tempora_tta.scenarios import Deployment, replay
from tempora_tta.serving import Pipeline
from tempora_tta.serving.pipeline import driven_live

NETWORK = tiny_network()
LAMBDA_MS = 10.0


def pipeline_of(resolved, clock, times, journal, kind=Scripted):
    kinds = [type(one.__name__, (one,), {"clock": clock, **times}) for one in (kind, ScriptedStandard)]
    method, standard = (kind(NETWORK) for kind in kinds)
    return Pipeline(method, standard, resolved, clock=clock, journal=journal)


def lived(resolved, times, kind=Scripted):
    """The pipeline over the deployment's arrivals; its futures, its journal and its stats."""
    clock = FakeClock()
    futures, journal = [], []
    with pipeline_of(resolved, clock, times, journal.append, kind) as pipeline:

        def arrive():
            futures.append(pipeline.submit(numbered(len(futures))))
            pipeline.label(futures[-1], [len(futures) % 2])

        clock.arrivals, clock.arrive = list(resolved.arrivals_ms), arrive
        while clock.arrivals:
            assert pipeline.wait()
            with clock.lock:
                if clock.arrivals:
                    clock.to_next_arrival()
        assert pipeline.wait()
        stats = pipeline.stats()
    return futures, journal, stats


whole_ms = st.integers(0, 12).map(float)
"""Few and whole, so that arrivals often fall on completions, and on each other."""


@st.composite
def cases(draw):
    count = draw(st.integers(1, 12))
    gaps = draw(st.lists(st.integers(0, 10), min_size=count, max_size=count))
    knobs = {"queue": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        knobs["budget_ms"] = float(draw(st.integers(0, 100)))
    patience = draw(st.sampled_from([None, "threshold_ms", "deadline_ms"]))
    if patience:
        knobs[patience] = float(draw(st.integers(11, 60)))
    if draw(st.booleans()):
        knobs["fallback"], knobs["fallback_cost"] = draw(st.sampled_from(["latest", "standard"])), "charged"
    times = {
        name: draw(st.lists(whole_ms, min_size=count, max_size=count))
        for name in ("predict_ms", "adapt_ms", "frozen_ms")
    }
    deployment = Deployment(arrivals=[float(ms) for ms in np.cumsum(gaps)], **knobs)
    return deployment.resolve(num_batches=count, baseline_ms=LAMBDA_MS), times


@given(cases())
@settings(max_examples=150, deadline=None)
def test_the_pipeline_lives_what_the_timeline_says(case):
    resolved, times = case
    arrays = {name: np.array(values) for name, values in times.items()}
    course = replay(resolved.timeline(), *arrays.values(), fallback_ms=arrays["frozen_ms"])
    futures, journal, stats = lived(resolved, times)
    assert [row.batch for row in journal] == course.served.tolist()
    for name in ("arrived_ms", "start_ms", "emission_ms", "finish_ms"):
        assert [getattr(row, name) for row in journal] == getattr(course, name).tolist(), name
    phases = [course.phase[batch] for batch in course.served]
    assert [row.phase for row in journal] == phases

    answers = [future.result(timeout=0) for future in futures]
    served = set(course.served.tolist())
    assert [answer.dropped for answer in answers] == [i not in served for i in range(len(futures))]
    responses = dict(zip(course.served.tolist(), course.response_ms.tolist(), strict=True))
    assert {i: a.response_ms for i, a in enumerate(answers) if not a.dropped} == responses
    assert [a.fallback for a in answers] == [phase == "fallback" for phase in course.phase]

    right = np.array([float(batch % 3 == (batch + 1) % 2) for batch in course.served])
    score = resolved.score(course, right)
    assert stats["utility"] == pytest.approx(score.utility, abs=1e-12) or not served
    for term, value in score.terms.items():
        if term in stats and served:
            assert stats[term] == pytest.approx(value, abs=1e-9), term
    assert stats["arrived"] == len(futures)


@st.composite
def bursts(draw):
    knobs = {"queue": draw(st.integers(0, 2))}
    if draw(st.booleans()):
        knobs["fallback"], knobs["fallback_cost"] = "standard", "charged"
    if draw(st.booleans()):
        knobs["budget_ms"] = float(draw(st.integers(0, 20)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    times = {
        name: draw(st.lists(st.integers(0, 2).map(float), min_size=sum(sizes), max_size=sum(sizes)))
        for name in ("predict_ms", "adapt_ms", "frozen_ms")
    }
    return Deployment(arrivals=[0.0], **knobs).resolve(num_batches=1, baseline_ms=1.0), sizes, times


@given(bursts())
@settings(max_examples=150, deadline=None)
def test_the_journal_replays_to_the_same_course_however_coarse_the_clock(case):
    """Clients submit while the worker works, in any order, often at one reading of the clock."""
    resolved, sizes, times = case
    requests, journal = [], []
    with pipeline_of(resolved, FakeClock(), times, journal.append) as pipeline:
        for size in sizes:
            for _ in range(size):
                requests.append(pipeline.submit(numbered(len(requests))))
            assert pipeline.wait()
    count = len(requests)
    predict_ms, adapt_ms = np.zeros(count), np.zeros(count)
    for row in journal:
        predict_ms[row.batch], adapt_ms[row.batch] = row.predict_ms, row.adapt_ms
    arrived_ms = tuple(request.arrived_ms for request in requests)
    known = replace(driven_live(resolved), arrivals_ms=arrived_ms, num_batches=count)
    course = replay(known.timeline(), predict_ms, adapt_ms, predict_ms, fallback_ms=predict_ms)
    assert [row.batch for row in journal] == course.served.tolist()
    assert [row.start_ms for row in journal] == course.start_ms.tolist()
    assert [row.phase for row in journal] == [course.phase[batch] for batch in course.served]
    served = set(course.served.tolist())
    assert [request.result(0).dropped for request in requests] == [i not in served for i in range(count)]


class Counting(Scripted):
    """Answers any number of frames in one time, and learns for another after each batch of them."""

    size: int

    def setup(self) -> None:
        super().setup()
        self.answered = 0

    def predict(self, x):
        numbers = x[:, 0, 0, 0].long()
        self.clock.advance(self.predict_ms[int(numbers[0]) // self.size])
        self.answered += len(x)
        return nn.functional.one_hot(numbers % 3, 3).float()

    def adapt(self) -> str:
        if self.answered < self.size * (self.adapted + 1):
            return "collected"
        self.clock.advance(self.adapt_ms[self.adapted])
        self.adapted += 1
        return "step"


@st.composite
def cameras(draw):
    size, batches = draw(st.integers(1, 5)), draw(st.integers(1, 8))
    knobs = {"fps": 1000 / draw(st.integers(1, 12)), "batch_size": size, "queue": draw(st.integers(0, 2))}
    if draw(st.booleans()):
        knobs["deadline_ms"] = float(draw(st.integers(3, 60)))
    each_ms = st.lists(st.integers(1, 12).map(float), min_size=batches, max_size=batches)
    times = {name: draw(each_ms) for name in ("predict_ms", "adapt_ms")}
    return Deployment(answer="at_once", **knobs), times


@given(cameras())
@settings(max_examples=150, deadline=None)
def test_frames_answered_at_once_live_what_the_simulator_scores(case):
    camera, times = case
    size, batches = camera.at_once, len(times["predict_ms"])
    resolved = camera.resolve(num_batches=size * batches, baseline_ms=1.0)
    futures, journal, stats = lived(resolved, times | {"frozen_ms": [], "size": size}, Counting)
    right = [batch % 3 == (batch + 1) % 2 for batch in range(size * batches)]
    score = camera.score(correct=np.reshape(right, (batches, size)), **times, baseline_ms=1.0)
    course = score.course
    assert [row.batch for row in journal] == course.served.tolist()
    for name in ("arrived_ms", "start_ms", "emission_ms", "finish_ms"):
        assert [getattr(row, name) for row in journal] == getattr(course, name).tolist(), name
    answers = [future.result(timeout=0) for future in futures]
    assert [answer.dropped for answer in answers] == [phase == "skipped" for phase in course.phase]
    assert stats["utility"] == pytest.approx(score.utility, abs=1e-12)
    assert stats["mean_size"] == pytest.approx(len(course.served) / np.unique(course.start_ms).size)
    assert stats["steps"] == len(course.served) // size


def test_the_worked_example_of_a_camera():
    """design: lambda 40, interval 60, queue 1, T 100, B 100, 42 + 58 ms adapting, 38 ms frozen."""
    resolved = Deployment(interval_ms=60, threshold_ms=100, budget_ms=100).resolve(
        num_batches=8, baseline_ms=40
    )
    times = {"predict_ms": [42.0] * 8, "adapt_ms": [58.0] * 8, "frozen_ms": [38.0] * 8}
    futures, journal, stats = lived(resolved, times)
    assert [row.batch for row in journal] == [0, 1, 3, 4, 5, 6, 7]
    assert [future.result().response_ms for future in futures] == [42, 82, None, 58, 38, 38, 38, 38]
    assert [row.phase for row in journal] == ["adapt"] * 2 + ["frozen"] * 5
    assert stats["availability"] == 0.875
    assert stats["responsiveness"] == pytest.approx(0.903601, abs=1e-6)
    assert stats["spent_ms"] == 120
