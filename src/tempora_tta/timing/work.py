"""Kinds of work: what a time is a time of."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, get_args

from tempora_tta.methods.apart import AT_ONCE

Phase = Literal["predict", "adapt", "frozen"]
"""frozen: a prediction of the frozen model."""

PREDICT: Final = "predict"
ADAPT: Final = "adapt"
FROZEN: Final = "frozen"
PHASES: tuple[Phase, ...] = get_args(Phase)

Work = tuple[str, float | None]
"""What a method leaves in `work`: the mode it was in, and how much of what its time follows (None: of nothing)."""

NO_WORK: Work = ("", None)
NOT_LEARNING = "not learning"
"""The mode of a prediction that no adaptation will follow, where the method names none."""


def work_of(method: Any) -> Work:
    """Return what the method says about the work it has just done; said once, it is forgotten."""
    mode, amount = getattr(method, "work", None) or NO_WORK
    method.work = None
    if not mode and not method.learning:
        mode = NOT_LEARNING
    return str(mode), None if amount is None else float(amount)


def at_once(mode: str) -> str:
    """Return the mode, if it is that of answering frames at once and of learning from them; else nothing."""
    return mode if mode.startswith(AT_ONCE) else ""


class Kind(NamedTuple):
    """Method x phase x mode x action. Work of one kind takes one time, or one line over the amount."""

    method: str
    """As the run calls it."""
    phase: Phase
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
        method, named, mode, action = text.rsplit("|", 3)
        for phase in PHASES:
            if phase == named:
                return cls(method, phase, mode, action)
        raise ValueError(f"{named!r} is no phase of work")


class Owner(NamedTuple):
    """The method that did the work, as far as its times depend on it."""

    label: str
    """As the run calls it."""
    name: str
    """The method itself, whose times stand in for a variant's that the profile does not have."""
    frozen_as: str = ""
    """The method that a frozen one predicts like: Standard, if it is stateless."""
    free: tuple[str, ...] = ("none",)
    """Actions and modes that take no time worth counting, by the method's own declaration."""
    gradient_based: bool = False
    """Its action `none` is a step left out."""
    reforwards: bool = False
    """Its prediction holds the adaptation and a second forward."""


class Piece(NamedTuple):
    """One finished piece of work, as a clock looks it up."""

    owner: Owner
    phase: Phase
    batch: int
    mode: str = ""
    action: str = ""
    amount: float | None = None


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
