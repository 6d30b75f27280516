"""Steady profiles: what is made of timed samples. The samples are made up, so that no timing decides."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempora_tta import TemporaError
from tempora_tta.scenarios import Amortised, Continuous, Deployment, Discrete, Offline
from tempora_tta.scenarios.deployment import is_relative
from tempora_tta.timing import Profile, ProfileClock, load_profile
from tempora_tta.timing import fits as fitting
from tempora_tta.timing.profile import Entry, MethodFacts, Residuals, Round, imprecision
from tempora_tta.timing.timer import clean_device_rounds
from tempora_tta.timing.work import Kind, Owner, Piece, Sample

STANDARD = Kind("standard", "predict")
STEP = Kind("tent", "adapt", "", "step")


def profile_of(*entries: Entry, **more) -> Profile:
    standard = Entry(method="standard", phase="predict", steady_ms=10.0)
    every = [
        entry.model_copy(update={"rounds": [0], "ms": [entry.steady_ms]}) for entry in (standard, *entries)
    ]
    rounds = [Round(shift="fog", clean=True, checks=False, standard_ms=10.0)]
    facts = {"name": "made up", "id": "0123", "made_at": "2026-01-01", "model": "net", "weights": "w"}
    facts |= {"batch_size": 8, "device": "cpu", "threads": 1, "times": "process CPU time"}
    return Profile(**facts | {"standard_ms": 10.0, "entries": every, "rounds": rounds} | more)


TENT = (
    Entry(method="tent", phase="predict", steady_ms=11.0, samples=9),
    Entry(
        method="tent", phase="adapt", action="step", mode="kept", steady_ms=20.0, per_amount_ms=0.5, amount=10
    ),
    Entry(method="tent", phase="adapt", action="nothing_kept", steady_ms=2.0),
    Entry(method="tent", phase="frozen", steady_ms=9.0),
)


def piece(phase, method="tent", index=0, mode="", action="", amount=None, **about) -> Piece:
    return Piece(Owner(method, method, **about), phase, index, mode, action, amount)


# -- fits ---------------------------------------------------------------------------------------------------


@given(
    st.floats(1, 100),
    st.floats(0.1, 5),
    st.lists(st.integers(0, 64), min_size=4, max_size=30, unique=True),
)
def test_a_line_is_found(start, slope, amounts):
    found = fitting.fit([start + slope * amount for amount in amounts], amounts)
    for amount in (0, 32, 64):
        assert found.at(amount) == pytest.approx(start + slope * amount, rel=1e-6)


def test_wild_samples_do_not_turn_the_line():
    amounts = list(range(0, 60, 3))
    times = [10.0 + 0.5 * amount + (200.0 if amount % 15 == 12 else 0.0) for amount in amounts]
    found = fitting.fit(times, amounts)
    assert found.at(30) == pytest.approx(25.0, rel=0.05)
    assert found.per_amount_ms == pytest.approx(0.5, rel=0.1)


def a_stream(generator, batches=400):
    """Draw how many samples each batch of a stream keeps: mostly many, now and then few."""
    return 64 - np.minimum(40, generator.exponential(8, batches).round())


@pytest.mark.parametrize("seed", range(5))
def test_a_fit_is_right_in_the_mean_over_a_stream(seed):
    """Twelve of its batches again and again, each time with noise of 5 % and now and then a wild one."""
    generator = np.random.default_rng(seed)
    kept = a_stream(generator)
    places = np.tile(np.arange(12), 8)
    amounts = kept[:12][places]
    noise = np.exp(0.05 * generator.standard_normal(places.size)) * np.where(
        generator.random(places.size) < 0.04, 3.0, 1.0
    )
    line = fitting.fit((20 + 0.5 * amounts) * noise, amounts, places)
    assert np.mean([line.at(amount) for amount in kept]) == pytest.approx(20 + 0.5 * kept.mean(), rel=0.02)
    # Where a method does not say what its time follows, the mean of its batches is what the stream takes.
    unsaid = fitting.fit((20 + 0.5 * amounts) * noise, [None] * places.size, places)
    assert unsaid.ms == pytest.approx(20 + 0.5 * kept[:12].mean(), rel=0.02)


def test_work_of_a_different_size_counts_in_the_mean():
    """Every fourth batch takes three times as long: the middle of all samples would not see it."""
    places = np.tile(np.arange(12), 5)
    times = np.where(places % 4 == 3, 30.0, 10.0)
    assert fitting.fit(times, [None] * places.size, places).ms == pytest.approx(15.0)
    assert fitting.fit(times[:12], [None] * 12, places[:12]).ms == 10.0, (
        "too few of each to tell work from chance"
    )


def test_a_line_that_noise_hides_in_single_samples_is_found_in_their_middles():
    generator = np.random.default_rng(1)
    places = np.tile(np.arange(12), 20)
    amounts = np.linspace(36, 64, 12)[places]
    times = (40 + 0.15 * amounts) * np.exp(0.06 * generator.standard_normal(places.size))
    line = fitting.fit(times, amounts, places)
    assert line.per_amount_ms == pytest.approx(0.15, rel=0.5)


def test_time_that_does_not_follow_the_amount_is_one_number():
    noise = np.random.default_rng(0).normal(10, 0.1, 40)
    found = fitting.fit(noise.tolist(), list(range(40)))
    assert found.per_amount_ms == 0
    assert found.at(0) == found.at(1000) == float(np.median(noise))
    assert fitting.fit([1.0, 2.0, 9.0], [3, 3, 3]).at(3) == 2.0


def test_the_error_of_a_median_shrinks_with_its_samples():
    draw = np.random.default_rng(1)
    errors = [fitting.fit(draw.normal(10, 1, n).tolist(), [None] * n).error for n in (25, 400)]
    assert errors[0] == pytest.approx(1.96 * 1.2533 * 0.1 / 5, rel=0.5)
    assert errors[1] < errors[0] / 2
    assert fitting.fit([5.0], [None]).error == 1.0


@pytest.mark.parametrize(("samples", "share"), [(3, 0.83), (5, 0.87), (8, 0.9), (25, 0.91)])
def test_the_interval_of_a_median_holds_from_few_samples_too(samples, share):
    draw = np.random.default_rng(samples)
    found = [fitting.fit(draw.normal(10, 1, samples).tolist(), [None] * samples) for _ in range(600)]
    held = np.mean([abs(one.ms - 10) <= one.error * one.ms for one in found])
    assert held > share


def test_a_slow_round_is_slow_for_standard_too():
    """The third round took twice as long for everybody: relative to its own standard inference nothing happened."""
    samples = []
    for number, slow in enumerate((1.0, 1.0, 2.0, 1.0)):
        samples += [Sample(STANDARD, number, "fog", 10 * slow, 10 * slow)] * 2
        samples += [Sample(STEP, number, "fog", 25 * slow, 25 * slow)]
    by_round = fitting.standard_by_round(samples, STANDARD)
    assert by_round == {0: 10, 1: 10, 2: 20, 3: 10}
    even = fitting.relative(samples, by_round, 10.0)
    assert {sample.ms for sample in even if sample.kind == STEP} == {25.0}


def test_which_rounds_count():
    clean = [True] * 9 + [False] * 3
    assert fitting.usable_rounds(clean, robust=True) == list(range(9))
    few = [True] * 2 + [False] * 10
    assert fitting.usable_rounds(few, robust=True) == list(range(12))
    assert fitting.usable_rounds(few, robust=False) == [0, 1]
    assert fitting.usable_rounds([False] * 4, robust=False) == [0, 1, 2, 3]
    assert clean_device_rounds([10.0] * 6 + [12.0]) == [True] * 6 + [False]


def test_a_kind_met_only_on_the_shift_kept_apart_still_has_a_time():
    kept = [Sample(STEP, number, "fog", 20.0, 20.0) for number in range(3)]
    other = Sample(Kind("tent", "adapt", "", "nothing_kept"), 3, "snow", 2.0, 2.0)
    fits = fitting.fit_kinds([*kept, other], [0, 1, 2])
    assert fits[other.kind].ms == 2.0
    assert fitting.distances([Sample(STEP, 4, "snow", 22.0, 22.0)], fits) == {STEP: pytest.approx(0.1)}


def test_residuals_come_from_clean_rounds_in_blocks_of_neighbours():
    fits = {STEP: fitting.Fit(20.0), STANDARD: fitting.Fit(10.0)}
    samples = [Sample(STEP, number // 8, "fog", 20.0, 20.0 + number) for number in range(32)]
    blocks = fitting.residual_blocks(samples, fits, [True, False, True, True])
    assert [len(block) for block in blocks] == [fitting.BLOCK] * 3
    assert blocks[0][:3] == [1.0, 1.05, 1.1]
    assert blocks[1][0] == pytest.approx(36 / 20), "the round that was not clean is left out"


def test_the_tail_is_known_from_299_clean_samples():
    assert fitting.tail_x([1.0] * 298) is None
    assert fitting.tail_x([1.0] * 290 + [2.0] * 9) == pytest.approx(2.0, rel=0.01)


# -- residuals and lambda -----------------------------------------------------------------------------------


def test_neighbouring_batches_draw_from_one_block_and_all_methods_the_same():
    blocks = [[float(number)] * 8 for number in range(1, 40)]
    residuals = Residuals(factors=blocks, clean_samples=312)
    drawn = [residuals.factor("fog", 1, index) for index in range(64)]
    assert all(len(set(drawn[start : start + 8])) == 1 for start in range(0, 64, 8))
    assert len(set(drawn)) > 3
    assert drawn == [residuals.factor("fog", 1, index) for index in range(64)]
    assert drawn != [residuals.factor("fog", 2, index) for index in range(64)]
    assert Residuals().factor("fog", 1, 3) == 1.0


def test_lambda_is_the_steady_time_with_a_provision():
    profile = profile_of(*TENT)
    assert profile.baseline().baseline_ms == pytest.approx(10.3)
    assert profile.baseline(1.5).baseline_ms == 15.0
    assert profile.baseline().provision_ms(100) == pytest.approx(30.0)
    with pytest.raises(TemporaError, match="the tail is not known on this machine"):
        profile.baseline("tail")
    assert profile_of(*TENT, tail_x=1.2).baseline("tail").baseline_ms == 12.0


# -- the clock ----------------------------------------------------------------------------------------------


def test_times_follow_the_kind_of_work_and_its_amount():
    clock = ProfileClock(profile_of(*TENT))
    assert clock.timed(lambda: "scores", lambda _: piece("predict")) == ("scores", 11.0)
    assert clock.ms(piece("adapt", mode="kept", action="step", amount=30.0)) == 30.0
    assert clock.ms(piece("adapt", action="nothing_kept")) == 2.0
    assert clock.ms(piece("frozen")) == 9.0
    assert clock.ms(piece("frozen", frozen_as="standard")) == 10.0
    assert clock.missing == {}


def test_doing_nothing_is_free_and_an_unknown_action_costs_a_step():
    clock = ProfileClock(profile_of(*TENT))
    assert clock.ms(piece("adapt", action="none")) == 0.0
    assert clock.ms(piece("adapt", action="skipped", free=("none", "skipped"))) == 0.0
    assert clock.missing == {}
    assert clock.ms(piece("adapt", index=7, mode="kept", action="recovered", amount=10.0)) == 20.0
    assert clock.missing == {Kind("tent", "adapt", "kept", "recovered"): 7}
    with pytest.raises(TemporaError, match=r"no times for 'eta'.*times_as"):
        clock.ms(piece("predict", "eta"))


def test_answering_at_once_has_times_of_its_own_alone():
    own = [
        Entry(
            method="tent", phase="predict", mode="at once 64", steady_ms=3.0, per_amount_ms=0.25, amount=8.0
        ),
        Entry(method="tent", phase="adapt", mode="at once 64", action="step", steady_ms=90.0, samples=9),
    ]
    clock = ProfileClock(profile_of(*TENT, *own))
    assert clock.ms(piece("predict", mode="at once 64", amount=64.0)) == 17.0
    assert clock.ms(piece("adapt", mode="at once 64", action="learned", amount=64.0)) == 90.0
    assert clock.ms(piece("adapt", action="collected", free=("none", "collected"))) == 0.0
    assert clock.missing == {}, "another action takes no way of its own to be found on"
    assert clock.profile.overheads() == profile_of(*TENT).overheads()
    with pytest.raises(TemporaError, match="answering at once"):
        clock.ms(piece("predict", mode="at once 16", amount=1.0))
    given = ProfileClock(load_profile({"baseline_ms": 5, "standard": [5, 0], "tent": [6, 20]}))
    assert given.ms(piece("predict", mode="at once 64", amount=64.0)) == 6.0
    assert given.ms(piece("adapt", mode="at once 64", action="step")) == 20.0
    assert given.ms(piece("adapt", action="collected", free=("collected",))) == 0.0


def test_a_pass_depends_on_the_entries_it_used_alone():
    profile = profile_of(*TENT)
    clock = ProfileClock(profile)
    clock.ms(piece("predict"))
    clock.ms(piece("adapt", mode="kept", action="step", amount=12.0))
    clock.ms(piece("adapt", action="none"))
    steps = dict(clock.used)
    clock.begin()
    clock.ms(piece("adapt", action="recovered"))
    stands_in = dict(clock.used)
    new = Entry(method="tent", phase="adapt", action="recovered", steady_ms=3.0)
    later = ProfileClock(profile.with_entries([new], []))
    assert later.name == clock.name, "kinds that are added leave the profile's name as it is"
    assert later.still_holds(steps)
    assert not later.still_holds(stands_in), "what cost a step then has a time of its own now"
    slower = [entry.model_copy(update={"steady_ms": entry.steady_ms + 1}) for entry in TENT]
    assert not ProfileClock(profile_of(*slower)).still_holds(steps)


def test_a_pass_of_a_method_that_the_profile_does_not_have_holds_no_longer():
    clock = ProfileClock(profile_of(*TENT))
    clock.ms(piece("adapt", action="step"))
    without = ProfileClock(profile_of())
    assert not without.still_holds(clock.used)


@pytest.mark.parametrize("text", ["tent|adopt||step", "tent", ""])
def test_a_pass_that_says_of_no_kind_of_work_what_it_took_is_made_again(text):
    """Its file was edited by hand."""
    assert not ProfileClock(profile_of(*TENT)).still_holds({text: "1.0"})


def test_rounds_of_added_kinds_stand_next_to_the_first():
    profile = profile_of(*TENT)
    new = Entry(method="sar", phase="predict", steady_ms=12.0, rounds=[0, 1], ms=[12.0, 12.1])
    joined = profile.with_entries(
        [new], [Round(shift="snow", clean=True, checks=False, standard_ms=10.0)] * 2
    )
    assert [row.shift for row in joined.rounds] == ["fog", "snow", "snow"]
    assert joined.entries[-1].rounds == [1, 2]
    assert joined.entries[-1].ms == [12.0, 12.1]
    assert joined.entries[:-1] == profile.entries
    assert joined.methods == {"standard", "tent", "sar"}


# -- files --------------------------------------------------------------------------------------------------


def test_what_is_met_later_is_unmet_no_longer():
    words = {"tent": ["recovered", "non_finite"], "eta": ["recovered"]}
    profile = profile_of(*TENT, facts={name: MethodFacts(unmet=unmet) for name, unmet in words.items()})
    later = Entry(method="tent", phase="adapt", action="recovered", steady_ms=7.0)
    more = profile.with_entries([later], [])
    assert (more.facts["tent"].unmet, more.facts["eta"].unmet) == (["non_finite"], ["recovered"])
    last = more.with_entries([later.model_copy(update={"action": "non_finite"})], [])
    assert (last.facts["tent"].unmet, last.facts["eta"].unmet) == ([], ["recovered"])


def test_a_profile_survives_its_file(tmp_path):
    profile = profile_of(*TENT, residuals=Residuals(factors=[[1.0, 1.1]], clean_samples=2))
    profile.save(tmp_path / "profile.json")
    assert load_profile(tmp_path / "profile.json") == profile


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"standard_ms": -1}, "standard_ms"),
        ({"entries": []}, "no time of standard inference"),
        ({"entries": [{"method": "a", "phase": "dreaming", "steady_ms": 1}]}, "entries.0.phase"),
        ({"threads": "many"}, "threads"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_broken_profile_is_refused(tmp_path, change, said):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(profile_of(*TENT).to_json() | change))
    with pytest.raises(TemporaError, match=f"{said}.*tempora profile"):
        load_profile(path)


def test_what_a_profile_says_about_itself():
    assert profile_of(*TENT).verdict.status == "VALID"
    good, fair, rough = (_with_error(error).verdict for error in (0.009, 0.04, 0.2))
    assert (good.status, good.reasons) == ("VALID", ())
    assert (fair.status, rough.status) == ("VALID", "WARN")
    assert "%" in str(fair)
    assert "--profile-s" in str(rough)
    busy = profile_of(*TENT, cores_ours=False, threads=4, times="wall time")
    assert busy.relative_only
    assert not profile_of(*TENT, cores_ours=False).relative_only, "one thread's processor time stays good"


# -- when it is good enough ---------------------------------------------------------------------------------


def _with_error(error):
    entries = [entry.model_copy(update={"error": error}) for entry in profile_of(*TENT).entries]
    return profile_of(*TENT).model_copy(update={"entries": entries})


def test_what_is_not_known_of_a_method_is_that_of_all_its_work():
    """Errors of predicting and adapting add up as independent ones do, Standard's own is in every ratio."""
    entries = [
        Entry(method="standard", phase="predict", steady_ms=10.0, error=0.5),
        Entry(method="tent", phase="predict", steady_ms=10.0, error=0.03),
        Entry(method="tent", phase="adapt", action="step", steady_ms=30.0, error=0.0, samples=9),
        Entry(method="tent", phase="adapt", action="rare", steady_ms=99.0, error=0.9, samples=1),
    ]
    assert imprecision(entries) == pytest.approx(0.3 / 40)


@pytest.mark.parametrize(
    ("scenario", "relative"),
    [
        (Offline(), True),
        (Discrete(utilisation=0.5), True),
        (Discrete(interval_ms=40), False),
        (Continuous(threshold_x=2), True),
        (Continuous(threshold_ms=1.5), False),
        (Continuous(threshold_ms=100), False),
        (Amortised(budget_x=0.5), True),
        (Amortised(budget_baselines=25), True),
        (Amortised(budget_ms=100), False),
        (Deployment(arrivals=[0.0, 40.0]), False),
        (Deployment(utilisation=1, threshold_x=2, budget_x=1), True),
    ],
)
def test_which_scenarios_need_no_milliseconds(scenario, relative):
    assert is_relative(scenario.deployment()) is relative
