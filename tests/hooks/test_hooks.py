"""Hooks: what a run tells others, with the real packages where they are installed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from made_runs import METHODS, write_run
from tempora_tta.cli.terminal import print_warning
from tempora_tta.engine.observer import Observer, Together
from tempora_tta.errors import TemporaError
from tempora_tta.hooks import open_hooks
from tempora_tta.hooks.summary import facts, metrics
from tempora_tta.progress import Progress
from tempora_tta.scenarios import Discrete, Offline
from tempora_tta.store import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Results:
    few = {name: METHODS[name] for name in ("standard", "tent")}
    place = tmp_path_factory.mktemp("hooks") / "run"
    return write_run(place, methods=few, scenarios=(Offline(), Discrete(utilisation=0.5)), batches=8)


def test_a_run_is_summed_up_as_facts_and_numbers(results: Results) -> None:
    told = facts(results.manifest)
    assert told["model"] == "a_net"
    assert told["shifts"] == "fog, snow"
    assert told["device"] == "Some CPU"
    found = metrics(results)
    assert set(found) == {
        f"utility/{method}/{scenario}"
        for method in ("standard", "tent")
        for scenario in ("offline", "rho_50_pct")
    }
    offline = results.utilities.query("method == 'tent' and protocol == 'offline'")["utility"]
    assert found["utility/tent/offline"] == pytest.approx(offline.mean())


class Listening(Observer):
    def __init__(self, folder: Path | None = None) -> None:
        self.heard: list[str] = []

    def note(self, text: str) -> None:
        self.heard.append(text)

    def started(self, tasks: int, done: int) -> None:
        self.heard.append(f"started {tasks}")

    def finished(self, results: Results) -> None:
        self.heard.append("finished")


class Failing(Observer):
    def started(self, tasks: int, done: int) -> None:
        raise ConnectionError("the tracker is down")


def test_a_hook_that_fails_is_noted_and_the_others_go_on(results: Results) -> None:
    mine, last = Listening(), Listening()
    together = Together(mine, [Failing(), last])
    together.started(3, 0)
    together.finished(results)
    assert mine.heard[0] == "started 3"
    assert "Failing failed at started, and the run goes on: the tracker is down" in mine.heard[1]
    assert last.heard == ["started 3", "finished"]


def test_a_hook_that_fails_is_said_even_to_who_wants_quiet(results: Results, capsys) -> None:
    quiet = Progress(Console(), live=False, quiet=True, warn=print_warning)
    Together(quiet, [Failing()]).started(3, 0)
    quiet.note("nothing that matters")
    told = capsys.readouterr()
    assert "Failing failed at started" in " ".join(told.err.split())
    assert told.out == ""


def test_every_call_of_an_observer_reaches_all() -> None:
    calls = [name for name, one in vars(Observer).items() if callable(one)]
    assert calls
    assert all(name in vars(Together) for name in calls)
    first, last = Listening(), Listening()
    together = Together(first, [last])
    assert not together.stop_requested
    last.stop_requested = True
    assert together.stop_requested
    last.stop_requested, together.stop_requested = False, True
    assert (first.stop_requested, last.stop_requested) == (True, False), "it is the user's to stop the run"


def test_a_hook_of_ones_own_and_names_that_are_none(tmp_path: Path, monkeypatch, request) -> None:
    monkeypatch.chdir(tmp_path)
    request.addfinalizer(lambda: sys.modules.pop("my_hook", None))
    (tmp_path / "my_hook.py").write_text(
        "from tempora_tta.engine import Observer\n"
        "class Mine(Observer):\n"
        "    def __init__(self, folder):\n"
        "        self.folder = folder\n"
        "class NoHook:\n"
        "    def __init__(self, folder): ...\n"
        "class WithoutFolder(Observer): ...\n"
    )
    with pytest.raises(TemporaError, match=r"give it __init__\(self, folder\)"):
        open_hooks(["my_hook.py:WithoutFolder"], tmp_path)
    (mine,) = open_hooks(["my_hook.py:Mine"], tmp_path)
    assert mine.folder == tmp_path
    with pytest.raises(TemporaError, match="derive it from that class"):
        open_hooks(["my_hook.py:NoHook"], tmp_path)
    with pytest.raises(TemporaError, match="mlflow"):
        open_hooks(["mlfow"], tmp_path)


def test_a_package_that_is_not_there_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TemporaError, match=r"pip install 'tempora-tta\[wandb\]'"):
        open_hooks(["wandb"], tmp_path)


def test_mlflow_holds_the_run(results: Results, monkeypatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    before = mlflow.get_tracking_uri()
    (hook,) = open_hooks(["mlflow"], results.path)
    hook.finished(results)
    (run,) = runs_in(results.path / "mlflow.db")
    assert run.info.status == "FINISHED"
    assert run.info.run_name == results.path.name
    assert run.data.metrics == pytest.approx(metrics(results))
    assert run.data.params["model"] == "a_net"
    kept = {path.name for path in (results.path / "mlflow-artifacts").glob("*/artifacts/*")}
    assert kept == {"run.json", "utilities.parquet"}
    assert mlflow.get_tracking_uri() == before, "the user's own session writes where it did"
    assert mlflow.active_run() is None


def test_mlflow_goes_where_the_environment_says_with_any_number_of_metrics(
    results: Results, tmp_path: Path, monkeypatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'elsewhere.db'}")
    monkeypatch.chdir(tmp_path)  # where such a database keeps its artifacts
    many = {f"utility/method {number}/offline": number / 2000 for number in range(1234)}
    monkeypatch.setattr("tempora_tta.hooks.mlflow.metrics", lambda results: many)
    (hook,) = open_hooks(["mlflow"], results.path)
    hook.finished(results)
    (run,) = runs_in(tmp_path / "elsewhere.db")
    assert run.data.metrics == pytest.approx(many)


def test_a_run_that_mlflow_would_not_take_is_marked_there(
    results: Results, tmp_path: Path, monkeypatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'elsewhere.db'}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempora_tta.hooks.mlflow.files", lambda results: [tmp_path / "nowhere"])
    (hook,) = open_hooks(["mlflow"], results.path)
    with pytest.raises(OSError, match="nowhere"):
        hook.finished(results)
    (run,) = runs_in(tmp_path / "elsewhere.db")
    assert run.info.status == "FAILED"


def runs_in(database: Path) -> list:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{database}")
    return client.search_runs([client.get_experiment_by_name("tempora").experiment_id])


def test_wandb_holds_the_run_offline(results: Results, monkeypatch, tmp_path) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("HOME", str(tmp_path))  # where it keeps a configuration
    monkeypatch.delenv("WANDB_MODE", raising=False)
    (hook,) = open_hooks(["wandb"], results.path)
    hook.finished(results)
    wandb.teardown()  # its service writes the file out when it ends
    (stored,) = (results.path / "wandb").glob("offline-run-*/run-*.wandb")
    content = stored.read_bytes()
    for name, value in metrics(results).items():
        assert name.encode() in content
        assert json.dumps(value)[:10].encode() in content
    assert wandb.run is None
    assert "WANDB_MODE" not in os.environ
