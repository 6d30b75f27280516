"""Kinds of work: what a time is a time of."""

from __future__ import annotations

from typing import Any, NamedTuple

PREDICT, ADAPT, FROZEN = "predict", "adapt", "frozen"
PHASES = (PREDICT, ADAPT, FROZEN)

Work = tuple[str, float | None]
"""What a method leaves in `work`: the mode it was in, and how much of what its time follows (None: of nothing)."""

NO_WORK: Work = ("", None)
NOT_LEARNING = "not learning"
"""The mode of a prediction that no adaptation will follow, where the method names none."""


def work_of(method: Any) -> Work:
    """What the method says about the work it has just done; said once, it is forgotten."""
    mode, amount = getattr(method, "work", None) or NO_WORK
    method.work = None
    if not mode and not method.learning:
        mode = NOT_LEARNING
    return str(mode), None if amount is None else float(amount)


class Kind(NamedTuple):
    """Method x phase x mode x action. Work of one kind takes one time, or one line over the amount."""

    method: str
    """As the run calls it."""
    phase: str
    """predict or adapt; frozen: a prediction of the frozen model."""
    mode: str = ""
    action: str = ""
    """What adapt() did, or a prediction that holds the adaptation; empty for the others."""

    def __str__(self) -> str:
        return "|".join(self)

    @classmethod
    def parse(cls, text: str) -> Kind:
        """
        >>> Kind.parse(str(Kind("tent", "adapt", "", "step"))) == Kind("tent", "adapt", "", "step")
        True
        """
        method, phase, mode, action = text.rsplit("|", 3)
        return cls(method, phase, mode, action)


class Sample(NamedTuple):
    """One timed piece of work."""

    kind: Kind
    round: int
    shift: str
    ms: float
    """What counts: processor time of one thread, or the time of the device."""
    wall_ms: float
    amount: float | None = None
    place: int = 0
    """Which of the profiled batches: the work at one place is the same every time."""
