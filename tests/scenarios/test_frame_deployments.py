"""Frames: each has a response of its own, and counts alone."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Deployment, from_spec, to_spec
from tempora_tta.scenarios.course import PERCENTILES


def simulate(case: dict, right: np.ndarray, frozen: np.ndarray) -> tuple[list[float], list[float]]:
    """Per frame of a stream, what it was worth and its response (infinite if lost), from one event to the next."""
    gap, size = 1000 / (case["fps"] * case["cameras"]), case["batch_size"]
    came = [frame * gap for frame in range(right.size)]
    events = [(instant, 1, frame) for frame, instant in enumerate(came)]
    heapq.heapify(events)
    worth, responses = [0.0] * right.size, [float("inf")] * right.size
    collecting: list[int] = []
    line: list[list[int]] = []
    busy, spent = False, 0.0

    def begin(now: float, frames: list[int]) -> None:
        nonlocal busy, spent
        batch = frames[0] // size
        adapts = spent < case.get("budget_ms", float("inf"))
        before, after = (case["e"][batch], case["l"][batch]) if adapts else (case["f"][batch], 0.0)
        spent += max(0.0, before + after - case["baseline_ms"]) if adapts else 0.0
        labels = (right if adapts else frozen)[batch]
        for place, frame in enumerate(frames):
            responses[frame] = now + before - came[frame]
            worth[frame] = float(labels[place]) * value(responses[frame])
        busy = True
        heapq.heappush(events, (now + before + after, 0, -1))

    def value(response: float) -> float:
        if "deadline_ms" in case:
            return float(response <= case["deadline_ms"])
        if "threshold_ms" in case:
            late, patience = response - case["baseline_ms"], case["threshold_ms"] - case["baseline_ms"]
            return 1 / (1 + max(late, 0) / patience)
        return 1.0

    while events:
        now, arrives, frame = heapq.heappop(events)
        if not arrives:
            busy = False
        else:
            collecting.append(frame)
            if len(collecting) < size:
                continue
            line.append(collecting)
            collecting = []
            if busy and len(line) > case["queue"]:
                line.pop(0)
        if line and not busy:
            begin(now, line.pop(0))
    return worth, responses


@st.composite
def streams(draw: st.DrawFn) -> dict:
    size, batches = draw(st.integers(1, 9)), draw(st.integers(1, 40))
    case: dict = {
        "fps": draw(st.sampled_from([7.5, 30, 60, 240])),
        "cameras": draw(st.integers(1, 20)),
        "batch_size": size,
        "queue": draw(st.integers(0, 3)),
    }
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    interval = size * 1000 / (case["fps"] * case["cameras"])
    scale = interval * draw(st.sampled_from([0.1, 0.4, 0.8, 1.5, 4]))
    case["e"], case["l"], case["f"] = (scale * rng.uniform(0.2, 1, batches) for _ in range(3))
    case["baseline_ms"] = 0.6 * scale * rng.uniform(0.5, 1)
    late = case["baseline_ms"] + (interval + scale) * rng.uniform(0.01, 1.5)
    case.update(draw(st.sampled_from([{}, {"deadline_ms": late}, {"threshold_ms": late}])))
    case.update(draw(st.sampled_from([{}, {"budget_ms": scale * rng.uniform(0, batches / 3)}])))
    case["right"], case["frozen"] = (rng.random((batches, size)) < 0.7 for _ in range(2))
    return case


KNOBS = ("fps", "cameras", "batch_size", "queue", "deadline_ms", "threshold_ms", "budget_ms")


@settings(max_examples=300, deadline=None)
@given(streams())
def test_random_streams_are_worth_what_a_simulator_of_frames_says(case: dict) -> None:
    worth, responses = simulate(case, case["right"], case["frozen"])
    score = Deployment(**{name: case[name] for name in KNOBS if name in case}).score(
        correct=case["right"],
        predict_ms=case["e"],
        adapt_ms=case["l"],
        frozen_accuracy=case["frozen"],
        frozen_ms=case["f"],
        baseline_ms=case["baseline_ms"],
    )
    assert score.utility == pytest.approx(np.mean(worth), abs=1e-9)
    assert score.worth == pytest.approx(np.reshape(worth, case["right"].shape).mean(axis=1), abs=1e-9)
    assert score.recomposed() == pytest.approx(score.utility, abs=1e-12)
    assert score.terms["availability"] == pytest.approx(np.mean(np.isfinite(responses)), abs=1e-12)
    assert sorted(score.response_ms) == pytest.approx(sorted(filter(np.isfinite, responses)), abs=1e-9)
    for percent, needed in PERCENTILES.items():
        told = score.terms[f"response_p{percent}_ms"]
        rank = -(-percent * len(responses) // 100)  # the least time within which this many were answered
        if len(responses) < needed:
            assert told is None
        else:
            assert told == pytest.approx(sorted(responses)[rank - 1], abs=1e-9)


def test_a_stream_worked_out_by_hand() -> None:
    """Frames every 10 ms in pairs: batches are full at 10, 30, 50 and 70 ms and take 40. The second is lost, as the
    pipeline becomes free in the instant in which the third is full."""
    score = Deployment(fps=100, batch_size=2, threshold_ms=60).score(
        correct=[[1, 0], [1, 1], [1, 1], [0, 1]], predict_ms=20, adapt_ms=20, baseline_ms=20
    )
    assert score.course.served.tolist() == [0, 2, 3]
    assert score.response_ms.tolist() == [30, 20, 30, 20, 50, 40]
    assert score.utility == pytest.approx((0.8 + 0.8 + 1 + 2 / 3) / 8)
    assert score.worth.tolist() == pytest.approx([0.4, 0, 0.9, 1 / 3])
    assert score.terms["availability"] == 0.75
    assert score.terms["accuracy"] == pytest.approx(4 / 6)
    assert score.terms["responsiveness"] == pytest.approx((0.8 + 1 + 0.8 + 1 + 4 / 7 + 2 / 3) / 6)
    assert score.terms["response_p50_ms"] == 30  # half of all eight, two of which are lost
    assert score.recomposed() == pytest.approx(score.utility, abs=1e-15)


@pytest.mark.parametrize(
    ("size", "accuracy", "deadline_ms", "in_time"),
    [
        (64, 0.772, 50, 2),
        (64, 0.772, 200, 6),
        (64, 0.772, 1000, 30),
        (64, 0.772, 5000, 64),
        (16, 0.727, 1000, 16),
        (4, 0.653, 200, 4),
    ],
)
def test_one_camera_at_30_frames_per_second(
    size: int, accuracy: float, deadline_ms: float, in_time: int
) -> None:
    """The first of a batch of 64 waits for 2.1 s: within 200 ms only the last six of them are answered."""
    score = Deployment(fps=30, batch_size=size, deadline_ms=deadline_ms).score(
        accuracy=np.full(12, accuracy), predict_ms=8, adapt_ms=23
    )
    assert score.utility == pytest.approx(accuracy * in_time / size)
    assert score.terms["availability"] == 1


@pytest.mark.parametrize(
    "knobs",
    [
        {"deadline_ms": 55},
        {"threshold_x": 1.7, "queue": 0},
        {"queue": 2, "budget_ms": 90, "fallback": "standard"},
        {"deadline_ms": 70, "queue": 0, "fallback": "latest", "fallback_cost": "charged"},
    ],
)
@pytest.mark.parametrize(("fps", "cameras"), [(30, 1), (25, 1), (7.5, 3)])
def test_batches_of_one_frame_are_periodic_batches_to_the_bit(knobs: dict, fps: float, cameras: int) -> None:
    rng = np.random.default_rng(3)
    stream = {
        "predict_ms": rng.uniform(20, 50, 40),
        "adapt_ms": rng.uniform(0, 40, 40),
        "frozen_ms": 30.0,
        "fallback_ms": 30.0,
        "baseline_ms": 30.0,
    }
    right, frozen, rescued = (rng.random((40, 1)) < 0.6 for _ in range(3))
    frames = Deployment(fps=fps, cameras=cameras, **knobs).score(
        correct=right, frozen_accuracy=frozen, fallback_accuracy=rescued, **stream
    )
    batches = Deployment(interval_ms=1000 / (fps * cameras), **knobs).score(
        accuracy=right[:, 0], frozen_accuracy=frozen[:, 0], fallback_accuracy=rescued[:, 0], **stream
    )
    assert (frames.utility, frames.terms) == (batches.utility, batches.terms)
    assert (frames.worth == batches.worth).all()


def test_with_one_number_per_batch_every_frame_counts_it() -> None:
    given = {"predict_ms": 30, "adapt_ms": 35, "baseline_ms": 30}
    camera = Deployment(fps=100, batch_size=5, threshold_ms=70)
    right = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    one, other = camera.score(correct=right, **given), camera.score(accuracy=right[:, 0], **given)
    assert (one.utility, one.terms) == (other.utility, other.terms)
    assert camera.score(accuracy=[0.4, 0.4], **given).terms["covariance"] == pytest.approx(0, abs=1e-15)


def test_where_batches_are_given_as_such_samples_only_make_an_accuracy() -> None:
    given = {"predict_ms": 30, "adapt_ms": 35, "baseline_ms": 30}
    batches = Deployment(interval_ms=50, threshold_ms=70)
    right = np.random.default_rng(0).random((30, 7)) < 0.5
    one, other = batches.score(correct=right, **given), batches.score(accuracy=right.mean(axis=1), **given)
    assert (one.utility, one.terms) == (other.utility, other.terms)


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"fps": 30, "interval_ms": 40}, "interval_ms and fps set the same knob: give one"),
        ({"fps": 30, "utilisation": 0.5}, "give one of them"),
        ({"fps": 30, "arrivals": "on_prediction"}, "give one of them"),
        ({"fps": 0}, "must be a finite number above 0"),
        ({"fps": 30, "cameras": 0}, "whole number, 1 or above"),
        ({"fps": 30, "batch_size": 2.5}, "whole number, 1 or above"),
        ({"interval_ms": 40, "cameras": 2}, "without fps: say how many frames each camera takes"),
        ({"interval_ms": 40, "batch_size": 2}, "without fps"),
    ],
)
def test_knobs_that_do_not_go_together_say_what_to_do(knobs: dict, said: str) -> None:
    with pytest.raises(TemporaError, match=said):
        Deployment(**knobs)


@pytest.mark.parametrize(
    ("size", "correct", "said"),
    [
        (None, None, "batch_size: needed with fps"),
        (3, [[1, 0], [0, 1]], "only a size that was run has an answer"),
        (2, [[1, 0], [0, 2]], "accuracies are fractions"),
        (2, [1, 0], "of every sample"),
    ],
)
def test_streams_that_are_not_of_frames_are_refused(
    size: int | None, correct: Sequence | None, said: str
) -> None:
    given = {"accuracy": [0.5, 0.5]} if correct is None else {"correct": correct}
    with pytest.raises(TemporaError, match=said):
        Deployment(fps=30, batch_size=size).score(**given, predict_ms=3)


def test_a_configuration_leaves_the_size_to_its_run() -> None:
    spec = {"protocol": "deployment", "fps": 30, "cameras": 20, "deadline_ms": 200}
    camera = from_spec(spec)
    assert (to_spec(camera), camera.label) == (spec, "20 × 30 frames/s, D 200 ms")
    resolved = camera.resolve(num_batches=3, batch_size=4)
    assert resolved.arrivals_ms == pytest.approx((5, 35 / 3, 55 / 3))
    assert resolved.waited_ms == pytest.approx((5, 10 / 3, 5 / 3, 0))
    assert resolved.interval_ms == pytest.approx(20 / 3)
    assert camera.misfit(3, 4) is None
    assert "batch_size=8" in str(Deployment(fps=30, batch_size=8).misfit(3, 4))
