"""Passes that are timed while they run: what is decided from times, by a clock of the test's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import tempora_tta as tempora
from tempora_tta.data import from_batches
from tempora_tta.engine import measured
from tempora_tta.engine.build import job_from_python
from tempora_tta.engine.measured import LOOK_BATCHES, Drift, judged, judged_run
from tempora_tta.scenarios import Continuous
from tempora_tta.store import Trace
from tempora_tta.store.verdicts import Verdict
from tempora_tta.timing import Baseline, MeasuredClock


class Told(MeasuredClock):
    """Does the work, and says that it took what the test tells."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.ms, self.calls = 10.0, 0

    def timed(self, work, piece):
        self.calls += 1
        return work(), self.ms


@pytest.fixture
def drift_from(network, batches):
    def make(baseline: Baseline) -> tuple[Drift, Told]:
        given = {"baseline_ms": 1, "standard": (1, 0)}
        job = job_from_python(
            network("fashion_resnet"), {"a": batches}, ["standard"], [], device="cpu", clock=given, seeds=[1]
        )
        clock = Told()
        return Drift(replace(job, clock=clock), from_batches("a", batches), baseline), clock

    return make


def test_a_pass_is_judged_by_standard_inference_before_and_after_it(drift_from):
    drift, clock = drift_from(Baseline(12, median_ms=10))
    made = Trace.empty(1, 8)

    def facts_when(after_ms):
        def make():
            clock.ms = after_ms
            return made

        trace, facts = drift.around(make)
        assert trace is made
        return facts

    assert facts_when(10.4)["verdict"]["status"] == "VALID"
    slower = facts_when(10.8)
    assert slower["verdict"]["status"] == "WARN"
    assert slower["drift"] == pytest.approx(0.08)
    assert facts_when(12.3)["verdict"]["status"] == "INVALID"
    assert facts_when(10.0)["verdict"]["status"] == "INVALID", "it was slow before the pass"
    assert clock.calls == 5 * LOOK_BATCHES, "a look after one pass is the look before the next"


def test_invalid_passes_are_repeated_and_offline_is_never_marked(network, batches, monkeypatch):
    verdicts = iter([Verdict("INVALID", ("another process",))] * 2 + [Verdict()] * 100)
    monkeypatch.setattr(measured, "judged", lambda drift: next(verdicts))
    options = {"clock": "measured", "calibration_batches": 4, "warmup_batches": 0, "device": "cpu"}
    run = tempora.evaluate(network("fashion_resnet"), batches[:3], ["standard"], scenarios=[], **options)
    (stored,) = run.folder.passes().values()
    assert stored.facts["attempts"] == 3
    assert stored.facts["verdict"]["status"] == "VALID"

    monkeypatch.setattr(measured, "judged", lambda drift: Verdict("INVALID", ("always",)))
    scenarios = [Continuous(threshold_ms=1e6)]
    run = tempora.evaluate(
        network("fashion_resnet"), batches[:3], ["standard"], scenarios=scenarios, **options
    )
    assert dict(zip(run.utilities["protocol"], run.utilities["timing"], strict=True)) == {
        "offline": "VALID",
        "continuous": "INVALID",
    }
    offline = run.utilities[run.utilities["protocol"] == "offline"].iloc[0]
    assert offline["utility_lo"] == offline["utility"] == offline["utility_hi"]


def test_the_limits_of_drift_and_the_verdict_of_the_worst_pass():
    limits = {0.0: "VALID", 0.05: "VALID", 0.051: "WARN", 0.15: "WARN", 0.151: "INVALID"}
    assert {drift: judged(drift).status for drift in limits} == limits
    assert str(judged_run([])) == str(judged_run([judged(0)])) == "VALID"
    assert judged_run([judged(0), judged(0.08)]).status == "WARN"
    mixed = judged_run([judged(0), judged(0.08), judged(0.23)])
    assert (mixed.status, "1 of 3" in str(mixed)) == ("INVALID", True)


def test_a_given_lambda_does_not_make_times_invalid(drift_from):
    """A given lambda may be far from this machine's standard inference without any noise of the machine."""
    for baseline, status in (
        (Baseline(1000, source="given"), "VALID"),
        (Baseline(1000, median_ms=990), "INVALID"),
    ):
        _, facts = drift_from(baseline)[0].around(lambda: Trace.empty(1, 8))
        assert facts["verdict"]["status"] == status


def test_lambda_may_come_from_a_sweep_over_every_shift(network, batches, tmp_path):
    options = {"clock": "measured", "calibration_batches": "sweep", "warmup_batches": 0, "device": "cpu"}
    shifts = {"first": batches[:2], "second": batches[:3]}
    for _ in range(2):  # the second call resumes, and takes lambda over
        run = tempora.evaluate(
            network("fashion_resnet"), shifts, "standard", [], seeds=(1, 2), out=tmp_path / "run", **options
        )
    assert run.manifest["baseline"]["batches"] == 5
