"""On this machine's cores: one process per core with a fixed number of threads, for passes that nobody times."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from tempora_tta.config import RunConfig
from tempora_tta.engine.executors.base import Executor
from tempora_tta.engine.executors.ray import RayExecutor
from tempora_tta.engine.executors.ray_cluster import Hand, Lost
from tempora_tta.engine.job import Job
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.own_profile import OwnProfile
from tempora_tta.engine.schedule import rough_cost
from tempora_tta.errors import TemporaError
from tempora_tta.store import RunFolder
from tempora_tta.timing import Baseline, ProfileClock

WORTH_IT = 2000
"""Batches of standard inference; a smaller job is done before other processes have begun."""
_LOOK_EVERY_S = 1.0


def cores_for(config: RunConfig, job: Job) -> int:
    """How many processes the job should have: 1 where one is as good, or where its own times are the answer."""
    if not isinstance(job.clock, ProfileClock) or job.device.type != "cpu":
        return 1
    if sum(rough_cost(job, spec, source) for spec in job.methods for source in job.streams) < WORTH_IT:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // (config.threads or 1))


class ProcessExecutor(RayExecutor):
    """Hands the tasks of a run to processes on this machine, as it would to the workers of a cluster."""

    def __init__(
        self, job: Job, folder: RunFolder, observer: Observer, *, config: RunConfig, processes: int
    ) -> None:
        super().__init__(job, folder, observer, config=config, cluster=Processes(config, processes))

    def _profile(self, clock: ProfileClock) -> Baseline:
        """Recorded before the first process starts, so that nothing of ours runs beside it."""
        return OwnProfile(self.job, clock, self.folder.path, self.observer).ready()

    def facts(self) -> dict[str, Any]:
        return Executor.facts(self)


class Processes:
    """The processes of a run, and what each was asked."""

    def __init__(self, config: RunConfig, processes: int) -> None:
        self._config = replace(config, threads=config.threads or 1)
        self._processes = processes
        self.hands: list[Hand] = []
        self.asked: dict[Any, tuple[Hand, str]] = {}
        self.broken: list[str] = []

    def hire(self, tasks: int) -> None:
        """As many as there are cores, and no more than there are tasks for."""
        context = multiprocessing.get_context("spawn")
        wanted = self._processes - len(self.broken)
        if wanted <= 0 and not self.hands:
            raise TemporaError(f"no process can begin: {self.broken[-1]}")
        for _ in range(min(wanted, max(tasks, 1)) - len(self.hands)):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self._config.plain()), daemon=True)
            process.start()
            theirs.close()
            hand = Hand((process, ours))
            self.hands.append(hand)
            self.asked[ours] = hand, "begin"

    def idle(self) -> list[Hand]:
        busy = {id(hand) for hand, _ in self.asked.values()}
        return [hand for hand in self.hands if id(hand) not in busy]

    def ask(self, hand: Hand, what: str, *arguments: Any) -> None:
        connection = _connection(hand)
        self.asked[connection] = hand, what
        connection.send((what, arguments))

    def answers(self) -> Iterator[tuple[Hand, str, Any]]:
        """Wait a moment: who answered what. An answer that is an exception was raised there; `Lost`: it died."""
        if not self.asked:
            time.sleep(_LOOK_EVERY_S)
            return
        for connection in wait(list(self.asked), timeout=_LOOK_EVERY_S):
            hand, asked = self.asked.pop(connection)
            try:
                answer = _connection(hand).recv()
            except (EOFError, OSError):
                answer = Lost()
            yield hand, asked, answer

    def release(self, hand: Hand) -> None:
        self.hands.remove(hand)
        process: BaseProcess = hand.actor[0]
        process.terminate()
        process.join()

    def close(self) -> None:
        for hand in list(self.hands):
            self.release(hand)
        self.asked.clear()


def _connection(hand: Hand) -> Connection:
    connection: Connection = hand.actor[1]
    return connection


def _serve(connection: Connection, config: dict[str, Any]) -> None:
    """In the process: begin, then answer until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run stops its processes itself
    from tempora_tta.engine.executors.worker import Worker

    try:
        worker = Worker(config, None)
        connection.send(worker.introduce())
        while True:
            what, arguments = connection.recv()
            try:
                connection.send(getattr(worker, what)(*arguments))
            except Exception as error:
                connection.send(error)
    except EOFError:
        pass
    except Exception as error:
        connection.send(error)
