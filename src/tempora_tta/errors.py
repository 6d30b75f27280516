"""The one error type for what a user can get wrong, and the wording helpers that go with it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TemporaError(Exception):
    """A mistake that the user can fix. The command line prints it without a traceback.

    The message says what was given, what is allowed and what to do.
    """

    about: str | None
    """The knob or setting that it is about, if it is about one: who read it from a file knows the line."""

    def __init__(self, message: str = "", *, about: str | None = None) -> None:
        super().__init__(message)
        self.about = about


class TemporaWarning(UserWarning):
    """Something is read or done as asked, but may not be what the user thinks. The command line prints it."""


def counted(number: int, thing: str) -> str:
    """
    >>> counted(1, "batch"), counted(3, "pass"), counted(0, "shift")
    ('1 batch', '3 passes', '0 shifts')
    """
    ending = "" if number == 1 else "es" if thing.endswith(("s", "ch")) else "s"
    return f"{number} {thing}{ending}"


def suggestion(given: str, allowed: Iterable[str]) -> str:
    """`did you mean 'tent'? Allowed: adabn, ...`: the tail of every unknown-name error.

    >>> suggestion("tnet", ["adabn", "tent"])
    "did you mean 'tent'? Allowed: adabn, tent"
    >>> suggestion("zzz", ["adabn", "tent"])
    'allowed: adabn, tent'
    """
    names = sorted(allowed)
    close = difflib.get_close_matches(given.lower(), [name.lower() for name in names], n=1)
    listing = ", ".join(names)
    if not close:
        return f"allowed: {listing}"
    match = next(name for name in names if name.lower() == close[0])
    return f"did you mean {match!r}? Allowed: {listing}"


def wrong(knob: str, value: object, must: str) -> TemporaError:
    """The error for a value that a knob does not take.

    >>> str(wrong("queue", -1, "must be 0 or above"))
    'queue=-1: must be 0 or above'
    """
    return TemporaError(f"{knob}={value!r}: {must}", about=knob)


def unknown(kind: str, given: str, allowed: Iterable[str], about: str | None = None) -> TemporaError:
    """The error for a name that does not exist, with the nearest one that does.

    >>> str(unknown("method", "tnet", ["adabn", "tent"]))
    "unknown method 'tnet': did you mean 'tent'? Allowed: adabn, tent"
    """
    return TemporaError(f"unknown {kind} {given!r}: {suggestion(given, allowed)}", about=about)
