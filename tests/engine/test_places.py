"""Places where tasks are made: processes and clusters give the local run's files, also when some of them die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from latencies import CLOCK

from tempora_tta import TemporaError
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


class Watches(Observer):
    """Remembers what it was told, and may do something when a task is done."""

    def __init__(self, on_finish=lambda: None) -> None:
        self.notes, self.finished_tasks = [], []
        self.on_finish = on_finish

    def note(self, text):
        self.notes.append(text)

    def task_finished(self, method, shift, seed):
        self.finished_tasks.append((method, shift))
        self.on_finish()


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


# -- processes ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_write_what_one_does(clock_file, local, tmp_path):
    watches = Watches()
    run_cores(configuration(clock_file), tmp_path / "run", watches)
    assert contents(tmp_path / "run") == local
    assert sorted(watches.finished_tasks) == sorted((m, s) for m in METHODS for s in SHIFTS)


@pytest.mark.slow
def test_a_killed_process_costs_only_its_task(monkeypatch, clock_file, tmp_path):
    config = configuration(clock_file, methods=["standard", f"{__name__}:DiesOnce"])
    monkeypatch.setenv("DIED_ONCE", str(tmp_path / "died"))
    watches = Watches()
    run_cores(config, tmp_path / "run", watches)
    assert ["made again" in note for note in watches.notes] == [True]
    assert len(watches.finished_tasks) == 2 * len(SHIFTS)
    run_local(config, tmp_path / "local")
    assert contents(tmp_path / "run") == contents(tmp_path / "local")


@pytest.mark.slow
def test_a_task_that_kills_every_process_fails_and_the_rest_goes_on(clock_file, tmp_path):
    config = configuration(
        clock_file, methods=["standard", f"{__name__}:Poison"], data={"shifts": ["clean"], "workers": 0}
    )
    run = run_cores(config, tmp_path / "run")
    statuses = {row["method"]: row["status"] for row in run.rows}
    assert statuses.pop("standard") == "ok"
    assert list(statuses.values()) == ["failed: its process died, and twice more when it had one to itself"]


@pytest.mark.slow
def test_frozen_batches_of_a_failed_standard_fail_too(monkeypatch, clock_file, tmp_path):
    """Only Standard's process dies: LAME's cells that need its pass say so."""
    run_local(configuration(clock_file, methods=["standard", "lame"]), tmp_path / "run")
    for path in (tmp_path / "run" / "traces").glob("clean--standard*"):
        path.unlink()
    monkeypatch.setattr(OnCores, "made", lambda self, tasks: ((task, Failed("killed")) for task in tasks))
    run = run_cores(configuration(clock_file, methods=["standard", "lame"]), tmp_path / "run")
    failed = {row["status"] for row in run.rows if row["method"] == "lame" and row["shift"] == "clean"}
    assert failed == {"ok", "failed: the Standard pass that holds its frozen batches failed"}


@pytest.mark.slow
def test_a_task_that_raises_is_recorded_with_its_reason(clock_file, tmp_path):
    config = configuration(clock_file, methods=["standard", f"{__name__}:Raises"])
    run = run_cores(config, tmp_path / "run")
    raised = [row["status"] for row in run.rows if row["method"] != "standard"]
    assert raised == ["failed: ValueError: no"] * 8


@pytest.mark.slow
def test_a_stopped_run_resumes_and_a_finished_one_needs_no_process(monkeypatch, clock_file, local, tmp_path):
    watches = Watches()
    watches.on_finish = lambda: setattr(watches, "stop_requested", True)
    with pytest.raises(Stopped):
        run_cores(configuration(clock_file), tmp_path / "run", watches)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("traces/*.parquet")}
    assert 0 < len(before) < len(local) - 1
    run_cores(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local
    assert {name: (tmp_path / "run" / "traces" / name).stat().st_mtime_ns for name in before} == before
    monkeypatch.setattr(
        OnCores, "made", lambda self, tasks: [pytest.fail("nothing is missing") for _ in tasks]
    )
    run_cores(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local


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


@pytest.mark.slow
def test_a_local_run_goes_on_elsewhere(clock_file, local, tmp_path):
    """Passes of a task that was under way are not made again."""
    run_local(configuration(clock_file), tmp_path / "run")
    traces = tmp_path / "run" / "traces"
    for path in traces.glob("*tent--live*"):
        path.unlink()
    before = {path.name: path.stat().st_mtime_ns for path in traces.iterdir()}
    run_cores(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local
    assert {name: (traces / name).stat().st_mtime_ns for name in before} == before


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


def test_a_node_with_other_weights_or_data_is_refused(clock_file, tmp_path):
    question = asked(configuration(clock_file), tmp_path)
    question.config["batch_size"] = 8
    refused = answer(question, "kind")
    assert isinstance(refused, Failed)
    assert refused.for_all
    assert "other weights, data or versions" in refused.reason


def test_unlike_devices_are_not_timed_in_one_run(tmp_path):
    from dataclasses import replace

    question = replace(asked(configuration("measured"), tmp_path), kind="another GPU")
    refused = answer(question)
    assert isinstance(refused, Failed)
    assert refused.for_all
    assert refused.reason.startswith("--clock measured on unlike devices (another GPU, ")
    assert "--clock steady" in refused.reason


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


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda:1", "Ray hands out devices itself"), ("cuda", "no node of the Ray cluster has a GPU")],
)
def test_a_device_that_a_cluster_does_not_have(clock_file, device, message):
    with pytest.raises(TemporaError, match=message):
        Share.of(configuration(clock_file, device=device), [{"Alive": True, "Resources": {"CPU": 1.0}}])


def test_without_ray_the_error_says_what_to_install(monkeypatch, clock_file, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TemporaError, match=r"pip install 'tempora-tta\[ray\]'"):
        run_ray(configuration(clock_file), tmp_path / "run")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_no_cluster_listens_is_said_at_once(clock_file, tmp_path, scheme):
    pytest.importorskip("ray")
    with socket.socket() as bound:  # and not listening: no other process gets the port meanwhile
        bound.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(
            TemporaError, match=rf"--address {address}: no Ray .*`ray start --head`.*--address auto"
        ):
            run_ray(configuration(clock_file), tmp_path / "run", address=address)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--executor", "rya"], "unknown --executor 'rya': did you mean 'ray'"),
        (["--address", "auto"], "--address auto: only with --executor ray"),
    ],
)
def test_wrong_options(tmp_path, options, message):
    from typer.testing import CliRunner

    from tempora_tta.cli.app import app

    result = CliRunner().invoke(app, ["run", "--out", str(tmp_path / "run"), *options])
    assert isinstance(result.exception, TemporaError)
    assert message in str(result.exception)


# -- real clusters -----------------------------------------------------------------------------------------


@pytest.fixture
def cluster():
    """Two nodes of one core each on this machine."""
    pytest.importorskip("ray")
    made = start_cluster()
    yield made
    made.shutdown()


def start_cluster():
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=node)
    made.add_node(**node)
    return made


@pytest.mark.slow
def test_two_nodes_write_what_a_local_run_does_and_a_finished_run_needs_neither(
    cluster, clock_file, local, tmp_path
):
    run_ray(configuration(clock_file), tmp_path / "run", address=cluster.address)
    assert contents(tmp_path / "run") == local
    workers = RunFolder(tmp_path / "run").manifest()["workers"]
    assert sum(workers.values()) == len(SHIFTS) * len(METHODS)
    run_ray(configuration(clock_file), tmp_path / "run", address="127.0.0.1:1")
    assert contents(tmp_path / "run") == local
    assert RunFolder(tmp_path / "run").manifest()["workers"] == workers


@pytest.mark.slow
def test_a_task_of_a_killed_worker_is_made_again(monkeypatch, clock_file, tmp_path):
    pytest.importorskip("ray")
    config = configuration(clock_file, methods=["standard", f"{__name__}:DiesOnce"])
    monkeypatch.setenv("DIED_ONCE", str(tmp_path / "died"))
    made = start_cluster()  # its nodes inherit the variable
    try:
        run_ray(config, tmp_path / "run", address=made.address)
    finally:
        made.shutdown()
    assert (tmp_path / "died").exists()
    run_local(config, tmp_path / "local")
    assert contents(tmp_path / "run") == contents(tmp_path / "local")


@pytest.mark.slow
def test_a_lost_node_costs_only_its_task(cluster, clock_file, local, tmp_path):
    def remove_a_node() -> None:
        if cluster.worker_nodes:
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    run_ray(configuration(clock_file), tmp_path / "run", Watches(remove_a_node), cluster.address)
    assert contents(tmp_path / "run") == local


@pytest.mark.slow
def test_a_restarted_head_loses_nothing(cluster, clock_file, local, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text(json.dumps(configuration(clock_file).plain()))
    environment = os.environ | {"RAY_gcs_rpc_server_reconnect_timeout_s": "2"}
    out = tmp_path / "run"

    def command(address: str) -> list[str]:
        options = ["--quiet", "--executor", "ray", "--address", address, "--out", str(out)]
        return [sys.executable, "-m", "tempora_tta", "run", str(config), *options]

    driver = subprocess.Popen(
        command(cluster.address), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while len(list(out.glob("traces/*.parquet"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    cluster.shutdown()
    driver.wait(timeout=120)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("traces/*.parquet")}
    assert len(before) >= 2
    assert driver.returncode != 0 or len(before) == len(local) - 1
    again = start_cluster()
    try:
        subprocess.run(command(again.address), check=True, capture_output=True, timeout=180)
    finally:
        again.shutdown()
    assert contents(out) == local
    assert {name: (out / "traces" / name).stat().st_mtime_ns for name in before} == before


@pytest.mark.slow
def test_a_poisoned_task_is_recorded_and_skipped(cluster, clock_file, tmp_path):
    config = configuration(
        clock_file, methods=["standard", f"{__name__}:Poison"], data={"shifts": ["clean"], "workers": 0}
    )
    run = run_ray(config, tmp_path / "run", address=cluster.address)
    statuses = {row["method"]: row["status"] for row in run.rows}
    assert statuses.pop("standard") == "ok"
    assert list(statuses.values()) == [
        "failed: its process died, and twice more when it had one to itself (WorkerCrashedError)"
    ]


@pytest.mark.slow
def test_the_steady_clock_on_two_nodes(cluster, tmp_path):
    """One of them records the profile; with it a local run writes the same bytes."""
    config = configuration("steady", profile_s=1.0)
    run_ray(config, tmp_path / "run", address=cluster.address)
    (tmp_path / "local").mkdir()
    shutil.copy(tmp_path / "run" / "profile.json", tmp_path / "local" / "profile.json")
    run_local(config, tmp_path / "local")
    assert contents(tmp_path / "run") == contents(tmp_path / "local")


@pytest.mark.slow
def test_measured_on_two_nodes(cluster, tmp_path):
    config = configuration("measured")
    run_ray(config, tmp_path / "run", address=cluster.address)
    manifest = RunFolder(tmp_path / "run").manifest()
    assert len(manifest["baselines"]) == 1
    assert manifest["baseline"] in manifest["baselines"].values()
    assert manifest["verdict"]["status"] in ("VALID", "WARN", "INVALID")
    utilities = RunFolder(tmp_path / "run").utilities()
    assert utilities["baseline_ms"].nunique() == 1
    assert utilities["rank"].notna().all()
    run_ray(config, tmp_path / "run", address="127.0.0.1:1")
    assert RunFolder(tmp_path / "run").manifest()["baselines"] == manifest["baselines"]
