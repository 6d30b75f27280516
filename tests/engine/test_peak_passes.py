"""Peak rates by live passes: of a run made from a configuration, where a replay of its times is not exact."""

from __future__ import annotations

import json
from importlib import import_module

import pytest
from latencies import CLOCK
from typer.testing import CliRunner

from tempora_tta.cli.app import app
from tempora_tta.engine import Run
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.setup import job_from_config
from tempora_tta.measure import load_profile
from tempora_tta.store import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Twelve batches of two methods under a recorded clock."""
    folder = tmp_path_factory.mktemp("peak")
    load_profile(CLOCK).save(folder / "clock.json")
    config = load_config(
        None,
        flags={
            "clock": str(folder / "clock.json"),
            "data.shifts": ["contrast"],
            "data.workers": 0,
            "methods": ["adabn", "tent"],
            "grid": "none",
            "batches": 12,
            "batch_size": 4,
        },
    )
    with RunFolder.for_writing(folder / "run") as opened:
        return Run(job_from_config(config), opened).execute().path


def peaks(*arguments: object) -> dict[str, dict]:
    result = CliRunner().invoke(app, ["peak", *map(str, arguments), "--format", "json"])
    assert result.exit_code == 0, result.output
    return {record["method"]: record for record in json.loads(result.stdout)}


def test_passes_that_take_what_was_recorded_confirm_the_replay(run, monkeypatch):
    """Tent takes the same time on every batch, whichever it skips; one of twelve may be lost."""
    monkeypatch.setattr(import_module("tempora_tta.analysis.peak"), "LEAST_ARRIVALS", 12)
    asked = (run, "--p90-ms", 500, "--queue", 0)
    replayed, lived = peaks(*asked), peaks(*asked, "--run-it")
    assert {name: one["answer"] for name, one in replayed.items()} == {
        "adabn": "replayed",
        "tent": "approximate",
    }
    assert {name: one["answer"] for name, one in lived.items()} == {"adabn": "replayed", "tent": "live"}
    for method in ("adabn", "tent"):
        for name in ("rate_hz", "share", "utilisation", "arrivals", "repeats"):
            assert lived[method][name] == replayed[method][name], (method, name)
