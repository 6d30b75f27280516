"""Places where tasks are made: in this process, or one on each core of this machine. `on_ray` adds a cluster.

A task goes to another process as the configuration of its job, so that nothing has to be pickled but plain records.
Its process keeps the job and the stream that it opened last, dies alone, and is the only one to lose its work.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import socket
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

from tempora_tta.config import checked
from tempora_tta.data import Streams
from tempora_tta.engine.build import build_job
from tempora_tta.engine.clocks import STEADY
from tempora_tta.engine.job import Job
from tempora_tta.engine.measured import calibrate, warm_up_all
from tempora_tta.engine.observer import Notes, Observer, Stopped
from tempora_tta.engine.own_profile import profiled_device
from tempora_tta.engine.pass_maker import PassMaker, PassMissing
from tempora_tta.engine.plan import rough_cost
from tempora_tta.engine.profile_child import profile_job
from tempora_tta.engine.task import OFFLINE, Task
from tempora_tta.errors import TemporaError, counted
from tempora_tta.store import Cell, RunFolder, StoredPass, Trace, pass_key
from tempora_tta.timing import Baseline, Profile, ProfileClock

WORTH_IT = 2000
"""Batches of standard inference; a smaller job is done before other processes have begun."""
_LOOK_EVERY_S = 1.0
DIED = "its process died, and twice more when it had one to itself"
NO_PROCESS = (
    "no process can begin: in a script that starts a run, ask `if __name__ == '__main__':` first, since each process "
    "imports the script; or give --threads the number of cores"
)


class Here:
    """Makes tasks, in this process: streams outside, methods inside, one stream open at a time. The run says which
    tasks, scores their cells, and writes the tables and the manifest."""

    def __init__(self, job: Job, folder: RunFolder | None, observer: Observer) -> None:
        self.job, self.observer = job, observer
        self.streams = Streams(job.open_stream)
        self.profiled_device: str | None = profiled_device(job)
        """The kind of device that a profile recorded here is of; None: that is not known yet."""

    def kind(self, begun: Iterable[str] = ()) -> str:
        """Name the one kind of device that times passes here; `begun`: of those that timed the folder's passes."""
        return self.job.machine_kind

    def calibrate(self) -> Baseline:
        """Measure lambda."""
        stream = self.streams.open(self.job.streams[0])
        warm_up_all(self.job, stream, self.observer)
        return calibrate(self.job, self.streams, self.observer)

    def profile(self, **what: Any) -> Profile:
        """Profile the methods with some `labels`, or add `missing` work to a `profile`."""
        return profile_job(self.job, self.observer, **what)

    def each(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, list[Cell]]]:
        """Yield the cells of tasks as they are done, their passes on disk.

        Stream by stream; its methods in any order, so that none always runs on the hot machine.
        """
        for source, group in groupby(tasks, lambda task: task.passes.source):
            together = list(group)
            random.Random(f"{source.shift} {source.seed}").shuffle(together)
            for task in together:
                self.observer.task_started(*task.name)
                cells = task.cells()
                self.observer.task_finished(*task.name)
                yield task, cells

    def facts(self) -> dict[str, Any]:
        """Say for run.json where the tasks were made."""
        return {}

    def close(self) -> None:
        """Let go of streams and processes, also after an error."""
        self.streams.close()


# -- tasks that other processes make -----------------------------------------------------------------------


@dataclass(frozen=True)
class PassRecord:
    """A finished pass on its way between processes."""

    identity: dict[str, Any]
    facts: dict[str, Any]
    trace: Trace

    @classmethod
    def of(cls, stored: StoredPass) -> PassRecord:
        return cls(stored.identity, stored.facts, stored.trace())


@dataclass(frozen=True)
class Asked:
    """A question to another process: of which job, and about which task if it is about one."""

    config: dict[str, Any]
    fingerprint: str
    """Of the job as the run sees it: other weights or data on another disk show here."""
    profile: Profile | None
    """That its clock looks times up in."""
    kind: str = ""
    """The kind of device that must make the task; empty: any."""
    task: tuple[str, str, int] = ("", "", 0)
    baseline: Baseline | None = None
    finished: Sequence[PassRecord] = ()
    """Passes of the task that are not made again."""


@dataclass(frozen=True)
class Made:
    """The cells of a task, and the passes that were made for them."""

    cells: list[Cell]
    passes: Sequence[PassRecord] = ()
    notes: Sequence[str] = ()
    kind: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """No cells, and the reason."""

    reason: str
    for_all: bool = False
    """Other tasks would fail for it too."""


