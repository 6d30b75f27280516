"""Progress of a run that Python code started: one line, drawn anew, on a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tempora_tta._plain_text import visible
from tempora_tta.engine.observer import Observer
from tempora_tta.store import Trace

DRAW_EVERY_S = 0.2
_WIDTH = 78


class OneLine(Observer):
    """Says what the run is at and about how long it will take; drawn between batches, while no clock runs."""

    def __init__(self, draw: Callable[[str], None]) -> None:
        self._draw = draw
        self._drawn = 0.0
        self._tasks = self._done = self._before = 0
        self._begin = time.monotonic()
        self._at = "setting up"

    def started(self, tasks: int, done: int) -> None:
        self._tasks, self._done, self._before = tasks, done, done
        self._begin = time.monotonic()

    def task_started(self, method: str, shift: str, seed: int) -> None:
        self._at = f"{shift} {method}"

    def pass_started(self, kind: str, batches: int) -> None:
        self._show(f"{self._at}: {kind}, {batches} batches", at_once=True)

    def batch_done(self, trace: Trace | None, index: int) -> None:
        self._show(f"{self._at}, batch {index + 1}")

    def task_finished(self, method: str, shift: str, seed: int) -> None:
        self._done += 1
        self._show(f"{shift} {method} done", at_once=True)

    def note(self, text: str) -> None:
        """Stays above the line."""
        self._draw("")
        print(f"note: {visible(text)}", file=sys.stderr)

    def _show(self, text: str, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._drawn > DRAW_EVERY_S:
            self._draw(visible(f"{self._counts(now)}{text}")[:_WIDTH])
            self._drawn = now

    def _counts(self, now: float) -> str:
        if not self._tasks:
            return ""
        here = self._done - self._before
        left_s = (now - self._begin) / here * (self._tasks - self._done) if here else None
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
    """The observer that was given; without one a line where somebody looks, which leaves nothing behind."""
    draw = (_in_notebook() or _on_terminal()) if observer is None and progress else None
    if draw is None:
        yield observer or Observer()
        return
    try:
        yield OneLine(draw)
    finally:
        draw("")


def _in_notebook() -> Callable[[str], None] | None:
    """A cell's output that is replaced. Only whoever runs in IPython has imported it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import Pretty, display

    handle: Any = display(Pretty(""), display_id=True)
    return lambda text: handle.update(Pretty(text))


def _on_terminal() -> Callable[[str], None] | None:
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return None

    def draw(text: str) -> None:
        stream.write(f"\r\x1b[K{text}")
        stream.flush()

    return draw
