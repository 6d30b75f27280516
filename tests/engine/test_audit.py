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
from tempora_tta.store import RunFolder
from tempora_tta.timing import load_profile


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
    ("key", "value", "said"),
    [
        ("batches", "many", "run.json.*batches='many'"),
        ("methods", ["lame"], "contrast, seed 2025.*run.json"),
        ("config", None, "Python"),
    ],
)
def test_a_configuration_that_is_not_this_runs_is_refused(configured, key, value, said, monkeypatch):
    manifest = configured[1].manifest
    monkeypatch.setitem(manifest if key == "config" else manifest["config"], key, value)
    with pytest.raises(TemporaError, match=said):
        audit(configured[1], cells=1)


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


def test_a_clock_keeps_the_verdict_it_was_recorded_with(network, batches, tmp_path):
    known = load_profile(CLOCK)
    entries = [entry.model_copy(update={"error": 0.2}) for entry in known.entries]
    known.model_copy(update={"entries": entries}).save(tmp_path / "noisy.json")
    run = tempora.evaluate(
        network("fashion_resnet"), batches[:2], "standard", [], clock=tmp_path / "noisy.json", device="cpu"
    )
    assert run.manifest["verdict"]["text"].startswith("WARN: recorded clock")
