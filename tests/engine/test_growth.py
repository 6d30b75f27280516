"""A run folder grows: methods of earlier runs stay in the table while they hold, and whatever goes is said."""

from __future__ import annotations

import sys

import pytest
from latencies import CLOCK
from typer.testing import CliRunner

import tempora_tta as tempora
from tempora_tta.cli.app import app
from tempora_tta.engine import Observer
from tempora_tta.scenarios import Discrete

HALF, FULL = Discrete(utilisation=0.5), Discrete(utilisation=1)


class Notes(Observer):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def grow(network, batches, tmp_path):
    """Run into one folder; the results, and what was said."""

    def run(methods, scenarios=(HALF,), streams=None, **options):
        notes = Notes()
        given = streams or {"first": batches[:3], "second": batches[2:5]}
        options = {"clock": CLOCK, "device": "cpu", "warmup_batches": 1, **options}
        results = tempora.evaluate(
            network("fashion_resnet"),
            given,
            methods,
            list(scenarios),
            out=tmp_path / "run",
            observer=notes,
            **options,
        )
        assert len(results.utilities)  # read now: the next run writes into the same folder
        return results, notes.texts

    return run


def test_other_methods_join_those_that_are_there(grow, tmp_path):
    first, said = grow(["standard", "adabn"])
    assert said == []
    both, said = grow(["tent"])
    assert said == ["standard, adabn of the run before stay in the table (8 cells, unchanged)"]
    assert both.manifest["methods"] == ["standard", "adabn", "tent"]
    kept = both.utilities[both.utilities["method"] != "tent"].reset_index(drop=True)
    same = ["method", "shift", "scenario", "utility", "adapting_pass", "frozen_pass", "served_batches"]
    assert kept[same].equals(first.utilities[same])
    together, _ = grow(["standard", "adabn", "tent"])
    assert together.utilities.equals(both.utilities)
    assert len(both.traces) == 3 * 2 * 2 * 3
    assert tempora.open_run(tmp_path / "run").utilities["rank"].notna().all()


def test_the_same_again_says_nothing(grow):
    grow(["standard", "adabn"])
    assert grow(["standard", "adabn"])[1] == []
    assert grow(["standard", "adabn", "tent"])[1] == []


def test_a_scenario_more_and_a_scenario_less(grow):
    grow(["standard", "adabn"])
    more, said = grow(["standard"], [FULL, HALF])
    assert said == [
        "adabn is no longer in the table: it lacks 2 cells of this run; name it again (--methods) to have it. "
        "Its passes are kept"
    ]
    assert set(more.utilities["method"]) == {"standard"}
    grow(["standard", "adabn"], [FULL, HALF])
    less, said = grow(["tent"], [FULL])
    assert "no longer in the table: scenario ρ 50 %." in said[1]
    assert set(less.utilities["method"]) == {"standard", "adabn", "tent"}
    assert set(less.utilities["label"]) == {"offline", FULL.label}


def test_other_streams_and_other_times_are_said(grow, batches):
    grow(["standard", "adabn"])
    _, said = grow(["standard"], streams={"first": batches[:3]})
    assert any("no longer in the table: shift second." in text for text in said)
    _, said = grow(["standard"], streams={"first": batches[3:6]})
    assert any("its data was another one" in text for text in said)
    _, said = grow(["standard"], streams={"first": batches[3:6]}, clock={**CLOCK, "baseline_ms": 41})
    assert any("its lambda was 40 ms" in text for text in said)


def test_an_edited_method_of_ones_own_goes(grow, tmp_path, monkeypatch):
    text = (
        "from tempora_tta.methods import Method\nclass Mine(Method):\n    name = 'neo'\n"
        "    def predict(self, x):\n        return self.model(x)\n"
    )
    (tmp_path / "grows.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    grow(["grows:Mine", "standard"])
    assert "neo, standard of the run before stay" in grow(["tent"])[1][0]
    (tmp_path / "grows.py").write_text(text + "# edited\n")
    del sys.modules["grows"]
    assert any(
        "neo is no longer in the table: its code was edited since" in text for text in grow(["eta"])[1]
    )


def test_the_command_says_it_and_an_audit_knows_all_methods(tmp_path):
    def said(*words: str) -> str:
        result = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(words))
        assert result.exit_code == 0, result.output
        return result.output

    folder = str(tmp_path / "run")
    common = ["run", "--shifts", "clean", "--batches", "1", "--batch-size", "8", "--grid", "none", "--plain"]
    common += ["--clock", "published:rn50_inc", "--device", "cpu", "--out", folder]
    said(*common, "--methods", "standard,adabn")
    grown = said(*common, "--methods", "tent")
    assert "standard, adabn of the run before stay in the table (2 cells, unchanged)" in grown
    assert "3 methods on 1 shift of 1 batch of 8" in grown
    assert "3 of 3 cells agree" in said("audit", folder)


def test_a_shard_in_the_folder_of_another_is_said(tmp_path):
    words = [
        "run",
        "--shifts",
        "clean,contrast",
        "--batches",
        "1",
        "--batch-size",
        "8",
        "--grid",
        "none",
        "--plain",
    ]
    words += [
        "--clock",
        "published:rn50_inc",
        "--device",
        "cpu",
        "--methods",
        "standard",
        "--out",
        str(tmp_path / "run"),
    ]
    for shard, told in (("1/2", False), ("1/2", False), ("2/2", True)):
        result = CliRunner(env={"COLUMNS": "300"}).invoke(app, [*words, "--shard", shard])
        assert result.exit_code == 0, result.output
        assert ("held shard 1/2: its passes are kept" in result.output) == told


# -- audits of runs from Python --------------------------------------------------------------------------------


def test_a_run_from_python_can_be_audited_where_everything_has_a_name(tmp_path, monkeypatch):
    (tmp_path / "named_batches.py").write_text(
        "import torch\ndef make():\n    torch.manual_seed(0)\n"
        "    return [(torch.randn(4, 1, 28, 28), torch.arange(4)) for _ in range(3)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = {"clock": CLOCK, "device": "cpu", "warmup_batches": 1, "out": tmp_path / "run"}
    results = tempora.evaluate("fashion_resnet", "named_batches:make", ["standard", "tent"], HALF, **options)
    assert results.manifest["evaluate"]["batches"] == "named_batches:make"
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["audit", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "4 of 4 cells agree exactly" in result.output
