"""Auditing and profiling a run that was made from a configuration."""

from __future__ import annotations

from dataclasses import replace

import pytest
from latencies import CLOCK

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.engine import Run
from tempora_tta.engine.audit import audit
from tempora_tta.engine.build import build_job
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.plan import make_plan
from tempora_tta.engine.profile_child import subject_of
from tempora_tta.store import RunFolder
from tempora_tta.timing import load_profile
from tempora_tta.timing.record import record


@pytest.fixture(scope="module")
def configured(tmp_path_factory):
    """A run of `tempora run`, under a recorded clock."""
    folder = tmp_path_factory.mktemp("audit")
    load_profile(CLOCK).save(folder / "clock.json")
    config = load_config(
        None,
        flags={
            "clock": str(folder / "clock.json"),
            "data.shifts": ["contrast"],
            "data.workers": 0,
            "methods": ["standard", "adabn", "eta"],
            "batches": 6,
            "batch_size": 8,
        },
    )
    with RunFolder.for_writing(folder / "run") as opened:
        return config, Run(build_job(config), opened).execute()


def test_random_cells_agree_exactly_under_a_recorded_clock(configured):
    _, results = configured
    audited = audit(results, cells=8)
    assert len(audited) == 8
    assert (audited["again"] == audited["utility"]).all()
    assert audited[["agrees", "same_predictions"]].all(axis=None)


def test_an_audit_finds_a_result_that_was_tampered_with(configured):
    _, results = configured
    results.utilities["utility"] += 0.01
    try:
        assert not audit(results, cells=3)["agrees"].any()
    finally:
        results.utilities["utility"] -= 0.01


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("batches", "many", r"run\.json cannot be run: batches='many'"),
        ("methods", ["lame"], r"on contrast, seed 2025, is not in the configuration of .*run\.json"),
    ],
)
def test_a_configuration_that_is_not_this_runs_is_refused(configured, key, value, message, monkeypatch):
    _, results = configured
    monkeypatch.setitem(results.manifest["config"], key, value)
    with pytest.raises(TemporaError, match=message):
        audit(results, cells=1)


def test_runs_from_python_cannot_be_audited(network, batches):
    results = tempora.evaluate(
        network("fashion_resnet"), batches[:2], ["standard"], [], clock=CLOCK, device="cpu"
    )
    with pytest.raises(TemporaError, match="was made from Python"):
        audit(results)


def test_the_plan_counts_cells_and_passes(configured):
    config, results = configured
    plan = make_plan(build_job(config))
    assert plan.cells == len(results.utilities)
    by_label = {method.label: method for method in plan.methods}
    assert (by_label["standard"].fewest_passes, by_label["standard"].most_passes) == (1, 1)
    made = len(list((results.path / "traces").glob("*.parquet")))
    assert sum(m.fewest_passes for m in plan.methods) <= made <= sum(m.most_passes for m in plan.methods)
    unshared = make_plan(build_job(replace(config, share=False)))
    assert sum(m.most_passes for m in unshared.methods) == unshared.cells


def test_the_plan_counts_tails_that_no_standard_pass_holds(configured):
    config, _ = configured
    alone = make_plan(build_job(replace(config, methods=["lame"], clock="measured")))
    both = make_plan(build_job(replace(config, methods=["standard", "lame"], clock="measured")))
    assert alone.methods[0].most_passes > both.methods[1].most_passes


def test_a_recorded_profile_is_a_clock(configured, tmp_path):
    config, _ = configured
    job = build_job(replace(config, clock="steady"))
    profile = record(subject_of(job), seconds=0.1, labels=["adabn", "eta"])
    profile.save(tmp_path / "profile.json")
    assert set(load_profile(tmp_path / "profile.json").methods) == {"standard", "adabn", "eta"}
    rows = profile.overheads()
    assert [row["method"] for row in rows] == ["standard", "adabn", "eta"]
    assert all(row["service_ms"] >= row["predict_ms"] for row in rows)
    assert rows[2]["facts"].updated_parameters > 0


def test_a_clock_keeps_the_verdict_it_was_recorded_with(network, batches, tmp_path):
    known = load_profile(CLOCK)
    entries = [entry.model_copy(update={"error": 0.2}) for entry in known.entries]
    noisy = known.model_copy(update={"entries": entries})
    noisy.save(tmp_path / "noisy.json")
    run = tempora.evaluate(
        network("fashion_resnet"), batches, ["standard"], [], clock=tmp_path / "noisy.json", device="cpu"
    )
    assert run.manifest["verdict"]["text"].startswith("WARN: recorded clock")
    quiet = tempora.evaluate(network("fashion_resnet"), batches, ["standard"], [], clock=CLOCK, device="cpu")
    assert quiet.manifest["verdict"]["text"] == "VALID: recorded clock"
