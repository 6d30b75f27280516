"""A run into the folder of an earlier one: what is added costs only what is new, and nothing leaves unasked."""

from __future__ import annotations

import pytest
from latencies import CLOCK
from typer.testing import CliRunner

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.cli.app import app
from tempora_tta.scenarios import Discrete

HALF, FULL = Discrete(utilisation=0.5), Discrete(utilisation=1)


@pytest.fixture
def run(network, batches, tmp_path):
    """Run into one folder."""

    def run(methods, scenarios=(HALF,), streams=None, **options):
        given = streams or {"first": batches[:3], "second": batches[2:5]}
        results = tempora.evaluate(
            network("fashion_resnet"),
            given,
            methods,
            list(scenarios),
            out=tmp_path / "run",
            **{"clock": CLOCK, "device": "cpu", "warmup_batches": 1, **options},
        )
        assert len(results.utilities)  # read now: the next run writes into the same folder
        return results

    return run


def test_methods_scenarios_and_shifts_are_added_to_what_is_there(run, batches):
    first = run(["standard", "adabn"], streams={"first": batches[:3]})
    made = {path.name: path.stat().st_mtime_ns for path in first.path.glob("traces/*")}
    more = run(["standard", "adabn", "tent"], [FULL, HALF])
    kept = more.utilities.merge(first.utilities[["method", "shift", "label"]])
    assert kept["utility"].tolist() == first.utilities["utility"].tolist()
    assert {
        path.name: path.stat().st_mtime_ns for path in first.path.glob("traces/*")
    }.items() >= made.items()
    assert len(more.utilities) == 3 * 2 * 3
    again = run(["standard", "adabn", "tent"], [FULL, HALF])
    assert again.manifest["notes"] == more.manifest["notes"], "no pass was made again"


# -- audits of runs from Python --------------------------------------------------------------------------------


def test_a_run_from_python_can_be_audited_where_everything_has_a_name(tmp_path, monkeypatch):
    (tmp_path / "named_batches.py").write_text(
        "import torch\ndef make():\n    torch.manual_seed(0)\n"
        "    return [(torch.randn(4, 1, 28, 28), torch.arange(4)) for _ in range(3)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = {"clock": CLOCK, "device": "cpu", "warmup_batches": 1, "out": tmp_path / "run"}
    results = tempora.evaluate("fashion_resnet", "named_batches:make", ["standard", "tent"], HALF, **options)
    assert results.manifest["config"]["data"]["batches"] == "named_batches:make"
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["audit", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "4 of 4 cells agree exactly" in result.output


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"methods": ["standard", "tent"]}, "adabn"),
        ({"scenarios": [FULL]}, "50"),
        ({"seed": 7}, "2025"),
        ({"baseline_ms": 41.0}, "lambda"),
        ({"clock": {**CLOCK, "tent": (50, 50)}}, "clock"),
        ({"streams": ["first"]}, "second.*data"),
    ],
)
def test_a_run_that_would_lose_results_is_refused(run, batches, tmp_path, change, lost):
    before = run(["standard", "adabn"])
    if "streams" in change:
        change = {"streams": {"first": batches[3:6]}}
    with pytest.raises(TemporaError, match=rf"{lost}.*--replace"):
        run(**{"methods": ["standard", "adabn"], **change})
    assert tempora.open_run(tmp_path / "run").utilities.equals(before.utilities)
