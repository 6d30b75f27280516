"""Clocks: a pass takes the time of every piece of work from the device, or from a profile.

The engine hands a piece of work to a clock and gets back its result and its milliseconds. Nothing else in Tempora
reads a clock while a pass runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import torch

from tempora_tta.config import PROVISION_X
from tempora_tta.errors import TemporaError
from tempora_tta.methods.apart import COLLECTED
from tempora_tta.timing.device import synchroniser
from tempora_tta.timing.profile import ANY_ACTION, STANDARD, Entry, Profile
from tempora_tta.timing.work import ADAPT, FROZEN, PREDICT, Kind, Piece, at_once

T = TypeVar("T")


class Clock(Protocol):
    @property
    def name(self) -> str:
        """`measured`, or the profile that the times come from; part of what decides a result."""

    @property
    def looks_up(self) -> bool:
        """Return whether times come from a profile, so that every batch has one in any order of computing."""

    def timed(self, work: Callable[[], T], piece: Callable[[T], Piece]) -> tuple[T, float]:
        """Do the work; return its result and its milliseconds. `piece` says afterwards what it was."""

    def residual(self, shift: str, seed: int, index: int) -> float:
        """The device's own factor on the times of a batch; NaN where the times hold it already."""


class MeasuredClock:
    """Times the device: both ends of every measurement wait until it has nothing left to do."""

    name = "measured"
    looks_up = False

    def __init__(self, device: torch.device) -> None:
        self._wait = synchroniser(device)

    def timed(self, work: Callable[[], T], piece: Callable[[T], Piece]) -> tuple[T, float]:
        return self.time(work)

    def time(self, work: Callable[[], T]) -> tuple[T, float]:
        self._wait()
        start = time.perf_counter_ns()
        result = work()
        self._wait()
        return result, (time.perf_counter_ns() - start) / 1e6

    def residual(self, shift: str, seed: int, index: int) -> float:
        return math.nan


class ProfileClock:
    """Does the work and looks its time up in a profile, by kind and amount.

    It keeps the entries that it used, because a pass depends on those alone, and the kinds of work that the profile
    has no time for.
    """

    looks_up = True

    def __init__(
        self, profile: Profile | None = None, provision_x: float | str = PROVISION_X, own: bool = True
    ) -> None:
        """`own`: of this machine, recorded when the run starts if it is None; else it came from a file."""
        self._profile = profile
        self.provision_x = provision_x
        self.own = own
        self.used: dict[str, str] = {}
        """By kind: the numbers that its times came from."""
        self.missing: dict[Kind, int] = {}
        """Kinds without a time, and the batch that first met each. They cost what their substitute does."""

    @property
    def name(self) -> str:
        if self._profile is None:
            return "steady"
        return f"{'steady' if self.own else 'recorded'}:{self._profile.id}"

    @property
    def recorded(self) -> bool:
        """Return whether there is a profile yet."""
        return self._profile is not None

    @property
    def profile(self) -> Profile:
        if self._profile is None:
            raise RuntimeError("the steady clock was asked for a time before its profile was recorded")
        return self._profile

    @profile.setter
    def profile(self, profile: Profile) -> None:
        self._profile = profile

    def begin(self) -> None:
        """Start a pass: nothing was used yet."""
        self.used, self.missing = {}, {}

    def still_holds(self, used: Mapping[str, str]) -> bool:
        """Return whether a pass that used these entries would find the same numbers today."""
        for text, numbers in used.items():
            try:
                kind = Kind.parse(text)
            except ValueError:  # of a file that was edited
                return False
            entry = self.profile.by_kind.get(kind) if numbers == _NOTHING else self._entry(kind)
            if numbers != (_NOTHING if entry is None else _numbers(entry)):
                return False
        return True

    def timed(self, work: Callable[[], T], piece: Callable[[T], Piece]) -> tuple[T, float]:
        result = work()
        return result, self.ms(piece(result))

    def ms(self, piece: Piece) -> float:
        """Milliseconds of a piece of work."""
        owner = piece.owner
        method = owner.label if owner.label in self.profile.methods else owner.name
        if piece.phase == FROZEN:
            as_standard = Kind(owner.frozen_as, PREDICT)
            return self._look_up(
                as_standard if as_standard in self.profile.by_kind else Kind(method, FROZEN), piece
            )
        mode = "" if self.profile.given else piece.mode
        kind = Kind(method, piece.phase, mode, piece.action)
        if not owner.reforwards or method in self.profile.reforwarded:
            return self._look_up(kind, piece)
        if piece.phase == ADAPT:  # all of it stands in the prediction
            return 0.0
        forward_ms = self._look_up(Kind(method, PREDICT, mode), piece)
        if piece.action == "none":
            return forward_ms
        return forward_ms + (self._look_up(kind._replace(phase=ADAPT), piece) + forward_ms)

    def residual(self, shift: str, seed: int, index: int) -> float:
        return self.profile.residuals.factor(shift, seed, index)

    def _look_up(self, kind: Kind, piece: Piece) -> float:
        owner, by_kind = piece.owner, self.profile.by_kind
        entry = by_kind.get(kind)
        no_step = owner.gradient_based and kind.action == "none"
        left_out = kind.phase == ADAPT and (no_step or kind.action == COLLECTED)
        if entry is None and not left_out:
            entry = by_kind.get(kind._replace(action=ANY_ACTION))
        if entry is None and kind.phase == ADAPT and not {kind.action, kind.mode}.isdisjoint(owner.free):
            self.used[str(kind)] = _NOTHING
            return 0.0
        if entry is None:
            entry = self._entry(kind)
            if entry is None and at_once(kind.mode):
                raise TemporaError(
                    f"the clock {self.profile.name!r} has no times for {kind.method!r} answering at once: let a run "
                    "with this scenario record it (--clock steady), or leave the scenario out"
                )
            if entry is None:
                raise TemporaError(
                    f"the clock {self.profile.name!r} has no times for {kind.method!r}; it has "
                    f"{', '.join(sorted(self.profile.methods))}: leave the method out, record it with tempora "
                    "profile, or give it another's times (times_as)"
                )
            if kind.phase != FROZEN and not self.profile.given and not at_once(kind.mode):
                self.missing.setdefault(kind, piece.batch)
        self.used.setdefault(str(kind), _numbers(entry))
        return entry.fit.at(piece.amount)

    def _entry(self, kind: Kind) -> Entry | None:
        """The kind's own entry, or its substitute; None: the profile has nothing of the method."""
        own = self.profile.by_kind.get(kind) or self.profile.by_kind.get(kind._replace(action=ANY_ACTION))
        if own is None and kind.phase == FROZEN:
            return self.profile.by_kind.get(Kind(STANDARD, PREDICT))
        return own or self.profile.substitute(kind)


_NOTHING = "nothing"


def _numbers(entry: Entry) -> str:
    """All that a time depends on, and whose it is."""
    return f"{entry.kind}: {entry.numbers}"
