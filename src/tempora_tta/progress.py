"""Progress: bars on a terminal, a line now and then in a log, one line in a notebook.

All of it is drawn between batches, while no clock runs, and by no thread, which would take its time from them.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from tempora_tta._numbers import percent
from tempora_tta._plain_text import visible
from tempora_tta.engine.observer import Observer
from tempora_tta.store import Trace

DRAW_EVERY_S, SAY_EVERY_S = 0.1, 30.0
"""Seconds between two drawings of a bar, and between two lines of a log."""
ALL = "methods × shifts"


class Progress(Observer):
    """Says what a run, a download or a check is at, and about how long it will take."""

    def __init__(
        self,
        console: Console,
        *,
        live: bool,
        quiet: bool = False,
        notebook: Callable[[str], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """`live`: what was printed can be drawn over. `notebook` replaces the one line that is shown there."""
        self._console, self._live, self._quiet, self._notebook = console, live and not quiet, quiet, notebook
        self._warn = warn or self.note
        self._bars = Bars(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[said]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=console,
            auto_refresh=False,
            transient=True,
            disable=not self._live,
        )
        self._rows: dict[str, Any] = {}
        self._start = self._begin = self._said = self._pass_begin = time.monotonic()
        self._drawn = 0.0
        self._tasks = self._done = self._batches = 0
        self._at, self._pass = "setting up", ""

    def show(self, what: str, done: int, total: int, more: str = "") -> None:
        """Say how much of something is done, and of how much: 0 if that is not known."""
        said = f"{percent(done / total, 0)}{more}" if total else f"{done:,}{more}"
        now, at_once = time.monotonic(), what not in self._rows
        if self._live:
            if at_once:
                self._rows[what] = self._bars.add_task(visible(what), said="")
            self._bars.update(self._rows[what], completed=done, total=total or None, said=said)
            if total and done >= total:
                self._forget(what)
        self._rows.setdefault(what, None)
        if now - self._drawn > DRAW_EVERY_S or at_once:
            self._drawn = now
            self._bars.refresh()
            if self._notebook is not None:
                self._notebook(visible(f"{self._left(now)}{what}, {said}"))
        if now - self._said > SAY_EVERY_S:
            self._say(f"{what}: {said} done")

    # -- a run ---------------------------------------------------------------------------------------------

    def started(self, tasks: int, done: int) -> None:
        self._tasks, self._done, self._begin = tasks, done, time.monotonic()
        self.show(ALL, done, tasks)

    def task_started(self, method: str, shift: str, seed: int) -> None:
        self._at = f"{shift} {method}"

    def pass_started(self, kind: str, batches: int) -> None:
        self._forget(self._pass)
        self._pass, self._batches, self._pass_begin = f"{self._at}: {kind}", batches, time.monotonic()
        self.show(self._pass, 0, batches)

    def batch_done(self, trace: Trace | None, index: int) -> None:
        rate = (index + 1) / max(time.monotonic() - self._pass_begin, 1e-6)
        more = f", {rate:.1f} batch/s"
        if trace is not None and trace.served.any():
            more += f", acc {percent(trace.accuracy[trace.served].mean())}"
        self.show(self._pass, index + 1, self._batches, more)

    def task_finished(self, method: str, shift: str, seed: int) -> None:
        self._done += 1
        self.show(ALL, self._done, self._tasks)
        if not self._live:
            self._say(f"{shift} {method} (seed {seed}) done")

    def note(self, text: str) -> None:
        if not self._quiet:
            self._console.print(Text.assemble(("note", "yellow"), f": {visible(text)}"))

    def warn(self, text: str) -> None:
        """Also when quiet."""
        self._warn(text)

    @contextmanager
    def watching(self) -> Iterator[Progress]:
        """Draw while the run lasts. Ctrl-C stops it at once: finished passes are on disk, the one under way is lost
        either way. A method that swallows the interruption is stopped after the batch."""

        def on_interrupt(number: int, frame: FrameType | None) -> None:
            self.stop_requested = True
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            with self.drawing():
                yield self
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def drawing(self) -> Iterator[Progress]:
        """Draw, and leave nothing behind."""
        try:
            with self._bars:
                yield self
        finally:
            if self._notebook is not None:
                self._notebook("")

    def _forget(self, what: str) -> None:
        if (row := self._rows.pop(what, None)) is not None:
            self._bars.remove_task(row)

    def _say(self, text: str) -> None:
        """A line for a log, with the seconds since the start."""
        self._said = time.monotonic()
        if not (self._live or self._quiet or self._notebook):
            elapsed = self._said - self._start
            self._console.print(f"{elapsed:7.1f} s  {text}", markup=False, soft_wrap=True)

    def _left(self, now: float) -> str:
        if not self._tasks:
            return ""
        left_s = (now - self._begin) / self._done * (self._tasks - self._done) if self._done else None
        about = "" if left_s is None else f", about {_duration(left_s)} left"
        return f"{self._done} of {self._tasks}{about}; "


def _duration(seconds: float) -> str:
    """
    >>> _duration(8.2), _duration(200)
    ('8 s', '3 min')
    """
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


@contextmanager
def watched(observer: Observer | None, progress: bool) -> Iterator[Observer]:
    """The observer that was given; without one, progress on a terminal or in a notebook."""
    console, notebook = Console(stderr=True, highlight=False, markup=False, emoji=False), _in_notebook()
    live = sys.stderr is not None and sys.stderr.isatty() and not console.is_dumb_terminal
    if observer is not None or not progress or not (live or notebook):
        yield observer or Observer()
        return
    with Progress(console, live=live and notebook is None, notebook=notebook).drawing() as shown:
        yield shown


def _in_notebook() -> Callable[[str], None] | None:
    """A cell's output that is replaced. Only a process that runs in IPython has imported it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import Pretty, display

    handle: Any = display(Pretty(""), display_id=True)
    return lambda text: handle.update(Pretty(text))
