"""Where a pass gets its times from: the device, or a profile recorded before it.

The engine hands each piece of work to a clock and gets back its result and how long it took. Nothing else in
Tempora reads a clock while a pass runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

import torch

from tempora_tta.errors import TemporaError
from tempora_tta.measure.device import synchroniser
from tempora_tta.measure.process import page_faults
from tempora_tta.measure.profile import Profile
from tempora_tta.measure.steady import PROVISION_X, STANDARD, Entry, SteadyProfile
from tempora_tta.measure.work import ADAPT, FROZEN, NO_WORK, PREDICT, Kind, Work

T = TypeVar("T")


class Batch(NamedTuple):
    """Which batch a time belongs to. A recorded time depends on this and the action, on nothing else."""

    method: str
    """As the run calls it."""
    name: str
    """The method itself, whose times stand in for a variant's that were not recorded."""
    shift: str
    seed: int
    index: int  # type: ignore[assignment]
    gradient_based: bool = False
    """Its action `none` is a step left out, which costs nothing unless it was recorded."""
    reforwarded: Callable[[], str] | None = None
    """Of a method whose prediction holds the adaptation and a second forward: what it just did."""
    work: Callable[[], Work] = lambda: NO_WORK
    """The mode and amount of the work just done."""
    frozen_as: str = ""
    """Whose prediction a frozen one of it is: Standard's, if it is stateless."""
    free: tuple[str, ...] = ("none",)
    """Actions and modes that take no time worth counting, by the method's own word."""


class Clock(Protocol):
    @property
    def name(self) -> str:
        """`measured`, or where the recorded times come from; part of what decides a result."""

    @property
    def fills_tails(self) -> bool:
        """Whether frozen batches whose times nobody needs get them all the same, since they cost nothing."""

    def predict(self, work: Callable[[], T], batch: Batch, frozen: bool) -> tuple[T, float]:
        """Run `work`, which predicts a batch; its result and its milliseconds."""

    def adapt(self, work: Callable[[], str], batch: Batch) -> tuple[str, float]:
        """Run `work`, which adapts on a batch; the action it took and its milliseconds."""

    def faults(self) -> int:
        """Page faults so far, -1 under a recorded clock."""

    def residual(self, shift: str, seed: int, index: int) -> float:
        """The device's own factor on the times of a batch; NaN where they hold it already."""


class MeasuredClock:
    """Times the device: both ends of every measurement wait until it has nothing left to do."""

    name = "measured"
    fills_tails = False

    def __init__(self, device: torch.device) -> None:
        self._wait = synchroniser(device)

    def predict(self, work: Callable[[], T], batch: Batch, frozen: bool) -> tuple[T, float]:
        return self.time(work)

    def adapt(self, work: Callable[[], str], batch: Batch) -> tuple[str, float]:
        return self.time(work)

    def time(self, work: Callable[[], T]) -> tuple[T, float]:
        self._wait()
        start = time.perf_counter_ns()
        result = work()
        self._wait()
        return result, (time.perf_counter_ns() - start) / 1e6

    def faults(self) -> int:
        return page_faults()

    def residual(self, shift: str, seed: int, index: int) -> float:
        return math.nan


class RecordedClock:
    """Runs the work and draws its time from a profile's samples: of files that tempora once wrote, and published."""

    fills_tails = False

    def __init__(self, profile: Profile) -> None:
        self.name = f"recorded:{profile.fingerprint}"
        self.profile = profile

    def predict(self, work: Callable[[], T], batch: Batch, frozen: bool) -> tuple[T, float]:
        method, where = self._recorded(batch), (batch.shift, batch.seed, batch.index)
        result, predict_ms = work(), self.profile.predict_ms(method, frozen, *where)
        action = batch.reforwarded() if batch.reforwarded and self._from_plain(batch) else "none"
        if action != "none":
            predict_ms += self.profile.adapt_ms(method, action, *where) + predict_ms
        return result, predict_ms

    def adapt(self, work: Callable[[], str], batch: Batch) -> tuple[str, float]:
        action = work()
        method, where = self._recorded(batch), (batch.shift, batch.seed, batch.index)
        left_out = action == "none" and batch.gradient_based and "none" not in self.profile.actions(method)
        if left_out or (batch.reforwarded and self._from_plain(batch)):
            return action, 0.0
        return action, self.profile.adapt_ms(method, action, *where)

    def _recorded(self, batch: Batch) -> str:
        return batch.method if batch.method in self.profile.methods else batch.name

    def _from_plain(self, batch: Batch) -> bool:
        """Whether a reforwarded method's times have to be put together from those of the plain one."""
        return not self.profile.methods[self._recorded(batch)].reforward

    def faults(self) -> int:
        return -1

    def residual(self, shift: str, seed: int, index: int) -> float:
        return math.nan


