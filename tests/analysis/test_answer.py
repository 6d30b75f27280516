"""The answer: questions in the user's units, what fits on a machine, and stretches of settings."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_runs import BATCH_SIZE, METHODS, Pace, write_run
from tempora_tta.analysis import Question, answers, recommend, safest, stretches
from tempora_tta.analysis.answer import plain
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Amortised, Continuous, Deployment, Discrete, Offline, Poisson, Scenario
from tempora_tta.store import Results


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({"interval_ms": 20.0}, Discrete(interval_ms=20.0)),
        ({"interval_ms": 20.0, "queue": 0}, Discrete(interval_ms=20.0, queue=0)),
        ({"threshold_ms": 20.0}, Continuous(threshold_ms=20.0)),
        ({"budget_s": 0.5}, Amortised(budget_ms=500.0)),
        ({"budget_x": 0.5}, Amortised(budget_x=0.5)),
        ({"deadline_ms": 20.0}, Deployment(arrivals="on_prediction", deadline_ms=20.0)),
        ({"fps": 30.0, "cameras": 4}, Deployment(fps=30.0, cameras=4)),
        (
            {"fps": 30.0, "deadline_ms": 9.0, "budget_s": 1.0},
            Deployment(fps=30.0, deadline_ms=9.0, budget_ms=1000.0),
        ),
        ({"rate_hz": 500.0}, Deployment(arrivals=Poisson(rate_hz=10.0), queue=16)),
        (
            {"interval_ms": 20.0, "threshold_ms": 30.0, "budget_x": 1.0},
            Deployment(interval_ms=20.0, threshold_ms=30.0, budget_x=1.0),
        ),
        ({"memory_mb": 100.0}, Offline()),
        ({"p99_ms": 100.0}, None),
        ({"availability": 0.99}, None),
    ],
)
def test_knobs_combine_into_one_deployment(
    run: Results, knobs: dict[str, Any], expected: Scenario | None
) -> None:
    assert Question(**knobs).deployment(run) == expected


@pytest.mark.parametrize(
    "knobs",
    [
        {"fps": 30.0, "rate_hz": 5.0},
        {"deadline_ms": 5.0, "threshold_ms": 5.0},
        {"budget_s": 5.0, "budget_x": 5.0},
        {"scenario": "offline", "fps": 5.0},
        {"scenario": "offline", "cameras": 5},
        {"fps": -5.0},
        {"budget_s": math.inf},
    ],
)
def test_what_contradicts_itself_is_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(TemporaError):
        Question(**knobs)


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> Results:
    methods = {"standard": Pace(9.0, 0.0, 0.3)}
    place = tmp_path_factory.mktemp("standard")
    return write_run(place, methods=methods, scenarios=[Offline()], shifts=("fog",))


@settings(max_examples=12)
@given(fps=st.floats(1.0, 200.0), cameras=st.integers(1, 20), deadline_ms=st.floats(1.0, 3000.0))
def test_the_frames_that_can_be_in_time_are_those_that_a_replay_finds(
    standard: Results, fps: float, cameras: int, deadline_ms: float
) -> None:
    """Standard takes 9 ms for a batch, 3 % more or less; nothing waits, and every frame has its own arrival."""
    found = recommend(standard, Question(fps=fps, cameras=cameras, deadline_ms=deadline_ms))
    gap_ms = 1000.0 / (fps * cameras)

    def in_time(predict_ms: float) -> float:
        return sum(place * gap_ms + predict_ms <= deadline_ms for place in range(BATCH_SIZE)) / BATCH_SIZE

    shares = found.setting["frames_in_time"] / BATCH_SIZE, found.ranking["in_time"].iloc[0]
    assert all(in_time(9.0 * 1.031) <= share <= in_time(9.0 * 0.969) for share in shares)
    assert (found.fits == "yes") == (found.setting["frames_in_time"] == BATCH_SIZE)


@pytest.mark.parametrize(("cameras", "fits"), [(1, "yes"), (99, "yes"), (101, "no"), (1000, "no")])
def test_more_images_than_the_machine_classifies_do_not_fit(run: Results, cameras: int, fits: str) -> None:
    """5,000 images per second are 100 cameras of 50 frames per second."""
    found = recommend(run, Question(fps=50.0, cameras=cameras))
    assert found.fits == fits
    assert found.setting["images_per_s"] == pytest.approx(50.0 * cameras)


def test_a_budget_is_a_share_of_one_stream_however_many_there_are(tmp_path: Path) -> None:
    """40 batches of 10 ms are 0.4 s of plain computing, on each shift and in each order."""
    budget = [Offline(), Amortised(budget_ms=60.0), Amortised(budget_x=0.5)]
    several = answers(write_run(tmp_path, scenarios=budget, shifts=("fog", "snow", "clean"), seeds=(1, 2)))
    assert [one.setting["budget_share"] for one in several[1:]] == pytest.approx([0.15, 0.5])
    assert [one.setting["budget_s"] for one in several[1:]] == pytest.approx([0.06, 0.2])


def test_frames_wait_for_their_batch(run: Results) -> None:
    found = recommend(run, Question(fps=50.0, cameras=20, deadline_ms=1000.0))
    fill_ms = (BATCH_SIZE - 1) * 1000 / (50 * 20)
    assert found.setting["fill_ms"] == pytest.approx(fill_ms)
    wait = found.ranking.set_index("method").loc["standard", "first_wait_ms"]
    assert wait == pytest.approx(fill_ms + 9.0, rel=0.02)
    busy = found.ranking.set_index("method")["busy"]
    assert busy["standard"] == pytest.approx(9.0 / 50.0, rel=0.02)
    assert busy["sar"] == pytest.approx(41.0 / 50.0, rel=0.02)


def test_one_method_and_where_another_is_better(tmp_path: Path) -> None:
    methods = {name: METHODS[name] for name in ("standard", "adabn", "tent")}
    strict = [Continuous(threshold_ms=ms) for ms in (12.0, 15.0, 1000.0)]
    found = answers(write_run(tmp_path, methods=methods, scenarios=[Offline(), *strict]))
    assert [one.method for one in found] == ["tent", "adabn", "adabn", "tent"]
    assert safest(found) == "adabn"
    assert [(method, len(part)) for method, part in stretches(found)] == [("adabn", 2), ("tent", 1)]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_plain_data_are_valid_json(value: Any) -> None:
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == plain(value)


def test_an_answer_is_valid_json_for_any_question(run: Results) -> None:
    for question in (Question(fps=30.0, deadline_ms=200.0), Question(p95_ms=1.0), Question(threshold_ms=3.0)):
        text = json.dumps(recommend(run, question).to_json(), allow_nan=False)
        assert json.loads(text)["fits"] in ("yes", "no", "unknown")
