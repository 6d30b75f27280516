"""Where tasks run changes no result: a cluster gives the local executor's files, also when workers and heads die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from latencies import CLOCK

from tempora_tta import TemporaError
from tempora_tta.config import RunConfig, checked
from tempora_tta.engine import Observer, Run, Stopped
from tempora_tta.engine.build import build_job
from tempora_tta.engine.executors import ray_cluster
from tempora_tta.engine.executors.devices import Devices
from tempora_tta.engine.executors.ray import RayExecutor, driver_job
from tempora_tta.engine.schedule import Pending, pick, rough_cost
from tempora_tta.evaluation import finished
from tempora_tta.methods import Method
from tempora_tta.store import RunFolder
from tempora_tta.timing import load_profile

SHIFTS, METHODS = ["contrast", "clean"], ["standard", "lame", "tent"]


class Poison(Method):
    """Takes its worker down, as a segmentation fault would."""

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        os._exit(1)


class Raises(Method):
    def predict(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")


class Watches(Observer):
    """Remembers what it was told, and may do something when a task starts."""

    def __init__(self, on_start=lambda method: None) -> None:
        self.notes, self.started_tasks, self.finished_tasks = [], [], []
        self.on_start = on_start

    def note(self, text):
        self.notes.append(text)

    def task_started(self, method, shift, seed):
        self.started_tasks.append((method, shift))
        self.on_start(method)

    def task_finished(self, method, shift, seed):
        self.finished_tasks.append((method.split(" on ")[0], shift))


@pytest.fixture(scope="module")
def clock_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("clock") / "clock.json"
    poisons = {f"{__name__}:{name}": (41, 1) for name in ("Poison", "Raises")}
    labels = {"Poison": (41, 1), "Raises": (41, 1)}
    load_profile(CLOCK | poisons | labels).save(path)
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


def run_ray(config: RunConfig, out: Path, observer: Observer | None = None) -> Run:
    with RunFolder.for_writing(out) as folder:
        run = Run(driver_job(config), folder, observer, partial(RayExecutor, config=config))
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


# -- order -------------------------------------------------------------------------------------------------


def test_longest_first_and_then_what_is_decoded_already(clock_file):
    job = build_job(configuration(clock_file))
    cost = {spec.label: rough_cost(job, spec, job.streams[0]) for spec in job.methods}
    assert cost["tent"] > 2 * cost["lame"] == 2 * cost["standard"]
    contrast, clean = job.streams
    short, long, longer = (
        Pending(job.methods[0], contrast, 4),
        Pending(job.methods[1], contrast, 5),
        Pending(job.methods[2], clean, 10),
    )
    assert pick([short, long, longer], None) is longer
    assert pick([short, long, longer], "contrast") is long
    assert pick([short, longer], "contrast") is longer


# -- the driver, with workers in this process --------------------------------------------------------------


class FakeRay:
    """As much of Ray as the driver uses, with workers in this process that answer when they are waited for."""

    class exceptions:
        class RayError(Exception): ...

        class RayTaskError(RayError):
            def __init__(self, cause: Exception) -> None:
                self.cause = cause

    def __init__(self, workers: int, kinds=(), dies=lambda what, given: False) -> None:
        self.kinds, self.dies, self.hired = kinds, dies, 0
        self._nodes = [{"Alive": True, "Resources": {"CPU": 1.0}}] * workers

    def nodes(self):
        return self._nodes

    def available_resources(self):
        return {"CPU": float(len(self._nodes))}

    def is_initialized(self) -> bool:
        return True

    def remote(self, actor):
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: self._hire(actor())))

    def _hire(self, worker):
        number, self.hired = self.hired, self.hired + 1

        def begin(config, profile, cores, search):
            about = worker.begin(config, profile, None, search)
            if not self.kinds:
                return about
            kind = self.kinds[number % len(self.kinds)]
            worker.worker._job = replace(worker.worker._job, machine_kind=kind)
            return replace(about, kind=kind, node=f"node{number}")

        return SimpleNamespace(
            begin=SimpleNamespace(remote=lambda *given: partial(self._answer, "begin", begin, *given)),
            do=SimpleNamespace(
                remote=lambda what, *given: partial(self._answer, what, partial(worker.do, what), *given)
            ),
        )

    def _answer(self, what, work, *given):
        if self.dies(what, given):
            raise self.exceptions.RayError
        try:
            return work(*given)
        except Exception as error:
            raise self.exceptions.RayTaskError(error) from None

    def wait(self, references, timeout):
        return references[:1], references[1:]

    def get(self, reference):
        return reference()

    def kill(self, actor) -> None: ...


def with_fake(monkeypatch, *arguments, **options) -> FakeRay:
    fake = FakeRay(*arguments, **options)
    monkeypatch.setattr(ray_cluster, "import_ray", lambda: fake)
    return fake


def test_a_driver_with_several_workers_writes_what_a_local_run_does(monkeypatch, clock_file, local, tmp_path):
    with_fake(monkeypatch, 2)
    run_ray(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local


def test_a_lost_worker_costs_only_its_task(monkeypatch, clock_file, local, tmp_path):
    deaths = iter([True])
    with_fake(monkeypatch, 2, dies=lambda what, given: what == "make" and next(deaths, False))
    watches = Watches()
    run_ray(configuration(clock_file), tmp_path / "run", watches)
    assert contents(tmp_path / "run") == local
    assert len(watches.started_tasks) == len(SHIFTS) * len(METHODS) + 1
    assert sorted(watches.finished_tasks) == sorted((m, s) for m in METHODS for s in SHIFTS)
    assert ["will be made again" in note for note in watches.notes] == [True]


def test_a_task_that_kills_every_worker_is_given_up_and_the_rest_goes_on(monkeypatch, clock_file, tmp_path):
    with_fake(monkeypatch, 2, dies=lambda what, given: given[:2] == ("tent", "clean"))
    run = run_ray(configuration(clock_file), tmp_path / "run")
    statuses = {(row["method"], row["shift"]): row["status"] for row in run.rows}
    assert statuses.pop(("tent", "clean")) == "failed: 3 workers died of it"
    assert set(statuses.values()) == {"ok"}
    assert run.failed == 4


def test_frozen_batches_of_a_failed_standard_fail_too(monkeypatch, clock_file, tmp_path):
    with_fake(monkeypatch, 1, dies=lambda what, given: given[:2] == ("standard", "clean"))
    run = run_ray(configuration(clock_file), tmp_path / "run")
    failed = {row["status"] for row in run.rows if row["method"] == "lame" and row["shift"] == "clean"}
    assert failed == {"ok", "failed: the Standard pass that holds its frozen batches failed"}


def test_a_task_that_raises_is_recorded_with_its_reason(monkeypatch, clock_file, tmp_path):
    with_fake(monkeypatch, 1)
    config = configuration(clock_file, methods=["standard", f"{__name__}:Raises"])
    run = run_ray(config, tmp_path / "run")
    raised = [row["status"] for row in run.rows if row["method"] != "standard"]
    assert raised == ["failed: ValueError: no"] * 8


def test_a_node_with_other_weights_is_sent_away(monkeypatch, clock_file, tmp_path):
    with_fake(monkeypatch, 1)
    config = configuration(clock_file)
    with RunFolder.for_writing(tmp_path / "run") as folder:
        executor = partial(RayExecutor, config=configuration(clock_file, batch_size=8))
        with pytest.raises(TemporaError, match=r"no worker .* other weights, data or versions"):
            Run(driver_job(config), folder, executor=executor).execute()


def test_a_stopped_run_resumes_and_a_finished_one_needs_no_cluster(monkeypatch, clock_file, local, tmp_path):
    with_fake(monkeypatch, 1)
    watches = Watches()
    watches.task_finished = lambda *_: setattr(watches, "stop_requested", True)
    with pytest.raises(Stopped):
        run_ray(configuration(clock_file), tmp_path / "run", watches)
    assert 0 < len(list((tmp_path / "run").glob("traces/*.parquet"))) < len(local) - 1
    run_ray(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local
    nobody = with_fake(monkeypatch, 0)
    run_ray(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local
    assert nobody.hired == 0


def test_a_local_run_goes_on_on_a_cluster(monkeypatch, clock_file, local, tmp_path):
    """Passes of a task that was under way are not made again."""
    run_local(configuration(clock_file), tmp_path / "run")
    for path in (tmp_path / "run" / "traces").glob("*tent--live*"):
        path.unlink()
    fake = with_fake(monkeypatch, 1)
    made = []
    fake.dies = lambda what, given: made.append((what, [r.identity["kind"] for r in given[4:5] for r in r]))
    run_ray(configuration(clock_file), tmp_path / "run")
    assert contents(tmp_path / "run") == local
    asked = [kinds for what, kinds in made if what == "make"]
    assert len(asked) == len(SHIFTS)
    assert all("offline" in kinds and "live" not in kinds for kinds in asked)


@pytest.mark.slow
def test_lambda_is_one_per_kind_of_device_and_every_worker_is_looked_at(monkeypatch, tmp_path):
    with_fake(monkeypatch, 2, kinds=["old GPU"])
    run_ray(configuration("measured"), tmp_path / "run")
    manifest = RunFolder(tmp_path / "run").manifest()
    assert list(manifest["baselines"]) == ["old GPU"]
    utilities = RunFolder(tmp_path / "run").utilities()
    assert utilities["baseline_ms"].nunique() == 1
    assert utilities["rank"].notna().all()
    run_ray(configuration("measured"), tmp_path / "run")
    assert RunFolder(tmp_path / "run").manifest()["baselines"] == manifest["baselines"]


def test_unlike_devices_are_not_timed_in_one_run(monkeypatch, tmp_path):
    with_fake(monkeypatch, 2, kinds=["old GPU", "new GPU"])
    with pytest.raises(TemporaError, match=r"unlike devices \(new GPU, old GPU\).*--clock steady"):
        run_ray(configuration("measured"), tmp_path / "run")


def test_unlike_devices_predict_in_one_run_that_says_so(monkeypatch, clock_file, local, tmp_path):
    with_fake(monkeypatch, 2, kinds=["one GPU", "another GPU"])
    watches = Watches()
    run_ray(configuration(clock_file), tmp_path / "run", watches)
    assert any("unlike devices (another GPU, one GPU)" in note for note in watches.notes)
    assert contents(tmp_path / "run") == local
    workers = RunFolder(tmp_path / "run").manifest()["workers"].values()
    assert {worker["kind"] for worker in workers} == {"one GPU", "another GPU"}


@pytest.mark.parametrize(
    ("changes", "nodes", "message"),
    [
        ({"device": "cuda:1"}, 1, "Ray hands out devices itself"),
        ({"device": "cuda"}, 1, "no node of the Ray cluster has a GPU"),
        ({"threads": 4}, 1, "no node of the Ray cluster has 4 cores"),
    ],
)
def test_what_the_cluster_does_not_have(monkeypatch, clock_file, tmp_path, changes, nodes, message):
    with_fake(monkeypatch, nodes)
    with pytest.raises(TemporaError, match=message):
        run_ray(configuration(clock_file, **changes), tmp_path / "run")


@pytest.mark.parametrize(
    ("nodes", "changes", "held", "workers"),
    [
        ([{"CPU": 16.0, "GPU": 8.0}, {"CPU": 64.0, "GPU": 4.0}, {"CPU": 32.0}], {}, (1, 2, None), 12),
        ([{"CPU": 8.0}, {"CPU": 4.0}, {"memory": 1e9}], {}, (0, 4, 4), 2),
        ([{"CPU": 8.0}, {"CPU": 3.0}], {"threads": 2}, (0, 3, 2), 2),
        ([{"CPU": 16.0, "GPU": 8.0}], {"device": "cpu"}, (0, 16, 16), 1),
    ],
)
def test_a_worker_holds_a_gpu_with_its_share_of_cores_or_a_node(nodes, changes, held, workers):
    config = configuration("measured", **{"device": "auto", "threads": None, **changes})
    cluster = [{"Alive": True, "Resources": resources} for resources in nodes]
    devices = Devices.of(config, [*cluster, {"Alive": False, "Resources": {"CPU": 1.0}}])
    assert (devices.gpus, devices.cpus, devices.cores) == held
    assert devices.count(cluster) == workers
    assert devices.job[0]["device"] == ("cuda" if held[0] else "cpu")
    assert devices.job[0]["threads"] == held[2]


def test_without_ray_the_error_says_what_to_install(monkeypatch, clock_file, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TemporaError, match=r"pip install 'tempora-tta\[ray\]'"):
        run_ray(configuration(clock_file), tmp_path / "run")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_said_at_once(monkeypatch, clock_file, scheme):
    monkeypatch.setattr(with_fake(monkeypatch, 1), "is_initialized", lambda: False)
    with socket.socket() as bound:  # and not listening: the port is nobody else's meanwhile
        bound.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(
            TemporaError, match=rf"--address {address}: no Ray .*`ray start --head`.*--address auto"
        ):
            ray_cluster.Cluster(configuration(clock_file), address, Observer()).hire(1)


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


@pytest.fixture
def connected(cluster):
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()


@pytest.mark.slow
def test_two_nodes_write_what_a_local_run_does(connected, clock_file, local, tmp_path):
    import ray

    def wait_for_the_other(method: str) -> None:
        """Workers take their time to start; one alone could have done all these small tasks."""
        asked = run._executor.cluster.asked.items()
        ray.wait([answer for answer, (_, what) in asked if what == "begin"] or [ray.put(None)], timeout=120)

    config = configuration(clock_file)
    with RunFolder.for_writing(tmp_path / "run") as folder:
        run = Run(
            driver_job(config), folder, Watches(wait_for_the_other), partial(RayExecutor, config=config)
        )
        finished(run)
    assert contents(tmp_path / "run") == local
    workers = RunFolder(tmp_path / "run").manifest()["workers"]
    assert [worker["tasks"] > 0 for worker in workers.values()] == [True, True]


@pytest.mark.slow
def test_a_killed_worker_costs_only_its_task(connected, clock_file, local, tmp_path):
    killed = []

    def kill_the_first(method: str) -> None:
        if not killed:
            killed.append(int(method.rpartition("/")[2]))
            os.kill(killed[0], signal.SIGKILL)

    watches = Watches(kill_the_first)
    run_ray(configuration(clock_file), tmp_path / "run", watches)
    assert contents(tmp_path / "run") == local
    assert sum("will be made again" in note for note in watches.notes) == 1
    assert len(watches.started_tasks) == len(SHIFTS) * len(METHODS) + 1


@pytest.mark.slow
def test_a_lost_node_costs_only_its_task(connected, clock_file, local, tmp_path):
    first = []

    def remove_a_node(method: str) -> None:
        if not first:
            first.append(method)
            connected.remove_node(next(iter(connected.worker_nodes)), allow_graceful=False)

    run_ray(configuration(clock_file), tmp_path / "run", Watches(remove_a_node))
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
def test_a_poisoned_task_is_recorded_and_skipped(connected, clock_file, tmp_path):
    config = configuration(
        clock_file, methods=["standard", f"{__name__}:Poison"], data={"shifts": ["clean"], "workers": 0}
    )
    run = run_ray(config, tmp_path / "run")
    statuses = {row["method"]: row["status"] for row in run.rows}
    assert statuses.pop("standard") == "ok"
    assert set(statuses.values()) == {"failed: 3 workers died of it"}


@pytest.mark.slow
def test_the_steady_clock_on_two_nodes(connected, tmp_path):
    """One of them records the profile; with it a local run writes the same bytes."""
    config = configuration("steady", profile_s=1.0)
    run_ray(config, tmp_path / "run")
    (tmp_path / "local").mkdir()
    shutil.copy(tmp_path / "run" / "profile.json", tmp_path / "local" / "profile.json")
    run_local(config, tmp_path / "local")
    assert contents(tmp_path / "run") == contents(tmp_path / "local")


@pytest.mark.slow
def test_measured_on_two_nodes(connected, tmp_path):
    run_ray(configuration("measured"), tmp_path / "run")
    manifest = RunFolder(tmp_path / "run").manifest()
    assert len(manifest["baselines"]) == 1
    assert manifest["baseline"] in manifest["baselines"].values()
    assert manifest["verdict"]["status"] in ("VALID", "WARN", "INVALID")
