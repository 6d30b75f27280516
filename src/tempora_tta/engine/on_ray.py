"""On a Ray cluster: one task at a time on every whole device, with Ray's own retries, into the driver's run folder.

A task has a GPU with its share of the processors to itself, or a number of cores; one that is timed on processors has
a node. Ray keeps the processes, so that each loads the network once and keeps the shift that it decoded last.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tempora_tta.config import RunConfig
from tempora_tta.engine.build import build_job
from tempora_tta.engine.clocks import MEASURED
from tempora_tta.engine.job import Job
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.places import Answer, Elsewhere, Failed, Made, config_for_others
from tempora_tta.engine.predicting import check_predict_with
from tempora_tta.engine.runtime import EAGER
from tempora_tta.engine.task import Task
from tempora_tta.errors import TemporaError
from tempora_tta.store import RunFolder
from tempora_tta.timing import Baseline, Profile

LOCAL = "local"
"""The address of a cluster of this machine alone, for this run alone."""
_KNOCK_S = 5.0
"""How long a head may take to answer; Ray itself would try for minutes."""


def driver_job(config: RunConfig, observer: Observer | None = None) -> Job:
    """The job as the driver needs it: on the processor, because devices belong to the tasks."""
    job = build_job(replace(config, device="cpu", predict_with=None), observer)
    check_predict_with(config.predict_with or EAGER, None, job.measured)
    return replace(job, config=config)


class Share(NamedTuple):
    """A task's part of a cluster."""

    gpus: int
    cpus: int
    threads: int | None
    """None where the device is a GPU."""

    @classmethod
    def of(cls, config: RunConfig, nodes: Sequence[Mapping[str, Any]]) -> Share:
        """By the configuration and the nodes that are there; a cluster's head may have no processor to lend."""
        there = _resources(nodes)
        gpu_nodes = [node for node in there if node.get("GPU", 0) >= 1]
        kind = config.device
        if kind == "auto":
            kind = "cuda" if gpu_nodes else "cpu"
        if kind not in ("cuda", "cpu"):
            raise TemporaError(
                f"device={config.device!r}: Ray hands out devices itself; with --executor ray use auto, cuda or cpu"
            )
        if kind == "cuda":
            if not gpu_nodes:
                raise TemporaError("device='cuda': no node of the Ray cluster has a GPU; use --device cpu")
            return cls(1, max(1, min(int(node["CPU"] // node["GPU"]) for node in gpu_nodes)), None)
        whole = max((int(node["CPU"]) for node in there), default=1)
        if config.clock == MEASURED:  # it has the node to itself, and no smaller node takes part
            threads = config.threads or whole
            return cls(0, max(threads, whole), threads)
        threads = config.threads or 1
        return cls(0, threads, threads)

    def fits(self, resources: Mapping[str, float]) -> bool:
        return resources.get("CPU", 0) >= self.cpus and resources.get("GPU", 0) >= self.gpus


def _resources(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, float]]:
    return [node["Resources"] for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]


class OnRay(Elsewhere):
    """The devices of a cluster, which is asked when the first task has to be made."""

    def __init__(
        self, job: Job, folder: RunFolder, observer: Observer, *, address: str | None = None
    ) -> None:
        super().__init__(job, folder, observer)
        self.profiled_device = None
        if address == LOCAL:
            # Read when Ray is imported. It makes a cluster of one machine, on every system, listen on 127.0.0.1 only.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        self._ray = import_ray()
        self._address = address
        self._share: Share | None = None
        self._started_ray = False
        self._kinds: Counter[str] = Counter()
        """Tasks by kind of device."""
        self._machine: Mapping[str, Any] | None = None

    # -- what a run asks -----------------------------------------------------------------------------------

    def kind(self, begun: Iterable[str] = ()) -> str:
        known = list(begun)
        return known[0] if len(known) == 1 else str(self._ask("kind"))

    def calibrate(self) -> Baseline:
        found: Baseline = self._ask("calibrate")
        return found

    def profile(self, **what: Any) -> Profile:
        """One of the devices records it, while no task is made."""
        found: Profile = self._ask("profile", **what)
        return found

    def made(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]:
        if not tasks:
            return
        remote = self._remote()
        references = {task.name: remote(pickle.dumps((self.asked(task), "make", {}))) for task in tasks}
        futures = {references[task.name].future(): task for task in tasks}
        try:
            for task, made in self.as_done(futures):
                del references[task.name]
                if isinstance(made, Made):
                    self._note_device(made)
                yield task, made
        finally:
            for reference in references.values():
                self._ray.cancel(reference, force=True)

    def facts(self) -> dict[str, Any]:
        before: Mapping[str, Any] = self.folder.manifest() if self.folder.has_manifest() else {}
        earlier = before["machine"] if before.get("workers") else self.job.machine
        return {
            "workers": dict(self._kinds) or before.get("workers", {}),
            "machine": self._machine or earlier,
        }

    def close(self) -> None:
        if self._started_ray:
            self._ray.shutdown()
            self._started_ray = False

    def _note_device(self, made: Made) -> None:
        """Count the device that made a task: where times are looked up, any may predict."""
        self._machine = self._machine or made.machine
        if self._kinds and made.kind not in self._kinds:
            mixed = ", ".join(sorted({*self._kinds, made.kind}))
            self.observer.note(
                f"passes are made by unlike devices ({mixed}), whose predictions may differ a little"
            )
        self._kinds[made.kind] += 1

    # -- Ray -----------------------------------------------------------------------------------------------

    def _ask(self, what: str, **more: Any) -> Any:
        """Let one device answer."""
        answer = self._ray.get(self._remote()(pickle.dumps((self.asked(), what, more))))
        if isinstance(answer, Failed):
            raise TemporaError(answer.reason)
        return answer

    def _remote(self) -> Callable[[bytes], Any]:
        """A function that runs on one device. It travels by value and takes bytes, so that the environment is settled
        before its process imports torch."""
        share = self._share = self._share or self._connect()
        threads, search = share.threads, [os.getcwd(), *sys.path]

        def answer(question: bytes) -> Any:
            # After all else: a method of the user's own is found where the driver finds it.
            sys.path.extend(place for place in search if place not in sys.path)
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            if threads is not None:
                os.environ["OMP_NUM_THREADS"] = str(threads)
            from tempora_tta.engine import places

            asked, what, more = pickle.loads(question)
            return places.answer(asked, what, **more)

        # By default Ray ends a process that had a GPU after each task.
        function = self._ray.remote(max_calls=0, max_retries=2)(answer)
        held = {"num_cpus": share.cpus, "num_gpus": share.gpus, "scheduling_strategy": "SPREAD"}
        remote: Callable[[bytes], Any] = function.options(**held).remote
        return remote

    def config(self) -> dict[str, Any]:
        """The configuration with whole paths, on the device that a task has."""
        assert self._share is not None
        device = "cuda" if self._share.gpus else "cpu"
        values = config_for_others(self.job, device=device, threads=self._share.threads)
        for holder, name in ((values, "checkpoint"), (values["data"], "root"), (values["data"], "cache_dir")):
            if holder[name] is not None:
                holder[name] = str(Path(holder[name]).expanduser().absolute())
        return values

    def _connect(self) -> Share:
        if not self._ray.is_initialized():
            # Ray's own report of how it is used goes nowhere unless the user wants it to.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            _knock(self._address)
            local = {"include_dashboard": False} if self._address == LOCAL else {}
            try:
                self._ray.init(self._address, log_to_driver=False, logging_level="warning", **local)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise _no_cluster(self._address, error) from None
            self._started_ray = True
            if self._address == LOCAL:
                self._note_open_doors()
        nodes = self._ray.nodes()
        share = Share.of(self.job.config, nodes)
        if not any(share.fits(node) for node in _resources(nodes)):
            raise TemporaError(f"no node of the Ray cluster has {share.cpus} cores: use --threads 1")
        if not share.fits(self._ray.available_resources()):
            self.observer.note("all devices of the Ray cluster are in use; this run waits for one")
        return share

    def _note_open_doors(self) -> None:
        """Ray that was imported before it could be told otherwise listens on every interface."""
        reachable = sorted({str(node["NodeManagerAddress"]) for node in self._ray.nodes()} - {"127.0.0.1"})
        if reachable:
            self.observer.note(
                f"Ray listens on {', '.join(reachable)} too, because it was imported before: anyone who reaches its "
                "ports can run code here. Use a firewall, or a fresh process"
            )


def _knock(address: str | None) -> None:
    """Make sure that a cluster listens at HOST:PORT, or ray://HOST:PORT. Other addresses (auto, local) name none."""
    found = re.fullmatch(r"(?:ray://)?\[?([^/\[\]]+)\]?:(\d+)", address or "")
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=_KNOCK_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str | None, error: Exception) -> TemporaError:
    return TemporaError(
        f"--address {address}: no Ray cluster answers there ({error}); start one with `ray start --head` and name "
        "the address that it prints, use --address auto on a node of a running cluster, or --address local"
    )


def import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise TemporaError("--executor ray needs Ray: pip install 'tempora-tta[ray]'") from None
    return ray
