"""Both ends of a profile: what a method with a history predicts if its times are off as far as they may be.

Doubt replays a pass under other times and takes the mean of its batches for those that it never served. A method that
learns would have been another one by then, so where timing leaves a winner open its contenders are run once more, at
the lower and at the upper end of the profile's error, and doubt takes the batches of whichever pass is nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from tempora_tta.data import Order, Streams
from tempora_tta.engine.job import Job
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.pass_maker import PassMaker
from tempora_tta.engine.task import Task
from tempora_tta.errors import counted
from tempora_tta.measure import Baseline, PacedClock, SteadyClock
from tempora_tta.store import RunFolder


class Contested(NamedTuple):
    """A method in a cell whose winner its times may decide: `tempora_tta.analysis.doubt` says which."""

    method: str
    shift: str
    seed: int
    scenario: int


class Ends:
    """Makes the passes at both ends, those that are not there yet, and says where they are, as run.json keeps it."""

    def __init__(self, job: Job, folder: RunFolder, baseline: Baseline, observer: Observer) -> None:
        self._job, self._folder, self._baseline, self._observer = job, folder, baseline, observer

    def made(self, cells: Iterable[Contested]) -> list[dict[str, Any]]:
        asked = list(self._with_a_course_of_their_own(cells))
        if not asked:
            return []
        self._observer.note(
            f"timing leaves winners open: {counted(len(asked), 'cell')} run again at both ends of the profile"
        )
        streams = Streams(self._job.open_stream)
        try:
            return [
                {**cell._asdict(), "model": self._job.model.name, "passes": self._both(cell, source, streams)}
                for cell, source in asked
            ]
        finally:
            streams.close()

    def _with_a_course_of_their_own(self, cells: Iterable[Contested]) -> Iterator[tuple[Contested, Order]]:
        """Those whose predictions depend on time: methods with a history where batches are lost, and any that looks
        at the clock. Where the stream waits, the passes there are say it."""
        streams = {(order.shift, order.seed): order for order in self._job.streams}
        specs = {spec.label: spec for spec in self._job.methods}
        for cell in dict.fromkeys(cells):
            source = streams.get((cell.shift, cell.seed))
            if source is None or cell.method not in specs or not self._error(cell.method):
                continue
            method = self._job.create(specs[cell.method], cell.seed)
            waits = self._job.scenarios[cell.scenario].deployment().waits
            if method.time_aware or not (method.history_free or waits):
                yield cell, source

    def _error(self, label: str) -> float:
        clock = self._job.clock
        spec = next(spec for spec in self._job.methods if spec.label == label)
        return clock.profile.uncertainty(spec.times_as or label) if isinstance(clock, SteadyClock) else 0.0

    def _both(self, cell: Contested, source: Order, streams: Streams) -> list[list[Any]]:
        """How many times as long its work took in each pass, and the pass."""
        assert isinstance(self._job.clock, SteadyClock)
        spec = next(spec for spec in self._job.methods if spec.label == cell.method)
        found = []
        for times_x in (1 - self._error(cell.method), 1 + self._error(cell.method)):
            task = Task(
                PassMaker(
                    job=replace(self._job, clock=PacedClock(self._job.clock, times_x)),
                    spec=spec,
                    source=source,
                    baseline=self._baseline,
                    folder=self._folder,
                    sentinel=None,
                    observer=self._observer,
                    open_stream=lambda: streams.open(source),
                )
            )
            found.append([times_x, task.live_pass(cell.scenario).key])
        return found
