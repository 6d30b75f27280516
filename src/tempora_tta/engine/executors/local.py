"""In this process: shifts outside, methods inside, one stream open at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache

from tempora_tta.data import Order, Streams
from tempora_tta.engine.executors.base import Executor, begun_baselines
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.engine.measured import Drift, calibrate, warm_up_all
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.own_profile import OwnProfile
from tempora_tta.engine.pass_maker import PassMaker
from tempora_tta.engine.schedule import Tasks
from tempora_tta.engine.task import Task
from tempora_tta.store import Cell, RunFolder
from tempora_tta.timing import Baseline, ProfileClock


class LocalExecutor(Executor):
    """One task after the other on this machine's device."""

    def __init__(self, job: Job, folder: RunFolder, observer: Observer) -> None:
        super().__init__(job, folder, observer)
        self._streams = Streams(job.open_stream)
        clock = job.clock
        self._profile: OwnProfile | None = None
        if isinstance(clock, ProfileClock) and clock.own:
            self._profile = OwnProfile(job, clock, folder.path, observer)

    def start(self) -> Baseline:
        if self._profile is not None:
            steady = self._profile.ready()
            self.baselines = {self.job.machine_kind: self.job.baseline or steady}
            return self.baselines[self.job.machine_kind]
        baseline = self.job.baseline or begun_baselines(self.job, self.folder).get(self.job.machine_kind)
        if baseline is None:
            stream = self._streams.open(self.job.streams[0])
            warm_up_all(self.job, stream, self.observer)
            baseline = calibrate(self.job, stream, self.observer)
        self.baselines = {self.job.machine_kind: baseline}
        return baseline

    def cells(self, tasks: Tasks) -> Iterator[list[Cell]]:
        (baseline,) = self.baselines.values()
        for source, specs in tasks:
            yield from self._stream_cells(source, specs, baseline)

    def close(self) -> None:
        self._streams.close()

    def _stream_cells(
        self, source: Order, specs: Sequence[MethodSpec], baseline: Baseline
    ) -> Iterator[list[Cell]]:
        """The cells of one stream, task by task, in any order: no method shall always run on the hot machine."""
        order = list(specs)
        random.Random(f"{source.shift} {source.seed}").shuffle(order)

        @cache  # made with the first pass: a resumed run may need none, and no stream
        def drift() -> Drift:
            return Drift(self.job, self._streams.open(source), baseline)

        for spec in order:
            self.observer.task_started(spec.label, source.shift, source.seed)
            task = Task(
                PassMaker(
                    job=self.job,
                    spec=spec,
                    source=source,
                    baseline=baseline,
                    folder=self.folder,
                    drift=drift if self.job.measured else None,
                    observer=self.observer,
                    open_stream=lambda: self._streams.open(source),
                    learn=self._profile.learn if self._profile else None,
                )
            )
            cells = task.cells()
            self.observer.task_finished(spec.label, source.shift, source.seed)
            yield cells
