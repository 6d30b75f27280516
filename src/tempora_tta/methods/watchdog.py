"""Calls that never come back: stopped where Python can be stopped, and else the whole process is.

Nothing here wakes up while a call is on time, so that nothing disturbs what is being measured.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 1.0
"""A call that swallows the interruption is interrupted again."""
GRACE_S = 5.0
"""How long a call may ignore interruptions before the process is ended: it hangs in a library, not in Python."""


class TimedOut(BaseException):
    """Raised inside a call that has taken too long. No `except Exception` of a method's own stops it."""


@contextmanager
def time_limit(seconds: float | None, what: str) -> Iterator[None]:
    """Raise `TimedOut` in whatever takes longer; `what` it is, for the message if only ending the process helps."""
    if seconds is None:
        yield
        return
    begin = time.monotonic()
    _last_resort.begin(what, begin + seconds + GRACE_S)
    try:
        with _alarm(seconds):
            yield
    finally:
        _last_resort.end()
    if time.monotonic() - begin > seconds:  # where there are no alarms, or the call made nothing of them
        raise TimedOut


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """A signal of the operating system, for the main thread, where there is such a thing."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    armed, begin = True, time.monotonic()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if armed:
            raise TimedOut

    handler = signal.signal(signal.SIGALRM, interrupt)
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        try:
            yield
        finally:
            armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left_s:  # somebody else's alarm goes on
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left_s - (time.monotonic() - begin)), interval_s)


class _LastResort:
    """A thread that sleeps past the deadline of the call it began with, and ends the process if that one still runs.

    It works as long as the library that hangs lets other threads run, as torch's do.
    """

    def __init__(self) -> None:
        self._call: tuple[str, float] | None = None
        self._thread: threading.Thread | None = None

    def begin(self, what: str, deadline: float) -> None:
        self._call = (what, deadline)
        if self._thread is None or not self._thread.is_alive():
            main = threading.current_thread().ident
            self._thread = threading.Thread(target=self._watch, args=(main,), name="watchdog", daemon=True)
            self._thread.start()

    def end(self) -> None:
        self._call = None

    def _watch(self, watched: int) -> None:
        while (call := self._call) is not None:
            time.sleep(max(0.0, call[1] - time.monotonic()))
            if self._call is call:
                _end_process(call[0], sys._current_frames().get(watched))


_last_resort = _LastResort()


def _end_process(what: str, frame: FrameType | None) -> None:
    where = "".join(traceback.format_stack(frame, limit=4)) if frame else ""
    shown_again = "\x1b[?25h" if sys.__stderr__ and sys.__stderr__.isatty() else ""  # a progress bar hides it
    message = (
        f"{shown_again}\n{where}error: {what} takes longer than the method timeout and cannot be interrupted, "
        "because it hangs inside a library (above). The run ends here; everything finished is kept. Leave the method "
        "out, or give it more time\n"
    )
    os.write(2, message.encode("utf-8", "backslashreplace"))
    os._exit(1)
