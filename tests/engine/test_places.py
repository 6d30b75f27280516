"""Places where tasks are made: processes and clusters give the local run's files, also when some of them die."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from latencies import CLOCK
from typer.testing import CliRunner
from watching import Watches

from tempora_tta import TemporaError
from tempora_tta.cli.app import app
from tempora_tta.config import RunConfig, checked
from tempora_tta.engine import Observer, Run, Stopped
from tempora_tta.engine.build import build_job
from tempora_tta.engine.on_ray import OnRay, Share, driver_job
from tempora_tta.engine.places import Failed, OnCores, answer, cores_for
from tempora_tta.evaluation import finished
from tempora_tta.methods import Method
from tempora_tta.store import RunFolder
from tempora_tta.timing import load_profile

SHIFTS, METHODS = ["contrast", "clean"], ["standard", "lame", "tent"]


class Poison(Method):
    """Takes its process down, as a segmentation fault would."""

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        os._exit(1)


class DiesOnce(Method):
    """Is killed on its third batch, as when memory is short, and not again."""

    _seen = 0

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        self._seen += 1
        marker = Path(os.environ["DIED_ONCE"])
        if self._seen == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.model(x)


class Sleeps(Method):
    """Says which process it is in, and stays there."""

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        Path(os.environ["PROCESS"]).write_text(str(os.getpid()))
        time.sleep(600)
        return self.model(x)


class Raises(Method):
    def predict(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")


@pytest.fixture(scope="module")
def clock_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("clock") / "clock.json"
    own = ("Poison", "Raises", "DiesOnce", "Sleeps")
    times = dict.fromkeys([*own, *(f"{__name__}:{name}" for name in own)], (41, 1))
    load_profile(CLOCK | times).save(path)
    return path


def configuration(clock: object, **changes) -> RunConfig:
    return checked(
        {
            "data": {"shifts": SHIFTS, "workers": 0},
            "methods": METHODS,
            "grid": "none",
            "scenarios": [
                {"protocol": "discrete", "utilisation": 1},
                {"protocol": "amortised", "budget_x": 0.05},
                {"protocol": "amortised", "budget_x": 0.5},
            ],
            "batches": 5,
            "batch_size": 16,
            "threads": 1,
            "warmup_batches": 1,
            "clock": str(clock),
            "device": "cpu",
            "calibration_batches": 20,
            **changes,
        }
    )


def run_local(config: RunConfig, out: Path) -> Run:
    with RunFolder.for_writing(out) as folder:
        run = Run(build_job(config), folder)
        finished(run)
    return run


def run_cores(config: RunConfig, out: Path, observer: Observer | None = None) -> Run:
    with RunFolder.for_writing(out) as folder:
        run = Run(build_job(config), folder, observer, partial(OnCores, processes=2))
        finished(run)
    return run


def run_ray(
    config: RunConfig, out: Path, observer: Observer | None = None, address: str | None = None
) -> Run:
    with RunFolder.for_writing(out) as folder:
        run = Run(driver_job(config), folder, observer, partial(OnRay, address=address))
        finished(run)
    return run


def contents(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("traces/*.parquet"), folder / "utilities.parquet"]
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def local(clock_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("local") / "run"
    run_local(configuration(clock_file), folder)
    return contents(folder)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux which processes there are")
def test_a_killed_run_leaves_no_process_behind(clock_file, tmp_path):
    config = configuration(clock_file, methods=["standard", f"{__name__}:Sleeps"])
    (tmp_path / "run.json").write_text(json.dumps(config.plain()))
    code = (
        "if __name__ == '__main__':\n"
        " import json; from pathlib import Path; from test_places import checked, run_cores\n"
        f" run_cores(checked(json.loads(Path({str(tmp_path / 'run.json')!r}).read_text())), Path('out'))\n"
    )
    (tmp_path / "script.py").write_text(code)
    said = tmp_path / "process"
    search = os.pathsep.join(map(str, (Path(__file__).parent, *sys.path)))
    run = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PROCESS": str(said), "PYTHONPATH": search},
    )
    _wait_until(lambda: said.exists() and said.read_text())
    run.kill()
    run.wait()
    stat = Path(f"/proc/{said.read_text()}/stat")
    _wait_until(lambda: not stat.exists() or " Z " in stat.read_text())


def _wait_until(done) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_how_many_processes(clock_file):
    few = configuration(clock_file, methods=["standard"], batches=2)
    assert cores_for(build_job(few)) == 1, "it would be done before another process has begun"
    many = configuration(clock_file, methods=["tent", "sar", "deyo"], batches=None)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert cores_for(build_job(many)) == cores
    measured = configuration("measured", methods=["tent", "sar", "deyo"], batches=None)
    assert cores_for(build_job(measured)) == 1, "its own times are the answer"


# -- another machine ---------------------------------------------------------------------------------------


def asked(config: RunConfig, folder: Path):
    with RunFolder.for_writing(folder) as opened:
        return OnCores(build_job(config), opened, Observer(), processes=1).asked()


@pytest.mark.parametrize(
    ("nodes", "changes", "share"),
    [
        ([{"CPU": 16.0, "GPU": 8.0}, {"CPU": 64.0, "GPU": 4.0}, {"CPU": 32.0}], {}, (1, 2, None)),
        ([{"CPU": 8.0}, {"CPU": 4.0}, {"memory": 1e9}], {}, (0, 8, 8)),
        ([{"CPU": 8.0}, {"CPU": 3.0}], {"threads": 2}, (0, 8, 2)),
        ([{"CPU": 16.0, "GPU": 8.0}], {"device": "cpu"}, (0, 16, 16)),
        ([{"CPU": 16.0}], {"clock": "steady"}, (0, 1, 1)),
        ([{"CPU": 16.0}], {"clock": "steady", "threads": 4}, (0, 4, 4)),
    ],
)
def test_a_task_holds_a_gpu_with_its_share_of_cores_or_is_alone_on_a_node_that_is_timed(
    nodes, changes, share
):
    config = configuration(**{"clock": "measured", "device": "auto", "threads": None, **changes})
    cluster = [{"Alive": True, "Resources": resources} for resources in nodes]
    assert Share.of(config, [*cluster, {"Alive": False, "Resources": {"CPU": 99.0}}]) == share


def test_nodes_with_other_weights_or_data_or_devices_are_refused(clock_file, tmp_path):
    other_data = asked(configuration(clock_file), tmp_path / "data")
    other_data.config["batch_size"] = 8
    other_device = replace(asked(configuration("measured"), tmp_path / "device"), kind="another GPU")
    for refused, said in (
        (answer(other_data, "kind"), "weights, data or versions"),
        (answer(other_device), "another GPU.*--clock steady"),
    ):
        assert isinstance(refused, Failed)
        assert refused.for_all
        assert re.search(said, refused.reason)


NO_GPU = [{"Alive": True, "Resources": {"CPU": 1.0}}]


def without_ray(monkeypatch, config, out):
    monkeypatch.setitem(sys.modules, "ray", None)
    run_ray(config, out)


def by_command(*words):
    def call(monkeypatch, config, out):
        result = CliRunner().invoke(app, ["run", "--out", str(out), *words])
        raise result.exception

    return call


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda _, config, out: Share.of(replace(config, device="cuda:1"), NO_GPU), "Ray"),
        (lambda _, config, out: Share.of(replace(config, device="cuda"), NO_GPU), "GPU"),
        (without_ray, r"pip install 'tempora-tta\[ray\]'"),
        (by_command("--executor", "rya"), "'rya'.*'ray'"),
        (by_command("--address", "auto"), "--address auto.*--executor ray"),
    ],
)
def test_what_cannot_be_had_says_what_to_do(monkeypatch, clock_file, tmp_path, call, said):
    with pytest.raises(TemporaError, match=said):
        call(monkeypatch, configuration(clock_file), tmp_path / "run")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_no_cluster_listens_is_said_at_once(clock_file, tmp_path, scheme):
    pytest.importorskip("ray")
    with socket.socket() as bound:  # and not listening: no other process gets the port meanwhile
        bound.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(TemporaError, match=rf"{address}.*`ray start --head`.*--address auto"):
            run_ray(configuration(clock_file), tmp_path / "run", address=address)


# -- processes and clusters ---------------------------------------------------------------------------------


def made_at(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("traces/*.parquet")}


@pytest.mark.slow
def test_processes_write_what_one_does_however_the_run_is_stopped_and_goes_on(
    monkeypatch, clock_file, local, tmp_path
):
    """A run that was begun here goes on elsewhere, and passes that are there are not made again."""
    watches = Watches()
    watches.on_finish = lambda: setattr(watches, "stop_requested", True)
    with pytest.raises(Stopped):
        run_cores(configuration(clock_file), tmp_path / "run", watches)
    before = made_at(tmp_path / "run")
    assert 0 < len(before) < len(local) - 1
    run_cores(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local
    assert before.items() < made_at(tmp_path / "run").items()
    for path in tmp_path.glob("run/traces/*tent--live*"):
        path.unlink()
    run_local(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local
    monkeypatch.setattr(
        OnCores, "made", lambda self, tasks: [pytest.fail("nothing is missing") for _ in tasks]
    )
    run_cores(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes of one core each on this machine, where methods may die once."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:  # nodes inherit the variable
        patch.setenv("DIED_ONCE", str(tmp_path_factory.mktemp("ray") / "died"))
        made = Cluster(initialize_head=True, head_node_args=NODE)
        made.add_node(**NODE)
        yield made
        made.shutdown()


NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}


@pytest.mark.slow
@pytest.mark.parametrize("place", ["cores", "ray"])
def test_a_dead_process_costs_only_its_task(request, monkeypatch, clock_file, tmp_path, place):
    own = [f"{__name__}:{name}" for name in ("DiesOnce", "Raises", "Poison")]
    config = configuration(clock_file, methods=["standard", *own], data={"shifts": ["clean"], "workers": 0})
    watches = Watches()
    if place == "cores":
        monkeypatch.setenv("DIED_ONCE", str(tmp_path / "died"))
        run = run_cores(config, tmp_path / "run", watches)
    else:
        run = run_ray(config, tmp_path / "run", watches, request.getfixturevalue("cluster").address)
    statuses = {row["method"].partition(":")[2] or row["method"]: row["status"] for row in run.rows}
    assert statuses["standard"] == statuses["DiesOnce"] == "ok"
    assert statuses["Raises"] == "failed: ValueError: no"
    assert statuses["Poison"].startswith("failed: its process died")
    assert place == "ray" or any("made again" in note for note in watches.notes)


@pytest.mark.slow
def test_two_nodes_write_what_a_local_run_does_though_one_is_lost_and_a_finished_run_needs_neither(
    cluster, clock_file, local, tmp_path
):
    lost = [cluster.add_node(**NODE)]

    def remove_a_node() -> None:
        if lost:
            cluster.remove_node(lost.pop(), allow_graceful=False)

    run_ray(configuration(clock_file), tmp_path / "run", Watches(on_finish=remove_a_node), cluster.address)
    assert contents(tmp_path / "run") == local
    workers = RunFolder(tmp_path / "run").manifest()["workers"]
    assert sum(workers.values()) == len(SHIFTS) * len(METHODS)
    run_ray(configuration(clock_file), tmp_path / "run", address="127.0.0.1:1")
    assert contents(tmp_path / "run") == local
    assert RunFolder(tmp_path / "run").manifest()["workers"] == workers


@pytest.mark.slow
def test_the_steady_clock_on_two_nodes(cluster, tmp_path):
    """One of them records the profile; with it a local run writes the same bytes."""
    config = configuration("steady", profile_s=1.0)
    run_ray(config, tmp_path / "run", address=cluster.address)
    (tmp_path / "local").mkdir()
    shutil.copy(tmp_path / "run" / "profile.json", tmp_path / "local" / "profile.json")
    run_local(config, tmp_path / "local")
    assert contents(tmp_path / "run") == contents(tmp_path / "local")
