"""Hooks: what a run tells others, with the real packages where they are installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from made_runs import METHODS, write_run
from tempora_tta.engine.observer import Observer, Together
from tempora_tta.errors import TemporaError
from tempora_tta.hooks import open_hooks
from tempora_tta.hooks.summary import facts, metrics
from tempora_tta.scenarios import Discrete, Offline
from tempora_tta.store import Results, open_run


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Results:
    few = {name: METHODS[name] for name in ("standard", "tent")}
    place = tmp_path_factory.mktemp("hooks") / "run"
    return write_run(place, methods=few, scenarios=(Offline(), Discrete(utilisation=0.5)), batches=8)


def test_a_run_is_summed_up_as_facts_and_numbers(results: Results) -> None:
    told = facts(results.manifest)
    assert (told["model"], told["shifts"], told["device"]) == ("a_net", "fog, snow", "Some CPU")
    found = metrics(results)
    assert set(found) == {
        f"utility/{method}/{scenario}"
        for method in ("standard", "tent")
        for scenario in ("offline", "rho_50_pct")
    }
    offline = results.utilities.query("method == 'tent' and protocol == 'offline'")["utility"]
    assert found["utility/tent/offline"] == pytest.approx(offline.mean())


class Listening(Observer):
    def __init__(self) -> None:
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
    assert all(part in mine.heard[1] for part in ("Failing", "started", "the tracker is down"))
    assert last.heard == ["started 3", "finished"]


def test_every_call_of_an_observer_reaches_all() -> None:
    calls = [name for name, one in vars(Observer).items() if callable(one)]
    assert calls
    assert all(name in vars(Together) for name in calls)
    first, last = Listening(), Listening()
    together = Together(first, [last])
    last.stop_requested = True
    assert together.stop_requested
    last.stop_requested, together.stop_requested = False, True
    assert (first.stop_requested, last.stop_requested) == (True, False), "it is the user's to stop the run"


MINE = """
from tempora_tta.engine import Observer
class Mine(Observer):
    def __init__(self, folder):
        self.folder = folder
class NoHook:
    def __init__(self, folder): ...
class WithoutFolder(Observer): ...
"""


def test_a_hook_of_ones_own_and_names_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)
    request.addfinalizer(lambda: sys.modules.pop("my_hook", None))
    (tmp_path / "my_hook.py").write_text(MINE)
    (mine,) = open_hooks(["my_hook.py:Mine"], tmp_path)
    assert vars(mine)["folder"] == tmp_path
    for name, parts in {
        "my_hook.py:WithoutFolder": ["WithoutFolder", "__init__(self, folder)"],
        "my_hook.py:NoHook": ["NoHook", "derive"],
        "mlfow": ["mlfow", "mlflow"],
        "wandb": ["wandb", "pip install 'tempora-tta[wandb]'"],
    }.items():
        with pytest.raises(TemporaError) as caught:
            open_hooks([name], tmp_path)
        assert all(part in str(caught.value) for part in parts), caught.value


# -- the real packages -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True])
def test_mlflow_holds_the_run_here_or_where_the_environment_says(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)  # where such a database keeps its artifacts
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    database = tmp_path / "elsewhere.db" if elsewhere else results.path / "mlflow.db"
    if elsewhere:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
    many = open_run(results.path)
    many.utilities = pd.concat(many.utilities.assign(method=f"method {number}") for number in range(600))
    assert len(metrics(many)) > 1000, "more than MLflow takes in one call"
    before = mlflow.get_tracking_uri()
    (hook,) = open_hooks(["mlflow"], results.path)
    hook.finished(many)
    run = last_run(database)
    assert (run.info.status, run.info.run_name) == ("FINISHED", results.path.name)
    assert run.data.metrics == pytest.approx(metrics(many))
    assert run.data.params["model"] == "a_net"
    kept = {path.name for path in results.path.parent.rglob("artifacts/*")}
    assert elsewhere or kept == {"run.json", "utilities.parquet"}
    assert mlflow.get_tracking_uri() == before, "the user's own session writes where it did"
    assert mlflow.active_run() is None


@pytest.mark.slow
def test_a_run_that_mlflow_would_not_take_is_marked_there(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    (hook,) = open_hooks(["mlflow"], tmp_path)
    (tmp_path / "mlflow-artifacts").write_text("no folder")
    with pytest.raises(OSError, match="mlflow-artifacts"):
        hook.finished(results)
    assert last_run(tmp_path / "mlflow.db").info.status == "FAILED"


def last_run(database: Path) -> Any:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{database}")
    return client.search_runs([client.get_experiment_by_name("tempora").experiment_id])[0]


@pytest.mark.slow
def test_wandb_holds_the_run_offline(
    results: Results, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
        assert str(value)[:10].encode() in content
    assert wandb.run is None
    assert "WANDB_MODE" not in os.environ
