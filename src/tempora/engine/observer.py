"""Who watches a run: the command line draws progress, a notebook may do nothing."""

from __future__ import annotations

from tempora.store import Trace


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
