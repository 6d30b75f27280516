"""Observers of a run: the command line draws progress, a hook tells another program, and a log has the rest.

Nothing here is called while a clock runs. What an observer does between batches costs the run that time and changes
no result.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partialmethod

from tempora_tta.store import Results, Trace

LOG = logging.getLogger("tempora_tta")


class Stopped(Exception):
    """The run was asked to stop; the pass under way is given up, finished ones stay."""


class Observer:
    """Told what the run does; this one logs what should be read. `stop_requested` ends the run after the batch."""

    stop_requested: bool = False

    def started(self, tasks: int, done: int) -> None:
        """The run begins; `done` of its tasks (method, shift, seed) were finished before."""

    def task_started(self, method: str, shift: str, seed: int) -> None: ...

    def pass_started(self, kind: str, batches: int) -> None:
        """A pass of at most `batches` batches begins; `kind` is offline, tail, live, calibration..."""

    def batch_done(self, trace: Trace | None, index: int) -> None:
        """A batch is through. No trace: it is not scored, as while decoding, calibrating or profiling."""

    def task_finished(self, method: str, shift: str, seed: int) -> None: ...

    def note(self, text: str) -> None:
        """Something the user should read."""
        LOG.info(text)

    def warn(self, text: str) -> None:
        """A problem the user must see, also where notes are not shown."""
        self.note(text)

    def finished(self, results: Results) -> None:
        """The run is done and all its tables are on disk. One that was stopped is not finished."""


class Notes(Observer):
    """Keeps what the user should read."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Together(Observer):
    """Several observers as one. The first is the user's; what goes wrong in another is noted there, no more."""

    def __init__(self, first: Observer, others: Sequence[Observer]) -> None:
        self._first = first
        self._others = others

    @property
    def stop_requested(self) -> bool:
        """Read again at every look."""
        return any(one.stop_requested for one in (self._first, *self._others))

    @stop_requested.setter
    def stop_requested(self, requested: bool) -> None:
        self._first.stop_requested = requested

    def _tell(self, what: str, *told: object) -> None:
        getattr(self._first, what)(*told)
        for other in self._others:
            try:
                getattr(other, what)(*told)
            except Exception as error:
                self._first.warn(f"{type(other).__name__} failed at {what}, and the run goes on: {error}")


for _event in (
    "started",
    "task_started",
    "pass_started",
    "batch_done",
    "task_finished",
    "note",
    "warn",
    "finished",
):
    setattr(Together, _event, partialmethod(Together._tell, _event))