Answer = Made | Failed | BaseException
"""Of another process; an error: it died."""


class Worker(Here):
    """A job in another process, made from its configuration."""

    def __init__(self, asked: Asked) -> None:
        self.config, self.asked = asked.config, asked
        super().__init__(build_job(checked(asked.config)), None, Notes())
        if job_fingerprint(self.job) != asked.fingerprint:
            raise TemporaError(
                f"{socket.gethostname()} has other weights, data or versions than the machine that hands out tasks"
            )

    def profile(self, *, profile: Profile | None = None, **what: Any) -> Profile:
        """A profile of another device gets nothing of this one."""
        if profile is not None and profile.device != self.profiled_device:
            return profile
        return super().profile(profile=profile, **what)

    def make(self) -> Made:
        """Make one task, in a folder of its own."""
        job, asked = self.job, self.asked
        if asked.kind not in ("", job.machine_kind):
            raise TemporaError(
                f"--clock measured on unlike devices ({asked.kind}, {job.machine_kind}): their times do not compare; "
                "use --clock steady, or devices of one kind and a folder of their own"
            )
        assert asked.baseline is not None
        label, shift, seed = asked.task
        spec = next(spec for spec in job.methods if spec.label == label)
        source = next(source for source in job.streams if (source.shift, source.seed) == (shift, seed))
        watching = Notes()
        with tempfile.TemporaryDirectory(prefix="tempora-") as place, RunFolder.for_writing(place) as folder:
            for record in asked.finished:
                folder.write_pass(record.identity, record.trace, record.facts)
            known = set(folder.passes())
            cells = Task(PassMaker(job, spec, source, asked.baseline, folder, watching, self.streams)).cells()
            made = [PassRecord.of(stored) for key, stored in folder.passes().items() if key not in known]
        return Made(cells, made, watching.notes, job.machine_kind, dict(job.machine))


_worker: Worker | None = None
"""Of this process, for the next task of the same run."""


def answer(asked: Asked, what: str = "make", **more: Any) -> Any:
    """Answer a question in a process that serves others: what a `Worker` is asked for."""
    global _worker
    try:
        if _worker is None or _worker.config != asked.config:
            _worker = Worker(asked)
        if asked.profile is not None and isinstance(_worker.job.clock, ProfileClock):
            _worker.job.clock.profile = asked.profile
        _worker.asked = asked
        return getattr(_worker, what)(**more)
    except TemporaError as error:
        return Failed(str(error), for_all=True)
    except Exception as error:
        return Failed(f"{type(error).__name__}: {error}", for_all=_worker is None)


def job_fingerprint(job: Job) -> str:
    """Hash all that decides the passes of a job, but for the device and the times."""
    identities = [job.identity(spec, source, OFFLINE) for spec in job.methods for source in job.streams]
    keys = [pass_key({**identity, "machine": "", "clock": ""}) for identity in identities]
    return hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:16]


class Elsewhere(Here):
    """Tasks that other processes make. What is on disk already is not made again, and needs none of them."""

    def __init__(self, job: Job, folder: RunFolder, observer: Observer) -> None:
        super().__init__(job, folder, observer)
        self.folder = folder

    def each(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, list[Cell]]]:
        missing = []
        for task in tasks:
            try:
                found = Task(replace(task.passes, streams=None))
                cells = found.cells() if self._finished(task) else None
            except PassMissing:
                cells = None
            if cells is None:
                missing.append(task)
            else:
                self.observer.task_finished(*task.name)
                yield task, cells
        for task, made in self.made(sorted(missing, key=lambda task: task.cost, reverse=True)):
            if isinstance(made, BaseException):
                made = Failed(f"{DIED} ({type(made).__name__})")
            if isinstance(made, Failed):
                if made.for_all:
                    raise TemporaError(made.reason)
                method, shift, seed = task.name
                self.observer.note(f"{method} on {shift} (seed {seed}) failed: {made.reason}")
                made = Made(task.failed(made.reason))
            for note in made.notes:
                self.observer.note(note)
            for record in made.passes:
                self.folder.write_pass(record.identity, record.trace, record.facts)
            self.observer.task_finished(*task.name)
            yield task, made.cells

    def made(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]:
        """Hand out tasks, longest first, and yield what comes back."""
        raise NotImplementedError

    def config(self) -> dict[str, Any]:
        """The configuration of the job for another process."""
        raise NotImplementedError

    def as_done(self, futures: dict[Future[Any], Task]) -> Iterator[tuple[Task, Answer]]:
        """Yield tasks as their answers come, until the run is asked to stop."""
        while futures:
            if self.observer.stop_requested:
                raise Stopped
            for future in wait(futures, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED).done:
                yield futures.pop(future), future.exception() or future.result()

    def asked(self, task: Task | None = None) -> Asked:
        """Return what another process has to know of the job, and of one task."""
        clock = self.job.clock
        profile = clock.profile if isinstance(clock, ProfileClock) and clock.recorded else None
        about_job = Asked(self.config(), self._fingerprint, profile)
        if task is None:
            return about_job
        passes = task.passes
        return replace(
            about_job,
            kind=passes.job.machine_kind if passes.job.measured else "",
            task=task.name,
            baseline=passes.baseline,
            finished=[PassRecord.of(stored) for stored in self._finished(task)],
        )

    def _finished(self, task: Task) -> list[StoredPass]:
        """The passes of a task that are on disk, all of them or not."""
        wanted = dict(zip(("method", "shift", "seed"), task.name, strict=True)).items()
        return [stored for stored in self.folder.passes().values() if wanted <= stored.identity.items()]

    @cached_property
    def _fingerprint(self) -> str:
        return job_fingerprint(self.job)


