"""The guard around every call into a method: a mistake of the method fails it, and changes no other.

Nothing here wakes up while a call is on time, so that nothing disturbs what is being measured.
"""

from __future__ import annotations

import faulthandler
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tempora_tta._global_state import GlobalState
from tempora_tta.errors import TemporaError

AGAIN_S = 1.0
"""Seconds after which a call that swallows the interruption is interrupted again."""
GRACE_S = 5.0
"""Seconds for which a call may ignore interruptions; then the process ends: it hangs in a library, not in Python."""


class Misbehaved(TemporaError):
    """A method did what no method may; a refusal of a network or a setting is none of these."""


class MethodTimedOut(Misbehaved):
    """A call into a method took longer than the run allows."""


class TimedOut(BaseException):
    """Raised inside a call that has taken too long. No `except Exception` of a method's own stops it."""


@dataclass(frozen=True)
class Guard:
    """`with guard("predict"): ...` around the clock, never inside it: nothing here is part of a measured time."""

    label: str
    """The method, as messages call it."""
    timeout_s: float | None = None
    """Seconds that one call may take; None: no limit."""
    own_thread: bool = False
    """Look only at what no other thread can have changed meanwhile: in a service the others are at work, too."""

    @contextmanager
    def __call__(self, call: str) -> Iterator[None]:
        """Put global state back after the call, and fail a method that changed it, ended Python or hung."""
        before, called = GlobalState.now(self.own_thread), f"{self.label}: {call}()"
        try:
            with time_limit(self.timeout_s):
                yield
        except (Exception, KeyboardInterrupt):
            before.put_back()
            raise
        except TimedOut:
            before.put_back()
            raise MethodTimedOut(
                f"{called} took longer than {self.timeout_s:g} s (method_timeout_s): give it more, or leave the "
                "method out"
            ) from None
        except BaseException as end:
            before.put_back()
            raise Misbehaved(
                f"{called} tried to end Python ({type(end).__name__}: {end}): raise an error instead"
            ) from end
        if changed := before.put_back():
            raise Misbehaved(
                f"{called} changed {', '.join(changed)}, under which every later method would run. It was put back; "
                "change it in a `with` block, or put it back before the call ends"
            )


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimedOut` in what takes longer; end the process, with a trace of where it hangs, if that is ignored.

    The system's alarm reaches the main thread alone; in another a call is told that it was late when it returns.
    """
    if seconds is None:
        yield
        return
    begin, armed = time.monotonic(), True

    def interrupt(*_: Any) -> None:
        if armed:
            raise TimedOut

    if alarms := hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        handler = signal.signal(signal.SIGALRM, interrupt)
        left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    faulthandler.dump_traceback_later(seconds + GRACE_S, exit=True, file=2)
    try:
        try:
            yield
        finally:
            armed = False
    finally:
        faulthandler.cancel_dump_traceback_later()
        if alarms:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            if left_s:  # an alarm of the caller's own goes on
                left_s = max(0.001, left_s - (time.monotonic() - begin))
                signal.setitimer(signal.ITIMER_REAL, left_s, interval_s)
    if time.monotonic() - begin > seconds:
        raise TimedOut
