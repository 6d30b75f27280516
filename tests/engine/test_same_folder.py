"""A run into the folder of an earlier one: what is added costs only what is new, and nothing leaves unasked."""

from __future__ import annotations

import logging

import pytest
import torch
from latencies import CLOCK
from typer.testing import CliRunner

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.cli.app import app
from tempora_tta.methods import Method
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


class SometimesNaN(Method):
    """Gives no number for the first sample of its first batch."""

    name = "neo"

    def setup(self) -> None:
        self.first = True

    def reset(self) -> None:
        super().reset()
        self.first = True

    def predict(self, x):
        scores = self.logits(x).detach().clone()
        if self.first:
            scores[0] = torch.nan
        self.first = False
        return scores


def test_what_was_said_of_the_passes_stays_in_run_json_and_goes_to_the_log(run, caplog):
    with caplog.at_level(logging.INFO, "tempora_tta"):
        first = run(["standard", SometimesNaN])
    notes = first.manifest["notes"]
    assert [note.split(":")[0] for note in notes] == ["neo on first", "neo on second"]
    assert all("NaN or infinite scores" in note for note in notes)
    assert set(notes) <= set(caplog.messages)
    again = run(["standard", SometimesNaN])
    assert again.manifest["notes"] == notes, "no pass was made again"


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"methods": ["standard", "tent"]}, "method adabn"),
        ({"scenarios": [FULL]}, "scenario .*50"),
        ({"seed": 7}, "seed 2025"),
        ({"baseline_ms": 41.0}, "another lambda"),
        ({"clock": {**CLOCK, "tent": (50, 50)}}, "another clock"),
    ],
)
def test_a_run_that_would_lose_results_is_refused(run, tmp_path, change, lost):
    before = run(["standard", "adabn"])
    with pytest.raises(TemporaError, match=rf"{lost}.*--replace"):
        run(**{"methods": ["standard", "adabn"], **change})
    assert tempora.open_run(tmp_path / "run").utilities.equals(before.utilities)


def test_other_images_under_the_name_of_a_shift_are_refused(run, batches):
    run(["standard"], streams={"first": batches[:3], "second": batches[:3]})
    with pytest.raises(TemporaError, match=r"shift second; another data.*--replace"):
        run(["standard"], streams={"first": batches[3:6]})


def test_they_are_replaced_on_purpose(tmp_path):
    words = ["run", "--shifts", "clean", "--batches", "1", "--batch-size", "8", "--grid", "none", "--plain"]
    words += ["--clock", "published:rn50_inc", "--device", "cpu", "--out", str(tmp_path / "run")]
    for methods, more in (("standard,adabn", []), ("tent", ["--replace"])):
        assert CliRunner().invoke(app, [*words, "--methods", methods, *more]).exit_code == 0
    assert set(tempora.open_run(tmp_path / "run").utilities["method"]) == {"tent"}


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
