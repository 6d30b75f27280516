"""Cells lived in real time beside the simulated ones. Only what no time can change is decided here."""

from __future__ import annotations

import pytest
from latencies import CLOCK
from typer.testing import CliRunner

from tempora import TemporaError
from tempora.cli import app
from tempora.engine import Run
from tempora.engine import live as living
from tempora.engine.config import load_config
from tempora.engine.setup import job_from_config
from tempora.measure import load_profile
from tempora.scenarios import Deployment
from tempora.store import ADAPTED, FALLBACK, FROZEN, RunFolder, Trace

PATIENT = [
    {"protocol": "deployment", "arrivals": {"poisson": {"interval_ms": 5.0}}, "queue": 100},
    {"protocol": "deployment", "arrivals": "on_prediction", "deadline_ms": 1e9},
    {"protocol": "deployment", "interval_ms": 3.0, "queue": 0, "fallback": "standard"},
    {"protocol": "amortised", "budget_ms": 100.0},
]
"""Nothing is lost, or the fallback answers it; responses are worth the same; a strict budget cannot be lived."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    load_profile(CLOCK).save(folder / "clock.json")
    flags = {
        "clock": str(folder / "clock.json"),
        "data.shifts": ["contrast"],
        "data.workers": 0,
        "methods": ["standard", "tent"],
        "grid": "none",
        "scenarios": PATIENT,
        "batches": 5,
        "batch_size": 8,
        "device": "cpu",
    }
    with RunFolder.for_writing(folder / "run") as opened:
        return Run(job_from_config(load_config(None, flags=flags)), opened).execute()


def test_what_time_cannot_change_is_lived_as_it_was_simulated(run):
    cells = living.live(run, cells=100, repeats=2)
    assert len(cells) == 2 * 4, "all but the strict budget's"
    for cell in cells:
        assert [life.availability for life in cell.lives] == [1.0, 1.0]
        assert all(life.trace.served.all() and life.response_ms > 0 for life in cell.lives)
        if "fallback" in cell.label:
            continue  # who answers a batch is up to the machine
        assert cell.mean("utility") == cell.mean("replayed") == pytest.approx(cell.simulated, abs=1e-12)
        assert cell.interval() == pytest.approx((cell.simulated, cell.simulated), abs=1e-12)
        assert cell.agrees


def test_a_run_without_a_cell_to_live_says_so(run, monkeypatch):
    monkeypatch.setattr(living, "not_livable", lambda results, cell: "no")
    with pytest.raises(TemporaError, match="has no cell that could be lived"):
        living.live(run)


def test_lived_times_replay_to_what_was_lived():
    """A trace that lost batches, and one that a fallback rescued: the simulator says what the arithmetic does."""
    resolved = Deployment(interval_ms=10, queue=1).resolve(num_batches=5)
    trace = Trace.empty(5, 2)
    served = [0, 2, 4]
    trace.phase[served], trace.correct[served] = ADAPTED, [2, 1, 0]
    trace.predict_ms[served], trace.adapt_ms[served] = 5.0, 15.0
    assert living.replayed(trace, resolved) == pytest.approx((1.0 + 0.5 + 0.0) / 5)

    rescued = Deployment(interval_ms=10, queue=0, fallback="standard").resolve(num_batches=4)
    trace = Trace.empty(4, 2)
    trace.phase[:], trace.correct[:] = [ADAPTED, FALLBACK, FROZEN, FALLBACK], [2, 1, 2, 0]
    trace.predict_ms[:], trace.adapt_ms[:] = [5.0, 4.0, 15.0, 4.0], [10.0, 0.0, 0.0, 0.0]
    assert living.replayed(trace, rescued) == pytest.approx((1.0 + 0.5 + 1.0 + 0.0) / 4)


def test_the_commands_print_both(run):
    for arguments in (
        ["live", str(run.path), "--cells", "2", "--repeats", "1"],
        ["audit", str(run.path), "--live", "--cells", "1", "--seed", "3"],
        ["audit", str(run.path), "--realtime", "--cells", "1", "--seed", "3"],
    ):
        result = CliRunner().invoke(app, arguments)
        assert "replayed" in result.output, result.output
        assert "cells agree within the timing interval" in " ".join(result.output.split())
    result = CliRunner().invoke(app, ["live", str(run.path), "--grid", "camera"])
    assert isinstance(result.exception, TemporaError)
    assert "--grid" in str(result.exception)


def test_a_run_is_made_where_there_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load_profile(CLOCK).save(tmp_path / "clock.json")
    flags = ["--shifts", "contrast", "--methods", "standard", "--batches", "3", "--batch-size", "8"]
    result = CliRunner().invoke(
        app, ["live", *flags, "--grid", "server", "--clock", "clock.json", "--cells", "1", "--repeats", "1"]
    )
    assert result.exit_code == 0, result.output
    assert "1 of 1 cells agree" in result.output or "0 of 1 cells agree" in result.output
