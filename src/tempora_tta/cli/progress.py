"""Live progress of a run: a bar on a terminal, a line per task in a log, nothing when quiet.

Imported only by commands that run something, so it may import the engine.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tempora_tta._numbers import percent
from tempora_tta.cli.bar import Pace
from tempora_tta.cli.terminal import is_live, print_warning
from tempora_tta.engine import Observer
from tempora_tta.errors import counted
from tempora_tta.store import Trace

DRAW_EVERY_S = 0.1


class LiveProgress(Observer):
    """Shows shift, method, pass, batches per second, running accuracy and time left."""

    def __init__(self, console: Console, plain: bool = False, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._live = is_live(console) and not plain and not quiet
        self._progress = Progress(
            TextColumn("{task.description}", justify="left", style="bold", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=console,
            auto_refresh=False,  # a thread that draws would take its time from the batches that are timed
            transient=True,
            disable=not self._live,
        )
        self._all = self._progress.add_task("methods × shifts", total=None, rate="")
        self._one = self._progress.add_task("", total=None, rate="")
        self._title = "setting up"
        self._start = time.monotonic()
        self._pass_start = self._start
        self._pass = ""
        self._pass_batches = 0
        self._pace = Pace()
        self._drawn = 0.0

    def started(self, tasks: int, done: int) -> None:
        self._progress.update(self._all, total=tasks, completed=done)

    def task_started(self, method: str, shift: str, seed: int) -> None:
        self._title = f"{shift} {method}"

    def pass_started(self, kind: str, batches: int) -> None:
        self._pass_start = time.monotonic()
        self._pass, self._pass_batches = kind, batches
        self._progress.reset(self._one, total=batches, description=f"{self._title}: {kind}", rate="")
        self._draw()

    def batch_done(self, trace: Trace | None, index: int) -> None:
        if not self._live:
            if not self._quiet and self._pace.due():
                self._say(
                    f"{self._title}: {self._pass}, {index + 1} of {counted(self._pass_batches, 'batch')}"
                )
            return
        elapsed = max(time.monotonic() - self._pass_start, 1e-6)
        accuracy = ""
        if trace is not None and trace.served.any():
            accuracy = f", acc {percent(trace.accuracy[trace.served].mean())}"
        self._progress.update(
            self._one, completed=index + 1, rate=f"{(index + 1) / elapsed:.1f} batch/s{accuracy}"
        )
        self._draw()

    def task_finished(self, method: str, shift: str, seed: int) -> None:
        self._progress.advance(self._all)
        if not self._live and not self._quiet:
            self._say(f"{shift} {method} (seed {seed}) done")

    def _draw(self) -> None:
        """Between batches, while no clock runs."""
        if time.monotonic() - self._drawn > DRAW_EVERY_S:
            self._progress.refresh()
            self._drawn = time.monotonic()

    def _say(self, text: str) -> None:
        """A line for a log, with the seconds since the start."""
        elapsed = time.monotonic() - self._start
        self._console.print(f"{elapsed:7.1f} s  {text}", markup=False, soft_wrap=True)
        self._pace.printed()

    def note(self, text: str) -> None:
        if not self._quiet:
            self._console.print(Text.assemble(("note", "yellow"), f": {text}"))

    def warn(self, text: str) -> None:
        """Also when quiet, beside the output that others may read."""
        print_warning(text)

    @contextmanager
    def watching(self) -> Iterator[LiveProgress]:
        """Draw while the run lasts. Ctrl-C stops it at once: finished passes are on disk, the one under way is lost
        either way. A method that swallows the interruption is stopped after the batch."""

        def on_interrupt(number: int, frame: FrameType | None) -> None:
            self.stop_requested = True
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            with self._progress:
                yield self
        finally:
            signal.signal(signal.SIGINT, before)
