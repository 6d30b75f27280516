"""Profiles, baselines and verdicts: what is decided from times, not the times themselves."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tempora_tta import TemporaError
from tempora_tta.measure import (
    Baseline,
    Batch,
    MeasuredClock,
    MethodTimes,
    Profile,
    Verdict,
    judge_baseline,
    judge_pass,
    judge_run,
    load_profile,
    machine,
    machine_facts,
)
from tempora_tta.measure.process import ProcessorTime

PROFILE = Profile(
    40.0,
    {
        "standard": MethodTimes([38.0, 39.0], {"none": [0.0]}),
        "eta": MethodTimes([41.0, 42.0, 43.0], {"step": [57.0, 58.0], "nothing_kept": [2.0]}, [37.0]),
    },
    "test",
)


def test_a_recorded_time_depends_on_the_batch_and_nothing_else():
    draws = [PROFILE.predict_ms("eta", False, "fog", 1, index) for index in range(200)]
    assert draws == [PROFILE.predict_ms("eta", False, "fog", 1, index) for index in range(200)]
    assert set(draws) == {41.0, 42.0, 43.0}
    assert draws != [PROFILE.predict_ms("eta", False, "snow", 1, index) for index in range(200)]


def test_adaptation_is_timed_by_what_it_did():
    assert PROFILE.adapt_ms("eta", "nothing_kept", "fog", 1, 0) == 2.0
    assert PROFILE.adapt_ms("eta", "step", "fog", 1, 0) in (57.0, 58.0)
    assert PROFILE.adapt_ms("eta", "never seen", "fog", 1, 0) in (57.0, 58.0, 2.0)


def test_frozen_predictions_take_their_own_time_or_standards():
    assert PROFILE.predict_ms("eta", True, "fog", 1, 0) == 37.0
    assert PROFILE.predict_ms("standard", True, "fog", 1, 0) in (38.0, 39.0)


def test_profiles_survive_their_file(tmp_path):
    path = tmp_path / "profile.json"
    PROFILE.save(path)
    assert load_profile(path).fingerprint == PROFILE.fingerprint
    assert load_profile(path).methods["eta"].adapt_ms == {"step": [57.0, 58.0], "nothing_kept": [2.0]}


def test_published_profiles():
    published = load_profile("published:rn50_inc")
    assert published.baseline_ms == 39.9
    assert published.predict_ms("tent", False, "fog", 1, 0) == 41.1
    assert published.adapt_ms("tent", "step", "fog", 1, 0) == 56.1


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
    assert Baseline.from_times([10.0] * 5, 6).dispersion == 1.0


QUIET = Baseline.from_times([10.0] * 50, 6)


def verdict_of(drift=0.0, services=None, actions="step", faults=0, stolen=0.0) -> Verdict:
    services = np.full(40, 30.0) if services is None else services
    actions = np.broadcast_to(np.asarray(actions), services.shape)
    return judge_pass(drift, services, actions, np.full(40, faults), stolen)


STEPS = np.tile([True, False, False, False], 10)


@pytest.mark.parametrize(
    ("verdict", "status", "reason"),
    [
        (verdict_of(), "VALID", None),
        (verdict_of(drift=0.08), "WARN", "drifted 8 %"),
        (verdict_of(drift=0.23), "INVALID", "drifted 23 %"),
        (verdict_of(services=np.r_[np.full(38, 30.0), 90.0, 90.0]), "WARN", "5 % of batches took over twice"),
        (
            verdict_of(services=np.where(STEPS, 90.0, 30.0), actions=np.where(STEPS, "step", "nothing_kept")),
            *("VALID", None),
        ),
        (verdict_of(services=np.where(STEPS, 90.0, 30.0)), "INVALID", "25 % of batches took over twice"),
        (verdict_of(faults=9000), "INVALID", "9000 page faults"),
        (verdict_of(stolen=0.2), "INVALID", "20 % of processor time was stolen"),
    ],
)
def test_verdicts_on_passes(verdict, status, reason):
    assert verdict.status == status
    assert reason is None or reason in str(verdict)
    assert reason is None or "close other programs" in str(verdict)


def test_stolen_time_is_a_share_of_what_was_wanted():
    """However many processors were idle meanwhile; and one tick is too coarse to tell."""
    before = ProcessorTime(busy=1000, stolen=20)
    assert ProcessorTime(1076, 45).stolen_since(before) == pytest.approx(0.24)
    assert ProcessorTime(1003, 21).stolen_since(before) == 0
    assert before.stolen_since(before) == 0
    assert ProcessorTime.now().stolen_since(ProcessorTime.now()) == 0


def test_the_runs_verdict_is_its_worst():
    quiet = judge_baseline(QUIET, 10.0)
    assert str(judge_run(quiet, [verdict_of()])) == "VALID"
    noisy = Baseline.from_times([10.0] * 30 + [12.0] * 10, 6)
    assert judge_run(judge_baseline(noisy, None), []).status == "INVALID"
    given = Baseline(100.0, median_ms=10.0, source="given")
    assert judge_baseline(given, 10.0).status == "VALID"
    drifted = judge_run(judge_baseline(QUIET, 12.3), [])
    assert str(drifted).startswith("INVALID: baseline drifted 23 % during the run; close other programs")
    mixed = judge_run(quiet, [verdict_of(), verdict_of(drift=0.08), verdict_of(drift=0.23)])
    assert mixed.status == "INVALID"
    assert "1 of 3 passes is INVALID" in str(mixed)


def test_the_measured_clock_returns_what_the_work_did():
    clock = MeasuredClock(torch.device("cpu"))
    result, elapsed_ms = clock.predict(lambda: 7, Batch("standard", "standard", "fog", 1, 0), frozen=False)
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
