"""Who watches a run: the command line draws progress, a notebook may do nothing, a hook tells another program.

Nothing here is called while a clock runs. What an observer does between batches costs the run that time and changes
no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partialmethod

from tempora_tta.store import Results, Trace


class Stopped(Exception):
    """Somebody asked the run to stop; the pass under way is given up, finished ones stay."""


class Observer:
    """Told what the run does; this one does not care. `stop_requested` ends the run after the batch."""

    stop_requested: bool = False

    def started(self, tasks: int, done: int) -> None:
        """The run begins; so many of its tasks (method, shift, seed) were finished before."""

    def task_started(self, method: str, shift: str, seed: int) -> None: ...

    def pass_started(self, kind: str, batches: int) -> None:
        """A pass of at most `batches` batches begins; `kind` is offline, tail, live, calibration..."""

    def batch_done(self, trace: Trace | None, index: int) -> None:
        """A batch is through. No trace: nobody scores it, as while decoding, calibrating or profiling."""

    def task_finished(self, method: str, shift: str, seed: int) -> None: ...

    def note(self, text: str) -> None:
        """Something the user should read."""

    def warn(self, text: str) -> None:
        """Something that went wrong, and that nobody would otherwise know of: said even where notes are not."""
        self.note(text)

    def finished(self, results: Results) -> None:
        """The run is done and all its tables are on disk. One that was stopped is not finished."""


class Together(Observer):
    """Several observers as one. The first is the user's; what goes wrong in another is noted there, no more."""

    def __init__(self, first: Observer, others: Sequence[Observer]) -> None:
        self._first = first
        self._others = others

    @property
    def stop_requested(self) -> bool:
        """Asked anew each time."""
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
