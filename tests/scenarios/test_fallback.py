"""Deadlines, fallbacks, percentiles, and timelines whose arrivals become known as they happen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempora_tta import TemporaError, published
from tempora_tta.scenarios import Deployment, Discrete, Offline, Recorded, percentiles, replay

duration = st.one_of(st.integers(0, 120).map(float), st.floats(0, 120))
fraction = st.floats(0, 1)


@st.composite
def cases(draw, fallbacks=(None, "latest", "standard")):
    """A stream and a deployment on a schedule, with every knob; instants coincide often."""
    count = draw(st.integers(1, 25))
    column = lambda values: draw(st.lists(values, min_size=count, max_size=count))  # noqa: E731
    gaps = column(st.sampled_from([0.0, 0.0, 10.0, 20.0, 40.0, 55.5]))
    baseline_ms = draw(st.floats(1, 60))
    value = draw(
        st.one_of(
            st.just({}),
            st.floats(1.01, 20).map(lambda x: {"threshold_x": x}),
            st.sampled_from([10.0, 20.0, 50.0, 97.5]).map(lambda ms: {"deadline_ms": ms}),
        )
    )
    deployment = Deployment(
        arrivals=Recorded(np.cumsum(gaps)),
        queue=draw(st.sampled_from([0, 1, 2, 5])),
        budget_ms=draw(st.one_of(st.none(), st.floats(0, 1500))),
        fallback=draw(st.sampled_from(fallbacks)),
        **value,
    )
    if deployment.fallback is not None:
        cost = draw(st.sampled_from(["free", "charged"]))
        deployment = Deployment(**{**vars(deployment), "fallback_cost": cost})
    stream = {
        **{name: column(fraction) for name in ("accuracy", "frozen_accuracy", "fallback_accuracy")},
        **{name: column(duration) for name in ("predict_ms", "adapt_ms", "frozen_ms", "fallback_ms")},
        "baseline_ms": baseline_ms,
    }
    return deployment, stream


def test_a_deadline_is_worth_all_or_nothing_and_the_instant_itself_still_counts():
    """The worked example of docs/concepts/scenarios.md: every 60 ms, 40 ms to answer, 45 ms to adapt."""
    score = Deployment(interval_ms=60, deadline_ms=65).score(
        accuracy=[0.5, 0.5, 0.5, 0.5], predict_ms=40, adapt_ms=45
    )
    assert score.course.response_ms.tolist() == [40, 65, 90, 115]
    assert score.terms["responsiveness"] == 0.5, "65 ms is in time"
    assert score.terms["availability"] == 1, "a late batch is still served, for nothing"
    assert score.utility == 0.25


def example(**fallback):
    """The worked example of docs/concepts/scenarios.md: a batch every 40 ms, no queue, 100 ms each."""
    deployment = Deployment(interval_ms=40, queue=0, **fallback)
    return deployment.score(
        accuracy=[0.8] * 8, predict_ms=60, adapt_ms=40, fallback_accuracy=[0.4] * 8, fallback_ms=27
    )


def test_a_random_fallback_is_right_as_often_as_chance_is():
    """Alfarra et al. count a batch that their one model skips as guessed: 1/C, and no sampling."""
    guessing = Deployment(interval_ms=10, queue=0, fallback="random", classes=10)
    score = guessing.score(accuracy=[0.5] * 4, predict_ms=5, adapt_ms=[10, 4, 10, 4])
    assert score.course.phase == ["adapt", "fallback", "adapt", "fallback"]
    assert score.utility == pytest.approx(0.30)
    assert score.recomposed() == pytest.approx(0.30)
    assert score.terms["fallback_accuracy"] == 0.1
    lost = Deployment(interval_ms=10, queue=0).score(
        accuracy=[0.5] * 4, predict_ms=5, adapt_ms=[10, 4, 10, 4]
    )
    assert lost.utility == 0.25


def test_guessing_adds_a_little_to_the_papers_unbuffered_tent():
    """ResNet-50 at a utilisation of 100 %: 13.1 % as printed, 33.4 % served; a thousand classes."""
    rows = published.table("buffering", "rn50_inc").set_index(["method", "variant"])
    tent = rows.loc[("tent", "unbuffered")]
    guessed = tent["utility"] + (1 - tent["availability"]) / 1000
    assert guessed == pytest.approx(0.1317, abs=5e-5)


def test_a_free_fallback_answers_from_the_instant_of_the_loss():
    score = example(fallback="standard")
    course = score.course
    assert course.evicted.tolist() == [1, 2, 4, 5, 7]
    assert score.terms["availability"] == 1
    assert (score.terms["fallback_fraction"], score.terms["fallback_accuracy"]) == (5 / 8, 0.4)
    assert course.start_ms[course.fallback].tolist() == [40, 80, 160, 200, 280]
    assert set(course.response_ms[course.fallback]) == {27}
    assert score.utility == pytest.approx((3 * 0.8 + 5 * 0.4) / 8)


def in_order(course):
    return list(zip(course.served.tolist(), course.start_ms.tolist(), course.fallback.tolist(), strict=True))


def test_a_charged_fallback_takes_its_turns_on_the_pipeline():
    """Free at 100, a turn answers 1 and 2. What arrives during a turn is lost, and as no batch waits the next
    turn answers it, until batch 6 finds the pipeline idle."""
    assert in_order(example(fallback="standard", fallback_cost="charged").course) == [
        (0, 0, False),
        (1, 100, True),
        (2, 127, True),
        (3, 154, True),
        (4, 181, True),
        (5, 208, True),
        (6, 240, False),
        (7, 340, True),
    ]


def test_after_a_turn_a_waiting_batch_goes_first():
    """Queue 1, 100 ms each, a batch every 30 ms: the first turn, 100 to 140, answers 1 and 2; then 4 is served."""
    score = Deployment(interval_ms=30, queue=1, fallback="latest", fallback_cost="charged").score(
        accuracy=[1.0] * 7, predict_ms=100, fallback_accuracy=[1.0] * 7, fallback_ms=20
    )
    assert in_order(score.course) == [
        (0, 0, False),
        (1, 100, True),
        (2, 120, True),
        (4, 140, False),
        (3, 240, True),
        (5, 260, True),
        (6, 280, False),
    ]


@given(cases(fallbacks=("latest", "standard")))
def test_with_a_fallback_everything_is_answered(case):
    deployment, stream = case
    score = deployment.score(**stream)
    assert score.terms["availability"] == 1
    assert sorted(score.course.served.tolist()) == list(range(len(stream["accuracy"])))
    assert sorted(score.course.served[score.course.fallback]) == sorted(score.course.evicted)
    assert score.terms["fallback_fraction"] == score.course.evicted.size / score.course.num_batches


@given(cases())
def test_the_six_terms_recompose_and_a_deadline_bounds_utility(case):
    deployment, stream = case
    score = deployment.score(**stream)
    assert score.recomposed() == pytest.approx(score.utility, abs=1e-12)
    assert score.utility <= score.terms["availability"] + 1e-12
    pipeline = (
        ~score.course.fallback
        if deployment.fallback_cost == "free"
        else np.ones(score.course.served.size, bool)
    )
    start, finish = score.course.start_ms[pipeline], score.course.finish_ms[pipeline]
    assert (start[1:] >= finish[:-1]).all(), "one thing at a time on the pipeline"
    assert (score.course.idle_ms >= 0).all()
    assert (score.course.wait_ms >= 0).all()


@given(cases())
def test_a_free_fallback_changes_nothing_on_the_pipeline(case):
    deployment, stream = case
    with_it = deployment.score(**stream).course
    if deployment.fallback_cost == "charged":
        return
    knobs = {**vars(deployment), "fallback": None, "fallback_cost": None}
    without = Deployment(**knobs).score(**stream).course
    for name in ("served", "start_ms", "response_ms", "adapted", "idle_ms"):
        np.testing.assert_array_equal(getattr(with_it, name)[~with_it.fallback], getattr(without, name))
    assert with_it.evicted.tolist() == without.evicted.tolist()
    assert with_it.spent_ms == without.spent_ms


def one_turn(timeline, stream):
    """Serve a batch as a live pass does; return False when there is none."""
    if (turn := timeline.next()) is None:
        return False
    if turn.adapting:
        timeline.record(stream["predict_ms"][turn.batch], stream["adapt_ms"][turn.batch])
    else:
        timeline.record(stream["fallback_ms" if turn.fallback else "frozen_ms"][turn.batch], 0.0)
    return True


def drive(timeline, stream):
    while one_turn(timeline, stream):
        pass


def same_course(one, other):
    for name, value in vars(one).items():
        np.testing.assert_array_equal(value, getattr(other, name), err_msg=name, strict=True)


@given(cases())
def test_live_driving_agrees_with_the_replay(case):
    deployment, stream = case
    resolved = deployment.resolve(num_batches=len(stream["accuracy"]), baseline_ms=stream["baseline_ms"])
    live = resolved.timeline()
    drive(live, stream)
    columns = ("predict_ms", "adapt_ms", "frozen_ms")
    arrays = [np.array(stream[name]) for name in columns]
    same_course(
        live.course(), replay(resolved.timeline(), *arrays, fallback_ms=np.array(stream["fallback_ms"]))
    )


@given(cases())
def test_arrivals_that_become_known_as_they_happen_make_no_difference(case):
    """A live system offers what has arrived by the end of each service, and the rest when it is idle."""
    deployment, stream = case
    resolved = deployment.resolve(num_batches=len(stream["accuracy"]), baseline_ms=stream["baseline_ms"])
    upcoming = list(resolved.arrivals_ms)
    live = resolved.timeline(live=True)
    while True:
        while upcoming and upcoming[0] <= live.free_ms:
            live.offer(upcoming.pop(0))
        if one_turn(live, stream):
            continue
        if not upcoming:
            break
        instant = upcoming[0]
        while upcoming and upcoming[0] == instant:
            live.offer(upcoming.pop(0))
    known = resolved.timeline()
    drive(known, stream)
    same_course(known.course(), live.course())


def test_a_live_system_hears_of_losses_while_it_is_busy():
    timeline = Discrete(interval_ms=1, queue=1).resolve(num_batches=1).timeline(live=True)
    assert timeline.next() is None
    timeline.offer(5.0)
    assert timeline.next().batch == 0
    for arrived_ms in (6.0, 7.0, 8.0):
        timeline.offer(arrived_ms)
    assert timeline.lost(now_ms=7.5) == [(1, 7.0)]
    assert timeline.lost(now_ms=9.0) == [(1, 7.0), (2, 8.0)]
    timeline.record(10.0, 0.0)
    assert (turn := timeline.next()).batch == 3
    assert turn.start_ms == 15.0
    with pytest.raises(TemporaError, match="offer batches in the order"):
        timeline.offer(1.0)
    with pytest.raises(RuntimeError, match="closed loop"):
        Offline().resolve(num_batches=1).timeline().offer(1.0)


# -- percentiles ----------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6), max_size=400), st.integers(0, 60))
def test_percentiles_are_the_smallest_time_within_which_that_share_was_answered(responses, lost):
    count = len(responses) + lost
    if count == 0:
        return
    found = percentiles(np.array(responses), count)
    for percent, needed in ((50, 1), (90, 29), (95, 59), (99, 299)):
        value = found[f"response_p{percent}_ms"]
        if count < needed:
            assert value is None
            continue
        answered = sum(response <= value for response in responses)
        assert math.isinf(value) or 100 * answered >= percent * count
        earlier = sum(response < value for response in responses)
        assert 100 * earlier < percent * count


def test_a_lost_batch_counts_as_an_infinite_response():
    score = Deployment(interval_ms=10, queue=0).score(accuracy=np.ones(300), predict_ms=15)
    assert score.terms["availability"] == 0.5
    assert score.terms["response_p50_ms"] == 15
    assert score.terms["response_p90_ms"] == score.terms["response_p99_ms"] == math.inf
    rescued = Deployment(interval_ms=10, queue=0, fallback="standard").score(
        accuracy=np.ones(300), predict_ms=15, fallback_accuracy=np.ones(300), fallback_ms=20
    )
    assert rescued.terms["response_p99_ms"] == 20


def test_an_untimed_tail_has_no_percentiles():
    score = Deployment(arrivals="on_completion", budget_ms=0).score(
        accuracy=[1.0] * 40, predict_ms=15, frozen_accuracy=[1.0] * 40, baseline_ms=10
    )
    assert score.terms["response_p50_ms"] is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Deployment(interval_ms=5, deadline_ms=0), "deadline_ms=0: must be above 0"),
        (lambda: Deployment(interval_ms=5, deadline_ms=9, threshold_x=3), "set the same knob"),
        (lambda: Deployment(interval_ms=5, fallback="lates"), "did you mean 'latest'"),
        (lambda: Deployment(interval_ms=5, fallback="latest", fallback_cost="fre"), "did you mean 'free'"),
        (lambda: Deployment(interval_ms=5, fallback_cost="free"), "without a fallback"),
        (lambda: Deployment(interval_ms=5, residuals="yes"), "residuals='yes': must be true or false"),
        (
            lambda: Deployment(interval_ms=5, queue=0, fallback="latest").score(
                accuracy=[1, 1], predict_ms=9
            ),
            "fallback_ms: needed",
        ),
        (
            lambda: Deployment(interval_ms=5, queue=0, fallback="latest").score(
                accuracy=[1, 1], predict_ms=9, fallback_ms=3
            ),
            "fallback_accuracy: needed",
        ),
        (lambda: Deployment(interval_ms=5, deadline_x=2).resolve(num_batches=1), "needed for deadline_x"),
    ],
)
def test_wrong_knobs_say_what_to_do(make, message):
    with pytest.raises(TemporaError, match=message):
        make()


def test_residuals_count_by_default_where_the_tail_is_the_answer():
    lam = {"num_batches": 2, "baseline_ms": 40.0}
    assert not Deployment(interval_ms=5).resolve(**lam).residuals
    assert Deployment(interval_ms=5, queue=0).resolve(**lam).residuals
    assert Deployment(arrivals="on_prediction", deadline_x=2).resolve(**lam).residuals
    assert not Deployment(interval_ms=5, queue=0, residuals=False).resolve(**lam).residuals
