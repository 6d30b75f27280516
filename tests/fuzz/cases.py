"""A case is a target and a seed, nothing else: the same two make the same case, so one line reproduces a failure."""

from __future__ import annotations

import faulthandler
import os
import random
import re
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tempora_tta.errors import TemporaError

TIME_LIMIT_S = 60.0
"""Generous, since machines are shared: the slowest honest case takes a few seconds."""

Target = Callable[[random.Random], None]
"""Makes a case from random choices in an empty working folder, and raises if Tempora does not deserve to pass."""

RAW = re.compile(
    r"Traceback|\b(Key|Index|Attribute|Type|Value|Assertion|Recursion|Overflow|ZeroDivision|Unicode\w*|Runtime)Error\b"
    r"|Arrow(Invalid|TypeError|KeyError|NotImplementedError)|pydantic|object at 0x|<class '"
)
"""Signs of the inside of the program, which a user never sees."""


class Accepted(BaseException):
    """The command has understood everything and would now begin long work: good enough."""


class TookTooLong(BaseException):
    """A hang."""


@dataclass(frozen=True)
class Failure:
    """A case that did not pass, with the line that makes it again."""

    target: str
    seed: int
    reason: str

    def __str__(self) -> str:
        again = f"python tests/fuzz/run.py --target {self.target} --seed {self.seed} --cases 1"
        return f"{again}\n{self.reason}"


def run_case(name: str, target: Target, seed: int) -> Failure | None:
    """Run one case in a folder of its own; None: it passed."""
    try:
        with _empty_folder(), _time_limit(TIME_LIMIT_S), warnings.catch_warnings():
            target(random.Random(f"{name} {seed}"))
    except Accepted:
        return None
    except TemporaError as error:
        problem = unreadable(str(error))
        return Failure(name, seed, f"{problem}: {error}") if problem else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        return Failure(name, seed, traceback.format_exc())
    return None


def unreadable(message: str) -> str | None:
    """Return what is wrong with a message to a user, or None."""
    found = RAW.search(message)
    if found:
        return f"the message shows the inside of the program ({found[0]})"
    return "the message says nothing" if len(message.split()) < 3 else None


@contextmanager
def _empty_folder() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="tempora-fuzz-") as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Interrupt Python code after `seconds` of this process's own work, or ten times as many on the wall: a busy
    machine makes nothing hang. Code of libraries that never comes back ends the process, with a traceback.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise TookTooLong(f"more than {seconds:g} s of work, or {10 * seconds:g} s of waiting")

    timers = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, 10 * seconds),
    }
    before = {number: signal.signal(number, interrupt) for number in timers}
    for timer, limit in timers.values():
        signal.setitimer(timer, limit)
    faulthandler.dump_traceback_later(20 * seconds, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
