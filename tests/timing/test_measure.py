"""Profiles of constants, lambda and the machine: what is decided from times, not the times themselves."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tempora_tta import TemporaError
from tempora_tta.timing import (
    Baseline,
    ProfileClock,
    load_profile,
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


def test_machine_facts_can_be_written_down():
    facts = machine_facts(torch.device("cpu"))
    json.dumps(facts)
    assert facts["cpu"]
    assert facts["versions"]["torch"] == torch.__version__.split("+")[0] or facts["versions"]["torch"]
    assert "/" not in facts["command"][0]


STEP = {"action": "step", "reforwards": True}


@pytest.mark.parametrize(
    ("label", "phase", "about", "expected_ms"),
    [
        ("eta", ADAPT, {"action": "nothing_kept"}, 2.0),
        ("eta", ADAPT, {"action": "step"}, 57.0),
        ("eta", ADAPT, {"action": "never seen"}, 57.0),
        ("eta", ADAPT, {"action": "none"}, 0.0),
        ("eta", FROZEN, {}, 37.0),
        ("again", FROZEN, {}, 38.0),  # its own time, or Standard's
        ("eta", FROZEN, {"frozen_as": "standard"}, 38.0),
        ("eta", PREDICT, STEP, 41 + (57 + 41)),  # the prediction holds the adaptation
        ("eta", ADAPT, STEP, 0.0),
        ("again", PREDICT, STEP, 99.0),
    ],
)
def test_work_is_timed_by_its_phase_and_action(clock, label, phase, about, expected_ms):
    assert ms(clock, label, phase, **about) == expected_ms


def test_one_given_time_stands_for_every_action_but_a_step_left_out():
    clock = ProfileClock(load_profile({"baseline_ms": 40, "tent": (41, 56), "adabn": (41, 0.1)}), own=False)
    assert ms(clock, "tent", ADAPT, "step", gradient_based=True) == 56.0
    assert ms(clock, "tent", ADAPT, "none", gradient_based=True) == 0.0
    assert ms(clock, "adabn", ADAPT, "none") == 0.1
    assert not clock.missing
