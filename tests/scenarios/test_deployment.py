"""The general deployment: its worked example, its identity, its knobs, and live driving."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempora_tta import TemporaError
from tempora_tta.scenarios import (
    Amortised,
    Continuous,
    Deployment,
    Discrete,
    Offline,
    grid,
    paper_grid,
    relative_grid,
    replay,
)

CAMERA = Deployment(interval_ms=60, queue=1, threshold_ms=100, budget_ms=100, rule="overshoot")


def camera_score():
    return CAMERA.score(
        accuracy=[0.5] * 8,
        predict_ms=[42] * 8,
        adapt_ms=[58] * 8,
        frozen_accuracy=[0.4] * 8,
        frozen_ms=[38] * 8,
        baseline_ms=40,
    )


def test_worked_composite_to_its_printed_digits():
    score = camera_score()
    course = score.course
    assert course.served.tolist() == [0, 1, 3, 4, 5, 6, 7]
    assert course.evicted.tolist() == [2]
    assert course.adapted.tolist() == [True, True] + [False] * 5
    assert course.start_ms[:3].tolist() == [0, 100, 200]
    assert course.response_ms.tolist() == [42, 82, 58, 38, 38, 38, 38]
    assert score.terms["spent_ms"] == 120
    assert score.terms["availability"] == 0.875
    assert score.terms["adapted_fraction"] == pytest.approx(2 / 7)
    assert round(score.terms["responsiveness"], 6) == 0.903601
    assert round(score.terms["covariance"], 6) == -0.003589
    assert round(score.utility, 6) == 0.335710


fraction = st.floats(0, 1)
duration = st.one_of(st.integers(0, 200).map(float), st.floats(0, 200))


@st.composite
def streams(draw, max_batches=30):
    count = draw(st.integers(1, max_batches))
    column = lambda values: draw(st.lists(values, min_size=count, max_size=count))  # noqa: E731
    return {
        "accuracy": column(fraction),
        "predict_ms": column(duration),
        "adapt_ms": column(duration),
        "frozen_accuracy": column(fraction),
        "frozen_ms": column(duration),
        "baseline_ms": draw(st.floats(1, 100)),
    }


@st.composite
def deployments(draw, count, baseline_ms):
    kind = draw(st.sampled_from(["on_completion", "on_prediction", "periodic", "recorded"]))
    when: dict[str, object] = {"arrivals": kind}
    if kind == "periodic":
        when = {"interval_ms": draw(st.floats(1, 200))}
    elif kind == "recorded":
        gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 10.0, 55.5, 200.0]), min_size=count, max_size=count))
        when = {"arrivals": np.cumsum(gaps)}
    rules = ["overshoot", "strict"] if kind == "on_completion" else ["overshoot"]
    return Deployment(
        **when,
        queue=draw(st.sampled_from([0, 1, 2, 5])),
        threshold_ms=draw(st.one_of(st.none(), st.floats(baseline_ms * 1.001, baseline_ms * 50))),
        budget_ms=draw(st.one_of(st.none(), st.floats(0, 3000))),
        rule=draw(st.sampled_from(rules)),
    )


@given(st.data())
def test_six_terms_recompose_any_utility(data):
    stream = data.draw(streams())
    deployment = data.draw(deployments(len(stream["accuracy"]), stream["baseline_ms"]))
    score = deployment.score(**stream)
    assert score.recomposed() == pytest.approx(score.utility, abs=1e-12)
    assert score.utility <= score.terms["availability"] + 1e-12
    assert score.course.served.size + score.course.evicted.size == len(stream["accuracy"])


@given(st.data())
def test_live_driving_agrees_with_the_replay(data):
    """A live pass asks for each batch, tells how long it took, and redoes it frozen when told to.

    To the last digit: a replay works a stream that waits out at once, a live pass goes step by step.
    """
    stream = data.draw(streams())
    count = len(stream["accuracy"])
    willing = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    deployment = data.draw(deployments(count, stream["baseline_ms"]))
    resolved = deployment.resolve(num_batches=count, baseline_ms=stream["baseline_ms"])
    live = resolved.timeline()
    while (turn := live.next()) is not None:
        times = stream["predict_ms"][turn.batch], stream["adapt_ms"][turn.batch]
        if turn.adapting and live.record(*times, adapted=willing[turn.batch]):
            continue
        assert live.record(math.nan if resolved.untimed_tail else stream["frozen_ms"][turn.batch], 0.0)
    expected = replay(
        resolved.timeline(),
        *(np.array(stream[name]) for name in ("predict_ms", "adapt_ms")),
        None if resolved.untimed_tail else np.array(stream["frozen_ms"]),
        np.array(willing),
    )
    for name, value in vars(live.course()).items():
        np.testing.assert_array_equal(value, getattr(expected, name), err_msg=name, strict=True)


@given(streams())
def test_archetypes_are_settings_of_one_deployment(stream):
    lam = stream["baseline_ms"]
    accuracy, frozen = stream["accuracy"], stream["frozen_accuracy"]
    service = np.add(stream["predict_ms"], stream["adapt_ms"])
    pairs = [
        (Offline().score(accuracy=accuracy), Deployment(arrivals="on_completion")),
        (
            Discrete(utilisation=0.5, queue=2).score(accuracy=accuracy, service_ms=service, baseline_ms=lam),
            Deployment(interval_ms=2 * lam, queue=2),
        ),
        (
            Continuous(threshold_x=3).score(
                accuracy=accuracy,
                predict_ms=stream["predict_ms"],
                adapt_ms=stream["adapt_ms"],
                baseline_ms=lam,
            ),
            Deployment(arrivals="on_prediction", threshold_ms=3 * lam),
        ),
        (
            Amortised(budget_baselines=4).score(
                accuracy=accuracy, frozen_accuracy=frozen, service_ms=service, baseline_ms=lam
            ),
            Deployment(arrivals="on_completion", budget_ms=4 * lam, rule="strict"),
        ),
    ]
    for archetype, deployment in pairs:
        general = deployment.score(**stream)
        assert archetype.utility == general.utility
        for term in ("availability", "adapted_fraction", "responsiveness", "covariance", "cutoff"):
            assert archetype.terms[term] == general.terms[term]


def test_strict_undoes_the_batch_that_crosses_the_budget():
    timeline = Amortised(budget_ms=100).resolve(num_batches=3, baseline_ms=40).timeline()
    assert timeline.next().adapting
    assert timeline.record(50, 50)
    crossing = timeline.next()
    assert crossing.adapting
    assert not timeline.record(50, 50), "60 + 60 ms are more than the budget"
    assert timeline.record(math.nan, 0.0), "redone frozen, untimed"
    tail = timeline.next()
    assert not tail.adapting
    assert not tail.timed
    timeline.record(math.nan, 0.0)
    assert timeline.next() is None
    course = timeline.course()
    assert course.adapted.tolist() == [True, False, False]
    assert course.spent_ms == 60


def test_frozen_tails_are_timed_where_someone_waits_for_them():
    impatient = Deployment(arrivals="on_completion", threshold_ms=100, budget_ms=0)
    assert impatient.resolve(num_batches=1, baseline_ms=40).timeline().next().timed
    with pytest.raises(TemporaError, match="frozen_ms: needed"):
        impatient.score(accuracy=[1.0], predict_ms=[1.0], frozen_accuracy=[1.0], baseline_ms=40)


def test_a_method_that_froze_itself_is_not_charged():
    timeline = Amortised(budget_ms=1000, rule="overshoot").resolve(num_batches=2, baseline_ms=40).timeline()
    for adapted in (True, False):
        timeline.next()
        timeline.record(100, 0, adapted=adapted)
    assert timeline.course().spent_ms == 60
    assert timeline.course().cutoff == 1


def test_a_live_timeline_knows_its_queue_and_budget():
    timeline = (
        Deployment(interval_ms=10, queue=2, budget_ms=100).resolve(num_batches=9, baseline_ms=5).timeline()
    )
    timeline.next()
    assert [timeline.waiting(now_ms) for now_ms in (0, 10, 25, 80)] == [0, 1, 2, 2]
    timeline.record(20, 25)
    assert timeline.budget_left_ms == 60


def test_undefined_terms_are_none():
    no_tail = Amortised(budget_ms=1e9).score(accuracy=[0.5], service_ms=[50], baseline_ms=40)
    assert no_tail.terms["frozen_accuracy"] is None
    nothing_adapted = Amortised(budget_ms=0, rule="overshoot").score(
        accuracy=[0.5], frozen_accuracy=[0.3], service_ms=[50], baseline_ms=40
    )
    assert nothing_adapted.terms["adapt_accuracy"] is None
    assert nothing_adapted.utility == pytest.approx(0.3)


def test_grids():
    assert [s.label for s in paper_grid("resnet50")] == [
        *(f"ρ {p} %" for p in (100, 70, 50, 35, 25)),
        *(f"T {t} ms" for t in (50, 100, 200, 400, 1000)),
        *(f"B {b} s" for b in (1, 2, 4, 8, 16, 32)),
    ]
    intervals = [s.resolve(num_batches=1, baseline_ms=39.9).interval_ms for s in paper_grid("vit")[:5]]
    assert [round(i, 1) for i in intervals] == [39.9, 56.4, 79.8, 112.9, 159.6]
    own = [s.budget_ms for s in grid("published:rn18_c10c_rpi5")[5:]]
    assert own == [12000, 24000, 48000, 96000]
    assert grid("published:rn18_c10c_rtx4080")[1].interval_ms == 2.1
    for setup in ("rn50", "vit"):  # what a user's machine runs has the labels of what was printed
        alike = paper_grid({"rn50": "resnet50", "vit": "vit"}[setup])
        assert [s.label for s in grid(f"published:{setup}_inr")] == [s.label for s in alike]
    budgets = [s.resolve(num_batches=156, baseline_ms=2).budget_ms for s in paper_grid("resnet18")[5:]]
    assert budgets == [50, 100, 200, 400]
    relative = [s.resolve(num_batches=100, baseline_ms=10) for s in relative_grid()]
    assert [r.threshold_ms for r in relative[5:10]] == [12.5, 25, 50, 100, 250]
    assert [r.budget_ms for r in relative[10:]] == [31.25, 62.5, 125, 250, 500, 1000]


def test_a_threshold_below_lambda_makes_a_grid_cell_not_applicable():
    assert "not above baseline_ms=60" in Continuous(threshold_ms=50).not_applicable(60)
    assert Continuous(threshold_ms=50).not_applicable(40) is None
    assert Discrete(utilisation=1.0).not_applicable(40) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Discrete(interval_ms=-5), r"interval_ms=-5: must be a finite number above 0"),
        (lambda: Discrete(interval_ms=math.nan), "interval_ms=nan"),
        (lambda: Discrete(), "needs one of interval_ms, utilisation"),
        (lambda: Discrete(interval_ms=5, utilisation=1), "set the same knob"),
        (lambda: Discrete(interval_ms="5"), "must be a number"),
        (lambda: Discrete(interval_ms=5, queue=-1), r"queue=-1: must be a whole number"),
        (lambda: Discrete(interval_ms=5, queue=1.5), "queue=1.5"),
        (lambda: Discrete(utilisation=0), "utilisation=0"),
        (lambda: Discrete(interval_ms=5, name=["a"]), r"name=\['a'\]: must be a text"),
        (lambda: Deployment(interval_ms=5, name=" "), "name=' ': must be a text"),
        (lambda: Amortised(budget_ms=-1), "budget_ms=-1: must be 0 or above"),
        (lambda: Amortised(budget_ms=1, rule="strikt"), "unknown rule 'strikt': did you mean 'strict'"),
        (lambda: Deployment(), "say when batches arrive"),
        (lambda: Deployment(arrivals="on_predictoin"), "did you mean 'on_prediction'"),
        (lambda: Deployment(arrivals=[0, 5, 3]), r"arrivals_ms\[2\]=.*never go back in time"),
        (lambda: Deployment(interval_ms=5, budget_ms=5, rule="strict"), "use rule='overshoot'"),
        (lambda: paper_grid("resnet5"), "did you mean 'resnet50'"),
    ],
)
def test_wrong_knobs_say_what_to_do(make, message):
    with pytest.raises(TemporaError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predict_ms": [1, -1]}, r"predict_ms\[1\]=.*-1.0.*: times are finite milliseconds, 0 or above"),
        ({"adapt_ms": [1, math.nan]}, r"adapt_ms\[1\]="),
        ({"predict_ms": [1, 1, 1]}, "predict_ms has 3 entries and accuracy has 2"),
        ({"accuracy": []}, "accuracy: is empty"),
        ({"accuracy": [50, 60]}, "fractions from 0 to 1"),
        ({"accuracy": [[0.5, 0.5]]}, r"shape \(1, 2\)"),
        ({"accuracy": ["high", "low"]}, "must be numbers"),
        ({"baseline_ms": 100}, "threshold_ms=90 is not above baseline_ms=100"),
        ({"baseline_ms": None}, "baseline_ms: needed"),
        ({"baseline_ms": -3}, "baseline_ms=-3"),
        ({"frozen_accuracy": None}, "frozen_accuracy: needed, since the budget freezes the model after 1"),
        ({"frozen_accuracy": [0.1]}, "frozen_accuracy has 1 entries"),
    ],
)
def test_wrong_streams_say_what_to_do(change, message):
    stream = {
        "accuracy": [0.5, 0.5],
        "predict_ms": [50, 50],
        "adapt_ms": [50, 50],
        "frozen_accuracy": [0.5, 0.5],
        "frozen_ms": [40, 40],
        "baseline_ms": 40,
    }
    deployment = Deployment(interval_ms=60, threshold_ms=90, budget_ms=10)
    with pytest.raises(TemporaError, match=message):
        deployment.score(**(stream | change))


def test_recorded_arrivals_must_cover_the_stream():
    with pytest.raises(TemporaError, match="hold 1 time and the stream has 2 batches"):
        Deployment(arrivals=[0.0]).score(accuracy=[1, 1], predict_ms=5)


def test_driving_out_of_turn_is_a_programming_error():
    timeline = Offline().resolve(num_batches=1).timeline()
    with pytest.raises(RuntimeError, match="call next"):
        timeline.record(1, 1)
    timeline.next()
    with pytest.raises(RuntimeError, match="not recorded yet"):
        timeline.next()


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: Discrete(interval_ms=40).score(accuracy=[1, 1], service_ms=[1]), "service_ms has 1 entries"),
        (
            lambda: Discrete(interval_ms=40).score(accuracy=[1, 1], service_ms=[1, math.nan]),
            r"service_ms\[1\]=nan: times",
        ),
        (
            lambda: Amortised(budget_ms=1e9).score(
                accuracy=[1, 1], frozen_accuracy=[1], service_ms=[100, 2], baseline_ms=4
            ),
            "frozen_accuracy has 1 entries",
        ),
        (
            lambda: Deployment(arrivals=[0, 10, 20]).score(accuracy=[1, 1], predict_ms=5),
            "arrivals has 3 entries and accuracy has 2",
        ),
        (lambda: Discrete(interval_ms=40).resolve(num_batches=0), "num_batches=0: a stream has"),
    ],
)
def test_lengths_are_checked_under_the_names_given(score, message):
    with pytest.raises(TemporaError, match=message):
        score()


@pytest.mark.parametrize("times", [(math.nan, 0.0), (-5.0, 0.0), (5.0, math.inf)])
def test_a_live_pass_cannot_record_impossible_times(times):
    timeline = Discrete(interval_ms=40).resolve(num_batches=2).timeline()
    timeline.next()
    with pytest.raises(TemporaError, match="times are finite milliseconds"):
        timeline.record(*times)


@given(st.data())
def test_a_slower_device_in_front_of_a_slower_world_is_the_same_deployment(data):
    stream = data.draw(streams())
    count = len(stream["accuracy"])
    deployment = data.draw(deployments(count, stream["baseline_ms"]))
    resolved = deployment.resolve(num_batches=count, baseline_ms=stream["baseline_ms"])
    scores = []
    for factor in (1.0, 2.0):  # a power of two, which moves no digit
        times = [factor * np.array(stream[name]) for name in ("predict_ms", "adapt_ms", "frozen_ms")]
        stretched = resolved.stretched(factor)
        course = replay(stretched.timeline(), *times)
        scores.append(stretched.score(course, np.array(stream["accuracy"])[course.served]))
    once, twice = scores
    np.testing.assert_array_equal(twice.course.served, once.course.served)
    np.testing.assert_array_equal(twice.course.adapted, once.course.adapted)
    np.testing.assert_array_equal(twice.course.response_ms, 2 * once.course.response_ms)
    assert twice.utility == pytest.approx(once.utility, abs=1e-12)