def config_for_others(job: Job, **changes: Any) -> dict[str, Any]:
    """The configuration of a job for another process, which need not see the clock's file."""
    values = replace(job.config, **changes).plain()
    if isinstance(job.clock, ProfileClock):
        values["clock"] = STEADY if job.clock.own else job.clock.profile.to_json()
    return values


# -- one process per core ----------------------------------------------------------------------------------


def cores_for(job: Job) -> int:
    """Return the number of processes for a job: 1 where one is as good, or where its own times are the answer."""
    if not isinstance(job.clock, ProfileClock) or job.device.type != "cpu":
        return 1
    if sum(rough_cost(job, spec, source) for spec in job.methods for source in job.streams) < WORTH_IT:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // (job.config.threads or 1))


class OnCores(Elsewhere):
    """Processes on this machine, each with a fixed number of threads, for passes that are not timed."""

    def __init__(self, job: Job, folder: RunFolder, observer: Observer, *, processes: int) -> None:
        super().__init__(job, folder, observer)
        self._processes = processes
        self._context = _Context()

    def config(self) -> dict[str, Any]:
        return config_for_others(self.job, threads=self.job.config.threads or 1)

    def made(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]:
        """A process that dies takes the pool with it. Each task that is left gets a fresh process, and those that are
        left then have all of the memory too."""
        if not tasks:
            return
        pool = self._pool(self._processes)
        try:
            pool.submit(os.getpid).result()
        except BrokenProcessPool:
            raise TemporaError(NO_PROCESS) from None
        left = yield from self._made_by(pool, answer, tasks)
        for at_once in (self._processes, 1):
            if left:
                self.observer.note(f"a process died; {counted(len(left), 'task')} made again in fresh ones")
                left = yield from self._made_by(ThreadPoolExecutor(at_once), self._alone, left)
        for task in left:
            yield task, Failed(DIED)

    def close(self) -> None:
        for process in self._context.started:
            if process.is_alive():
                process.terminate()

    def _made_by(
        self, executor: Executor, make: Callable[[Asked], Answer], tasks: Sequence[Task]
    ) -> Generator[tuple[Task, Answer], None, list[Task]]:
        """Yield what is made, and return the tasks whose process died."""
        died = []
        try:
            for task, made in self.as_done({executor.submit(make, self.asked(task)): task for task in tasks}):
                if isinstance(made, BrokenProcessPool):
                    died.append(task)
                else:
                    yield task, made
            executor.shutdown()  # nothing of ours runs on when more is profiled
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
        return died

    def _pool(self, processes: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(processes, self._context, _end_with_the_run)

    def _alone(self, asked: Asked) -> Answer:
        with self._pool(1) as pool:
            made: Answer = pool.submit(answer, asked).result()
        return made


def _end_with_the_run() -> None:
    """In a process that serves: not by Ctrl-C, which the run hears too, but when the run is gone, also killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        run = parent_process()
        if run is not None:
            run.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


class _Context(SpawnContext):
    """Starts fresh processes, and knows them."""

    def __init__(self) -> None:
        self.started: list[BaseProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> BaseProcess:  # type: ignore[override]
        self.started.append(super().Process(*args, **kwargs))
        return self.started[-1]
