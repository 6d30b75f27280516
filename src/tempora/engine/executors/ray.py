"""On a Ray cluster: one worker per whole device, one task at a time each, results into the driver's run folder.

A worker is a Ray actor that holds one GPU, or a fixed number of processor cores, for as long as it lives: it loads
the network once, keeps the shift it has decoded, and never shares its device while it times. The driver hands out
tasks, longest first, and is the only one that writes. A worker that is lost costs the task it had, which goes to
another; a task that raises, or that takes several workers down, becomes failed cells.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tempora.engine.config import RunConfig
from tempora.engine.executors.base import Executor, begun_baselines
from tempora.engine.executors.devices import Devices
from tempora.engine.executors.worker import Done, Introduction, PassRecord, job_fingerprint
from tempora.engine.job import Job, MethodSpec, StreamSource
from tempora.engine.observer import Observer
from tempora.engine.passes import Stopped
from tempora.engine.schedule import Pending, Tasks, pick, rough_cost
from tempora.engine.setup import job_from_config
from tempora.engine.task import OFFLINE, Task
from tempora.errors import TemporaError
from tempora.measure import Baseline, Verdict
from tempora.measure.verdict import Limits, judge
from tempora.store import Cell, RunFolder, StoredPass, pass_key

MOST_LOSSES = 3
"""Workers that one task may take down before it is given up."""
_LOOK_EVERY_S = 1.0


def driver_job(config: RunConfig, observer: Observer | None = None) -> Job:
    """The job as the driver needs it: on the processor, because devices belong to the workers."""
    job = job_from_config(config.model_copy(update={"device": "cpu"}), observer)
    return replace(job, facts={**job.facts, "config": config.model_dump(mode="json")})


@dataclass
class _Hand:
    """A worker as the driver sees it."""

    actor: Any
    about: Introduction | None = None
    median_ms: float | None = None
    task: Pending | None = None
    open_shift: str | None = None

    @property
    def kind(self) -> str:
        return self.about.kind if self.about else ""

    @property
    def node(self) -> str:
        return self.about.node if self.about else "a node"


class RayExecutor(Executor):
    """Hands the tasks of a run to the workers of a cluster."""

    def __init__(
        self,
        job: Job,
        folder: RunFolder,
        observer: Observer,
        *,
        config: RunConfig,
        address: str | None = None,
    ) -> None:
        super().__init__(job, folder, observer)
        self._ray = _import_ray()
        self._config = config
        self._address = address
        self._fingerprint = job_fingerprint(job)
        self._jobs: dict[str, Job] = {}
        """The job as each kind of device has it."""
        self._devices: Devices | None = None
        self._started_ray = False
        self._hands: list[_Hand] = []
        self._waiting_for: dict[Any, tuple[_Hand, str]] = {}
        """What each worker was asked, by the reference to its answer."""
        self._calibrating: _Hand | None = None
        self._broken: list[str] = []
        """Why workers could not begin; their places stay empty."""
        self._losses: Counter[str] = Counter()
        self._pending: list[Pending] = []
        self._workers: dict[str, dict[str, Any]] = {}

    # -- what a run asks -----------------------------------------------------------------------------------

    def start(self) -> Baseline:
        if self.job.baseline is not None:
            return self.job.baseline
        self.baselines = begun_baselines(self.folder)
        while not self.baselines:
            self._turn()
        return next(iter(self.baselines.values()))

    def cells(self, tasks: Tasks) -> Iterator[list[Cell]]:
        found: dict[StreamSource, list[Cell]] = {}
        missing: Counter[StreamSource] = Counter()
        for source, specs in tasks:
            found[source] = []
            for spec in specs:
                cells = self._cells_on_disk(spec, source)
                if cells is None:
                    self._pending.append(Pending(spec, source, rough_cost(self.job, spec, source)))
                    missing[source] += 1
                else:
                    found[source] += cells
                    self.observer.task_finished(spec.label, source.shift, source.seed)
        while True:
            for source in [source for source in found if not missing[source]]:
                yield self._with_frozen_batches(source, found.pop(source))
            if not found:
                return
            for task, cells in self._turn():
                found[task.source] += cells
                missing[task.source] -= 1

    def facts(self) -> dict[str, Any]:
        before = self.folder.manifest() if self.folder.has_manifest() else {}
        machines = [hand.about.machine for hand in self._hands if hand.about]
        machine = before.get("machine") if before.get("workers") else None
        return {
            **super().facts(),
            "executor": "ray",
            "workers": {**before.get("workers", {}), **self._workers},
            "machine": machine or (machines[0] if machines else self.job.facts["machine"]),
        }

    def verdict(self) -> Verdict:
        """Every worker's own standard inference against the lambda it was given."""
        limits = Limits()
        observed = {}
        for name, worker in self._workers.items():
            reference = self._baseline(worker["kind"]).median_ms if worker["median_ms"] else None
            if reference:
                drift = abs(worker["median_ms"] / reference - 1)
                sentence = f"standard inference on {name} is {drift:.0%} off lambda's"
                observed[name] = (drift, limits.drift, sentence)
        return judge(observed)

    def close(self) -> None:
        for hand in self._hands:
            self._ray.kill(hand.actor)
        self._hands.clear()
        self._waiting_for.clear()
        if self._started_ray:
            self._ray.shutdown()
            self._started_ray = False

    # -- what is there already -----------------------------------------------------------------------------

    def _cells_on_disk(self, spec: MethodSpec, source: StreamSource) -> list[Cell] | None:
        """The cells of a task whose passes are all there; None if one is missing."""
        for kind in dict.fromkeys(stored.identity["machine"] for stored in self._stored(spec, source)):
            if self._needs_calibration(kind):
                continue
            try:
                return self._task(spec, source, kind).cells()
            except _PassMissing:
                continue
        return None

    def _stored(self, spec: MethodSpec, source: StreamSource) -> list[StoredPass]:
        """The passes of a task that were made before, all of them or not."""
        wanted = {"method": spec.label, "shift": source.shift, "seed": source.seed}
        return [found for found in self.folder.passes().values() if wanted.items() <= found.identity.items()]

    def _task(self, spec: MethodSpec, source: StreamSource, kind: str) -> Task:
        """A task that finds passes and makes none."""

        def missing() -> Any:
            raise _PassMissing

        if kind not in self._jobs:
            self._jobs[kind] = replace(self.job, machine_kind=kind) if self.job.measured else self.job
        return Task(
            job=self._jobs[kind],
            spec=spec,
            source=source,
            baseline=self._baseline(kind),
            folder=self.folder,
            sentinel=None,
            observer=Observer(),
            open_stream=missing,
        )

    def _needs_calibration(self, kind: str) -> bool:
        return self.job.baseline is None and kind not in self.baselines

    def _baseline(self, kind: str) -> Baseline:
        return self.job.baseline or self.baselines.get(kind) or next(iter(self.baselines.values()))

    def _with_frozen_batches(self, source: StreamSource, cells: list[Cell]) -> list[Cell]:
        """A stateless method's frozen batches are Standard's; what Standard predicts, it predicts on every device."""
        passes = self.folder.passes()
        kinds = sorted({stored.identity["machine"] for stored in passes.values()})
        stand_in: dict[str | None, str] = {}
        for standard in (spec for spec in self.job.methods if spec.is_standard):
            identity = self.job.identity(standard, source, OFFLINE)
            keys = [pass_key({**identity, "machine": kind}) for kind in kinds]
            there = next((key for key in keys if key in passes), None)
            stand_in |= {key: there for key in keys if key not in passes and there is not None}
        return [replace(cell, frozen_pass=stand_in.get(cell.frozen_pass, cell.frozen_pass)) for cell in cells]

    # -- the cluster ---------------------------------------------------------------------------------------

    def _turn(self) -> list[tuple[Pending, list[Cell]]]:
        """Keep every worker busy, wait a moment, and take in what has come back."""
        if self.observer.stop_requested:
            raise Stopped
        self._hire()
        busy = {id(hand) for hand, _ in self._waiting_for.values()}
        for hand in self._hands:
            if id(hand) not in busy:
                self._employ(hand)
        if not self._waiting_for:
            time.sleep(_LOOK_EVERY_S)  # nodes may come back, or new ones join
            return []
        ready, _ = self._ray.wait(list(self._waiting_for), timeout=_LOOK_EVERY_S)
        finished = []
        for reference in ready:
            hand, asked = self._waiting_for.pop(reference)
            try:
                answer = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:
                finished += self._refused(hand, asked, error)
            except self._ray.exceptions.RayError:
                finished += self._lost(hand)
            else:
                finished += self._take(hand, asked, answer)
        return finished

    def _hire(self) -> None:
        """As many workers as the cluster has devices, and no more than there is work for."""
        if self._devices is None:
            self._connect()
        assert self._devices is not None
        wanted = self._devices.count(self._ray.nodes()) - len(self._broken)
        if wanted <= 0 and self._broken and not self._hands:
            raise TemporaError(f"no worker of the cluster can run this: {self._broken[-1]}")
        tasks = sum(hand.task is not None for hand in self._hands) + len(self._pending)
        for _ in range(min(wanted, max(tasks, 1)) - len(self._hands)):
            options = {"num_cpus": self._devices.cpus, "num_gpus": self._devices.gpus}
            actor = _actor(self._ray).options(**options, scheduling_strategy="SPREAD", max_restarts=0)
            hand = _Hand(actor.remote())
            self._hands.append(hand)
            search = [os.getcwd(), *sys.path]
            reference = hand.actor.begin.remote(*self._devices.job, self._devices.cores, search)
            self._waiting_for[reference] = hand, "begin"

    def _connect(self) -> None:
        if not self._ray.is_initialized():
            # Ray's own report of how it is used goes nowhere unless the user wants it to.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            local = {"include_dashboard": False} if self._address == "local" else {}
            try:
                self._ray.init(self._address, log_to_driver=False, logging_level="warning", **local)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise TemporaError(
                    f"--address {self._address}: no Ray cluster answers there ({error}); start one with "
                    "`ray start --head`, or use --address local"
                ) from None
            self._started_ray = True
        self._devices = Devices.of(self._config, self._ray.nodes())
        if not self._devices.count(self._ray.nodes()):
            raise TemporaError(f"no node of the Ray cluster has {self._devices.cpus} cores: use --threads 1")
        if not self._devices.any_free(self._ray.available_resources()):
            self.observer.note("all devices of the Ray cluster are in use; this run waits for one")

    def _employ(self, hand: _Hand) -> None:
        """Give an idle worker what is next for it: lambda first, then its own look at the device, then a task."""
        if self._needs_calibration(hand.kind):
            if self._calibrating is None:
                self._calibrating = hand
                self._ask(hand, "calibrate")
        elif self.job.measured and hand.median_ms is None:
            self._ask(hand, "median")
        elif self._pending:
            task = hand.task = pick(self._pending, hand.open_shift)
            self._pending.remove(task)
            hand.open_shift = task.source.shift
            self.observer.task_started(
                f"{task.spec.label} on {hand.node}", task.source.shift, task.source.seed
            )
            baseline = self._baseline(hand.kind)
            finished = [PassRecord.of(stored) for stored in self._stored(task.spec, task.source)]
            names = (task.spec.label, task.source.shift, task.source.seed)
            self._ask(hand, "make", *names, baseline, finished)

    def _ask(self, hand: _Hand, what: str, *arguments: Any) -> None:
        self._waiting_for[hand.actor.do.remote(what, *arguments)] = hand, what

    def _take(self, hand: _Hand, asked: str, answer: Any) -> list[tuple[Pending, list[Cell]]]:
        """An answer came: note it; if it is a finished task, put its passes on disk."""
        if asked == "begin":
            self._welcome(hand, answer)
        elif asked == "calibrate":
            self._calibrating = None
            self.baselines[hand.kind] = answer
            self._note_median(hand, answer.median_ms)
            self._note_mixture()
        elif asked == "median":
            self._note_median(hand, answer)
        else:
            return [self._finish(hand, answer)]
        return []

    def _welcome(self, hand: _Hand, about: Introduction) -> None:
        if about.fingerprint != self._fingerprint:
            self._dismiss(hand, f"{about.node} has other weights, data or versions than the driver")
            return
        hand.about = about
        if self.job.baseline is not None:
            self.baselines[about.kind] = self.job.baseline
        self._workers[hand.node] = {"kind": about.kind, "cores": about.cores, "median_ms": None, "tasks": 0}
        assert self._devices is not None
        if about.cores is None and self._devices.cores and self.job.measured:
            self.observer.note(f"{hand.node} has no cores to itself: other work may disturb its times")

    def _note_median(self, hand: _Hand, median_ms: float) -> None:
        hand.median_ms = self._workers[hand.node]["median_ms"] = median_ms

    def _note_mixture(self) -> None:
        if len(self.baselines) > 1:
            kinds = "; ".join(self.baselines)
            self.observer.note(f"this run mixes kinds of device ({kinds}): each has a lambda of its own")

    def _finish(self, hand: _Hand, done: Done) -> tuple[Pending, list[Cell]]:
        task = hand.task
        assert task is not None
        for record in done.passes:
            self.folder.write_pass(record.identity, record.trace, record.facts)
        self._workers[hand.node]["tasks"] += 1
        hand.task = None
        self.observer.task_finished(f"{task.spec.label} on {hand.node}", task.source.shift, task.source.seed)
        return task, done.cells

    def _lost(self, hand: _Hand) -> list[tuple[Pending, list[Cell]]]:
        """A worker died: its task goes to another, unless it has cost too many already."""
        self._release(hand)
        task = hand.task
        if task is None:
            self._losses["before any task"] += 1
            if self._losses["before any task"] > 2 * MOST_LOSSES:
                self._broken.append("workers die before they begin; see Ray's logs")
            return []
        self._losses[task.name] += 1
        if self._losses[task.name] < MOST_LOSSES:
            self.observer.note(f"lost the worker on {hand.node}; {task.name} will be made again")
            self._pending.append(task)
            return []
        return [self._give_up(hand, f"{MOST_LOSSES} workers died of it")]

    def _refused(self, hand: _Hand, asked: str, error: Exception) -> list[tuple[Pending, list[Cell]]]:
        """A worker raised: the task is recorded as failed, or the worker is no use and is let go."""
        cause = getattr(error, "cause", None) or error
        if asked == "make":
            return [self._give_up(hand, f"{type(cause).__name__}: {cause}")]
        self._dismiss(hand, str(cause))
        return []

    def _give_up(self, hand: _Hand, reason: str) -> tuple[Pending, list[Cell]]:
        task, hand.task = hand.task, None
        assert task is not None
        self.observer.note(f"{task.name} failed: {reason}")
        self.observer.task_finished(f"{task.spec.label} on {hand.node}", task.source.shift, task.source.seed)
        return task, self._task(task.spec, task.source, hand.kind).failed(reason)

    def _dismiss(self, hand: _Hand, reason: str) -> None:
        self.observer.note(f"a worker cannot take part: {reason}")
        self._broken.append(reason)
        self._release(hand)

    def _release(self, hand: _Hand) -> None:
        self._hands.remove(hand)
        self._ray.kill(hand.actor)
        if self._calibrating is hand:
            self._calibrating = None


def _actor(ray: Any) -> Any:
    """The actor class. It travels by value, so that its environment is settled before anything imports torch."""

    class TemporaWorker:
        def begin(
            self, config: dict[str, Any], profile: bytes | None, cores: int | None, search: list[str]
        ) -> Any:
            import os
            import sys

            # After all else: a method of the user's own is found where the driver finds it.
            sys.path.extend(place for place in search if place not in sys.path)
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            if cores is not None:
                os.environ["OMP_NUM_THREADS"] = str(cores)
            from tempora.engine.executors.worker import Worker

            self.worker = Worker(config, profile, cores)
            return self.worker.introduce()

        def do(self, what: str, *arguments: Any) -> Any:
            return getattr(self.worker, what)(*arguments)

    return ray.remote(TemporaWorker)


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise TemporaError("--executor ray needs Ray: pip install 'tempora[ray]'") from None
    return ray


class _PassMissing(Stopped):
    """A task on the driver found that a pass has yet to be made."""
