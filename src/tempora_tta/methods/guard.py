"""The guard around every call into a method: whatever it does wrong fails the method, and changes no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tempora_tta._global_state import GlobalState
from tempora_tta.errors import TemporaError
from tempora_tta.methods.watchdog import TimedOut, time_limit


class Misbehaved(TemporaError):
    """A method did what none may; it is not that it refused a network or a setting."""


class MethodTimedOut(Misbehaved):
    """A call into a method took longer than the run allows."""


@dataclass(frozen=True)
class Guard:
    """`with guard("predict"): ...` around the clock, never inside it: nothing here is part of a measured time."""

    label: str
    """The method, as messages call it."""
    timeout_s: float | None = None
    """How long one call may take; None: for ever."""
    own_thread: bool = False
    """Look only at what no other thread can have changed meanwhile: in a service the others are at work, too."""

    @contextmanager
    def __call__(self, call: str) -> Iterator[None]:
        """Global state is put back after the call, and who changed it fails; so does who ends Python or hangs."""
        before = GlobalState.now(self.own_thread)
        try:
            with time_limit(self.timeout_s, f"{self.label}: {call}()"):
                yield
        except (Exception, KeyboardInterrupt):
            before.put_back()
            raise
        except TimedOut:
            before.put_back()
            raise MethodTimedOut(
                f"{self.label}: {call}() took longer than {self.timeout_s:g} s (method_timeout_s): give it more, or "
                "leave the method out"
            ) from None
        except BaseException as end:
            before.put_back()
            raise Misbehaved(
                f"{self.label}: {call}() tried to end Python ({type(end).__name__}: {end}): raise an error instead"
            ) from end
        if changed := before.put_back():
            raise Misbehaved(
                f"{self.label}: {call}() changed {', '.join(changed)}, under which every later method would run. It "
                "was put back; change it in a `with` block, or put it back before the call ends"
            )