class SteadyClock:
    """Runs the work and looks its time up by kind and amount in a steady profile.

    It keeps account of the entries that it used, because a pass depends on those alone, and of the kinds of work that
    the profile has no time for.
    """

    fills_tails = True

    def __init__(
        self, profile: SteadyProfile | None = None, provision_x: float | str = PROVISION_X, own: bool = True
    ) -> None:
        """`own`: of this machine, recorded when the run starts if it is None; else it came from a file."""
        self._profile = profile
        self.provision_x = provision_x
        self.own = own
        self.used: dict[str, str] = {}
        """By kind: the numbers that its times came from."""
        self.unknown: dict[Kind, int] = {}
        """Kinds without a time, and the batch that first met each. They cost what their stand-in does."""

    @property
    def name(self) -> str:
        if self._profile is None:
            return "steady"
        return f"{'steady' if self.own else 'recorded'}:{self._profile.id}"

    @property
    def recorded(self) -> bool:
        """Whether there is a profile yet."""
        return self._profile is not None

    @property
    def profile(self) -> SteadyProfile:
        if self._profile is None:
            raise RuntimeError("the steady clock was asked for a time before its profile was recorded")
        return self._profile

    @profile.setter
    def profile(self, profile: SteadyProfile) -> None:
        self._profile = profile

    def begin(self) -> None:
        """A new pass: nothing was used yet."""
        self.used, self.unknown = {}, {}

    def still_holds(self, used: Mapping[str, str]) -> bool:
        """Whether a pass that used these entries would find the same numbers today."""
        for text, numbers in used.items():
            try:
                kind = Kind.parse(text)
            except ValueError:  # of a file that somebody has edited
                return False
            if numbers == _NOTHING:
                if kind in self.profile.by_kind:
                    return False
                continue
            entry = self._found(kind)
            if entry is None or _numbers(entry) != numbers:
                return False
        return True

    def predict(self, work: Callable[[], T], batch: Batch, frozen: bool) -> tuple[T, float]:
        result = work()
        if frozen:
            return result, self._look_up(self._frozen_kind(batch), batch, None)
        mode, amount = batch.work()
        method = self._method(batch)
        if batch.reforwarded is None:
            return result, self._look_up(Kind(method, PREDICT, mode), batch, amount)
        action = batch.reforwarded()
        if not self._from_plain(method):
            return result, self._look_up(Kind(method, PREDICT, mode, action), batch, amount)
        predict_ms = self._look_up(Kind(method, PREDICT, mode), batch, amount)
        if action != "none":
            predict_ms += self._look_up(Kind(method, ADAPT, mode, action), batch, amount) + predict_ms
        return result, predict_ms

    def adapt(self, work: Callable[[], str], batch: Batch) -> tuple[str, float]:
        action = work()
        mode, amount = batch.work()
        method = self._method(batch)
        if batch.reforwarded is not None and self._from_plain(method):
            return action, 0.0
        return action, self._look_up(Kind(method, ADAPT, mode, action), batch, amount)

    def faults(self) -> int:
        return -1

    def residual(self, shift: str, seed: int, index: int) -> float:
        return self.profile.residuals.factor(shift, seed, index)

    def _look_up(self, kind: Kind, batch: Batch, amount: float | None) -> float:
        known = self.profile.by_kind.get(kind)
        if known is None and kind.phase == ADAPT and not {kind.action, kind.mode}.isdisjoint(batch.free):
            self.used[str(kind)] = _NOTHING
            return 0.0
        entry = known or self._entry(kind)
        if known is None and kind.phase != FROZEN and kind not in self.unknown:
            self.unknown[kind] = batch.index
        self.used.setdefault(str(kind), _numbers(entry))
        return entry.fit.at(amount)

    def _found(self, kind: Kind) -> Entry | None:
        """The kind's own entry, or its stand-in's; None: the profile knows nothing of the method."""
        if kind in self.profile.by_kind:
            return self.profile.by_kind[kind]
        if kind.phase == FROZEN:
            return self.profile.by_kind[Kind(STANDARD, PREDICT)]
        return self.profile.stand_in(kind)

    def _entry(self, kind: Kind) -> Entry:
        found = self._found(kind)
        if found is None:
            raise TemporaError(
                f"the clock {self.profile.name!r} has no times for {kind.method!r}; it has "
                f"{', '.join(sorted(self.profile.methods))}: leave the method out, record it with tempora profile, "
                "or give it another's times (times_as)"
            )
        return found

    def _frozen_kind(self, batch: Batch) -> Kind:
        if batch.frozen_as and Kind(batch.frozen_as, PREDICT) in self.profile.by_kind:
            return Kind(batch.frozen_as, PREDICT)
        return Kind(self._method(batch), FROZEN)

    def _method(self, batch: Batch) -> str:
        return batch.method if batch.method in self.profile.methods else batch.name

    def _from_plain(self, method: str) -> bool:
        """Whether a reforwarded method's times have to be put together from those of the plain one."""
        return not any(
            entry.action for entry in self.profile.entries if (entry.method, entry.phase) == (method, PREDICT)
        )


_NOTHING = "nothing"


def _numbers(entry: Entry) -> str:
    """All that a time depends on, and whose it is."""
    return f"{entry.kind}: {entry.numbers}"
