"""Profiles of constants, lambda and the machine: what is decided from times, not the times themselves."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tempora_tta import TemporaError
from tempora_tta.timing import (
    Baseline,
    MeasuredClock,
    ProfileClock,
    load_profile,
    machine,
    machine_facts,
)
from tempora_tta.timing.machine import ProcessorTime
from tempora_tta.timing.work import ADAPT, FROZEN, PREDICT, Owner, Piece

GIVEN = {
    "schema_version": 1,
    "baseline_ms": 40.0,
    "methods": {
        "standard": {"predict_ms": [38.0], "adapt_ms": {"none": [0.0]}},
        "eta": {
            "predict_ms": [41.0],
            "adapt_ms": {"step": [57.0], "nothing_kept": [2.0]},
            "frozen_ms": [37.0],
        },
        "again": {"predict_ms": [99.0], "adapt_ms": {"*": [0.0]}, "reforward": True},
    },
}


@pytest.fixture
def clock(tmp_path):
    path = tmp_path / "clock.json"
    path.write_text(json.dumps(GIVEN))
    return ProfileClock(load_profile(path), own=False)


def ms(clock, label, phase, action="", **about):
    return clock.ms(Piece(Owner(label, label, **about), phase, 0, action=action))


def test_adaptation_is_timed_by_its_action(clock):
    assert ms(clock, "eta", ADAPT, "nothing_kept") == 2.0
    assert ms(clock, "eta", ADAPT, "step") == 57.0
    assert ms(clock, "eta", ADAPT, "never seen") == 57.0
    assert ms(clock, "eta", ADAPT, "none") == 0.0


def test_frozen_predictions_take_their_own_time_or_standards(clock):
    assert ms(clock, "eta", FROZEN) == 37.0
    assert ms(clock, "again", FROZEN) == 38.0
    assert ms(clock, "eta", FROZEN, frozen_as="standard") == 38.0


def test_a_prediction_that_holds_the_adaptation(clock):
    assert ms(clock, "eta", PREDICT, "step", reforwards=True) == 41 + (57 + 41)
    assert ms(clock, "eta", ADAPT, "step", reforwards=True) == 0.0
    assert ms(clock, "again", PREDICT, "step", reforwards=True) == 99.0


def test_one_given_time_stands_for_every_action_but_a_step_left_out():
    clock = ProfileClock(load_profile({"baseline_ms": 40, "tent": (41, 56), "adabn": (41, 0.1)}), own=False)
    assert ms(clock, "tent", ADAPT, "step", gradient_based=True) == 56.0
    assert ms(clock, "tent", ADAPT, "none", gradient_based=True) == 0.0
    assert ms(clock, "adabn", ADAPT, "none") == 0.1
    assert clock.profile.baseline_ms == 40
    assert not clock.missing


def test_profiles_survive_their_file(clock, tmp_path):
    clock.profile.save(tmp_path / "again.json")
    assert load_profile(tmp_path / "again.json") == clock.profile


def test_published_profiles():
    clock = ProfileClock(load_profile("published:rn50_inc"), own=False)
    assert clock.profile.baseline_ms == 39.9
    assert ms(clock, "tent", PREDICT) == 41.1
    assert ms(clock, "tent", ADAPT, "step") == 56.1


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"methods": {}}',
        '{"baseline_ms": -1, "methods": {}}',
        '{"baseline_ms": 1, "methods": {"a": {"predict_ms": ["x"], "adapt_ms": {}}}}',
        '{"baseline_ms": 1, "methods": {"a": {"predict_ms": "38", "adapt_ms": {}}}}',
        '{"baseline_ms": 1, "methods": {"a": {"predict_ms": [], "adapt_ms": {}}}}',
        '{"baseline_ms": 1, "methods": {"a": {"predict_ms": [true], "adapt_ms": {}}}}',
        '{"baseline_ms": 1, "methods": {"a": {"predict_ms": [1], "adapt_ms": {"*": []}}}}',
        '{"baseline_ms": 1, "methods": {"a": {"predict_ms": [1, 2], "adapt_ms": {"*": [1]}}}}',
        '{"baseline_ms": 0, "methods": {}}',
        '{"baseline_ms": 1, "methods": {}, "machine": [1]}',
        '{"baseline_ms": 1' + "0" * 400 + ', "methods": {}}',
    ],
)
def test_broken_profiles_are_refused(tmp_path, content):
    path = tmp_path / "profile.json"
    path.write_text(content)
    with pytest.raises(TemporaError):
        load_profile(path)


def test_lambda_is_mean_plus_six_sigma():
    times = np.random.default_rng(0).normal(10, 0.5, 1000)
    baseline = Baseline.from_times(times.tolist(), 6)
    assert baseline.baseline_ms == pytest.approx(times.mean() + 6 * times.std())
    assert baseline.provision_ms(100) == pytest.approx(600 * times.std())


def test_stolen_time_is_a_share_of_what_was_wanted():
    """However many processors were idle meanwhile; and one tick is too coarse to tell."""
    before = ProcessorTime(busy=1000, stolen=20)
    assert ProcessorTime(1076, 45).stolen_since(before) == pytest.approx(0.24)
    assert ProcessorTime(1003, 21).stolen_since(before) == 0
    assert before.stolen_since(before) == 0
    assert ProcessorTime.now().stolen_since(ProcessorTime.now()) == 0


def test_the_measured_clock_returns_what_the_work_did():
    clock = MeasuredClock(torch.device("cpu"))
    result, elapsed_ms = clock.timed(lambda: 7, lambda _: Piece(Owner("standard", "standard"), PREDICT, 0))
    assert result == 7
    assert elapsed_ms >= 0


def test_a_driver_is_asked_once_unless_it_does_not_know_the_limits(monkeypatch):
    asked = []

    def answers(*known):
        def output(*command):
            asked.append(command[3])
            return dict(known).get(command[3].removeprefix("--query-gpu="))

        return output

    both = "driver_version,clocks_event_reasons.active"
    monkeypatch.setattr(machine, "_output", answers((both, "570.1, 0x0000000000000004")))
    assert machine._driver_and_limits("GPU-1") == ("570.1", "0x0000000000000004")
    assert len(asked) == 1
    monkeypatch.setattr(machine, "_output", answers(("driver_version", "470.2")))
    assert machine._driver_and_limits("GPU-1") == ("470.2", None)
    monkeypatch.setattr(machine, "_output", answers())
    assert machine._driver_and_limits("GPU-1") == (None, None)


def test_machine_facts_can_be_written_down():
    facts = machine_facts(torch.device("cpu"))
    json.dumps(facts)
    assert facts["cpu"]
    assert facts["versions"]["torch"] == torch.__version__.split("+")[0] or facts["versions"]["torch"]
    assert "/" not in facts["command"][0]
