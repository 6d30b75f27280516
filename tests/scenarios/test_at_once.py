"""Frames that are answered at once: all that wait together, and learned from apart."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Deployment, from_spec, route, to_spec


def simulate(case: dict) -> tuple[dict[int, float], list[list[int]], list[int]]:
    """Responses of the frames that are answered, groups, and losses, from one event to the next."""
    gap, size = 1000 / (case["fps"] * case["cameras"]), case["batch_size"]
    came = [frame * gap for frame in range(case["right"].size)]
    events = [(instant, 1, frame) for frame, instant in enumerate(came)]
    heapq.heapify(events)
    responses: dict[int, float] = {}
    waiting: list[int] = []
    groups: list[list[int]] = []
    lost: list[int] = []
    busy, collected, learned = False, 0, 0
    while events:
        now, arrives, frame = heapq.heappop(events)
        if arrives:
            waiting.append(frame)
            if busy and len(waiting) > case["queue"] * size:
                lost.append(waiting.pop(0))
        else:
            busy = False
        if waiting and not busy:
            group, waiting = waiting[:size], waiting[size:]
            before, after = case["e"][group[0] // size], 0.0
            collected += len(group)
            if collected >= size:
                collected, after, learned = collected - size, case["l"][learned], learned + 1
            responses |= {frame: now + before - came[frame] for frame in group}
            groups.append(group)
            busy = True
            heapq.heappush(events, (now + before + after, 0, -1))
    return responses, groups, lost


@st.composite
def streams(draw: st.DrawFn) -> dict:
    size, batches = draw(st.integers(1, 9)), draw(st.integers(1, 30))
    case: dict = {
        "fps": draw(st.sampled_from([7.5, 30, 60, 240])),
        "cameras": draw(st.integers(1, 20)),
        "batch_size": size,
        "queue": draw(st.integers(0, 3)),
    }
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    interval = 1000 / (case["fps"] * case["cameras"])
    scale = interval * draw(st.sampled_from([0.1, 0.4, 0.8, 1.5, 4, 12]))
    case["e"], case["l"] = scale * rng.uniform(0.2, 1, batches), scale * rng.uniform(0, size, batches)
    case["baseline_ms"] = 0.6 * scale
    late = case["baseline_ms"] + (interval + scale) * rng.uniform(0.01, 2)
    case.update(draw(st.sampled_from([{}, {"deadline_ms": late}, {"threshold_ms": late}])))
    case["right"] = rng.random((batches, size)) < 0.7
    return case


KNOBS = ("fps", "cameras", "batch_size", "queue", "deadline_ms", "threshold_ms")


def scored(case: dict, **more):
    camera = Deployment(answer="at_once", **{name: case[name] for name in KNOBS if name in case}, **more)
    return camera.score(
        correct=case["right"], predict_ms=case["e"], adapt_ms=case["l"], baseline_ms=case["baseline_ms"]
    )


@settings(max_examples=300, deadline=None)
@given(streams())
def test_random_streams_are_served_as_a_simulator_of_frames_says(case: dict) -> None:
    responses, groups, lost = simulate(case)
    score = scored(case)
    course, size, count = score.course, case["batch_size"], case["right"].size
    assert course.served.tolist() == [frame for group in groups for frame in group]
    assert score.response_ms == pytest.approx([responses[frame] for frame in course.served], abs=1e-9)
    assert score.recomposed() == pytest.approx(score.utility, abs=1e-12)
    assert score.terms["availability"] == len(course.served) / count
    # every frame ends once, in a group of a batch at most, whose answer no learning delays
    assert sorted([*course.served, *course.evicted]) == list(range(count))
    assert sorted(course.evicted) == sorted(lost)
    assert max(map(len, groups)) <= size
    assert course.emission_ms - course.start_ms == pytest.approx(course.predict_ms)
    assert np.count_nonzero(course.adapt_ms) <= len(course.served) // size
    ends = np.cumsum([len(group) for group in groups])
    assert (course.idle_ms >= 0).all()
    assert (
        np.diff(course.start_ms[ends - 1]) >= (course.predict_ms + course.adapt_ms)[ends - 1][:-1] - 1e-9
    ).all()


@settings(max_examples=50, deadline=None)
@given(streams())
def test_a_group_is_answered_as_one_frame_where_there_is_time_for_each(case: dict) -> None:
    """Without learning, and faster than frames come, nothing waits: it is a batch of one."""
    case["e"] = case["e"] / case["e"].max() * 500 / (case["fps"] * case["cameras"])
    case["l"] = 0 * case["l"]
    frames = {name: case[name] for name in KNOBS if name in case and name != "batch_size"}
    one = Deployment(**frames, batch_size=1).score(
        correct=case["right"].reshape(-1, 1),
        predict_ms=np.repeat(case["e"], case["batch_size"]),
        baseline_ms=case["baseline_ms"],
    )
    score = scored(case)
    assert (score.utility, score.terms) == (one.utility, one.terms)


def test_a_stream_worked_out_by_hand() -> None:
    """Frames every 10 ms; an answer takes 12, learning from two 30. While it learns, until 54, up to two may wait."""
    score = Deployment(fps=100, answer="at_once", batch_size=2, deadline_ms=30).score(
        correct=[[1, 0], [1, 1], [1, 1], [1, 1]], predict_ms=12, adapt_ms=30
    )
    assert score.course.served.tolist() == [0, 1, 4, 5, 6, 7]
    assert score.course.evicted.tolist() == [2, 3]
    assert score.course.start_ms.tolist() == [0, 12, 54, 54, 96, 96]
    assert score.course.adapt_ms.tolist() == [0, 30, 0, 30, 0, 30]
    assert score.response_ms.tolist() == [12, 14, 26, 16, 48, 38]
    assert score.utility == (1 + 0 + 1 + 1) / 8
    assert score.terms["adapted_fraction"] == 1


def test_a_budget_pays_for_what_is_beyond_standard_inference_of_as_many_frames() -> None:
    score = Deployment(fps=100, answer="at_once", batch_size=2, budget_ms=50).score(
        correct=np.ones((4, 2)),
        frozen_accuracy=np.zeros((4, 2)),
        predict_ms=12,
        adapt_ms=30,
        frozen_ms=12,
        baseline_ms=10,
    )
    assert score.terms["spent_ms"] == 2 + 32 + 22
    assert score.course.adapted.tolist() == [True] * 4 + [False] * len(score.course.served[4:])


def test_it_is_a_knob_like_any_other() -> None:
    spec = {"protocol": "deployment", "fps": 30, "batch_size": 16, "answer": "at_once", "queue": 2}
    camera = from_spec(spec)
    assert to_spec(camera) == spec
    resolved = camera.resolve(num_batches=5, batch_size=1)
    assert (resolved.at_once, resolved.queue, len(resolved.arrivals_ms or ())) == (16, 32, 5)
    assert route(camera, history_free=True, stateless=True).kind == "live"
    assert Deployment(fps=30, answer="at_once").at_once == 64
    assert Deployment(fps=30).at_once is None


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"fps": 30, "answer": "soon"}, "unknown answer 'soon'"),
        ({"interval_ms": 30, "answer": "at_once"}, "answer='at_once' without fps"),
    ],
)
def test_mistakes(knobs: dict, said: str) -> None:
    with pytest.raises(TemporaError, match=said):
        Deployment(**knobs)


def test_batches_of_several_images_have_no_such_answer() -> None:
    camera = Deployment(fps=30, answer="at_once")
    assert camera.misfit(10, 1) is None
    assert "batch_size 1" in str(camera.misfit(10, 64))
    with pytest.raises(TemporaError, match="batch_size 1"):
        camera.resolve(num_batches=10, batch_size=64)
