"""Progress of what is neither a run nor quick: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from tempora_tta._numbers import percent
from tempora_tta.cli.terminal import is_live

if TYPE_CHECKING:
    from rich.console import Console

EVERY_S = 30.0
"""A log says at least this often that something is going on, and hardly more often."""

Show = Callable[[str, int, int], None]
"""Of what, how much is done, and of how much: 0 if nobody knows."""


class Pace:
    """Says when a log is due another line."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self._last < EVERY_S:
            return False
        self.printed()
        return True

    def printed(self) -> None:
        self._last = time.monotonic()


@contextmanager
def progress(console: Console, resumes: bool = False) -> Iterator[Show]:
    """What to call with each step. `resumes`: the same command goes on where Ctrl-C stopped it, which is said."""
    try:
        with _bars(console) if is_live(console) else _lines(console) as show:
            yield show
    except KeyboardInterrupt:
        if not resumes:
            raise
        console.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None


@contextmanager
def _bars(console: Console) -> Iterator[Show]:
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True) as bars:

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what)
            bars.update(tasks[what], completed=done, total=total or None, visible=done < (total or done + 1))

        yield show


@contextmanager
def _lines(console: Console) -> Iterator[Show]:
    pace = Pace()

    def show(what: str, done: int, total: int) -> None:
        if pace.due():
            console.print(
                f"{what}: {percent(done / total, 0)} done" if total else f"{what}: {done:,} done",
                markup=False,
            )

    yield show
