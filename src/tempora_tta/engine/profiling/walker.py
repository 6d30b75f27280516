"""A method on its way along the stations: every call timed, named by its kind of work."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.engine.profiling.stations import Station
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.contract import adapt_at, predict_at
from tempora_tta.methods.guard import Guard
from tempora_tta.timing.timer import Elapsed, Timer
from tempora_tta.timing.work import ADAPT, FROZEN, PREDICT, Kind, Sample, work_of

LEISURE = Moment(now_ms=0.0, arrived_ms=0.0)
HURRY = Moment(
    now_ms=0.0,
    arrived_ms=0.0,
    queued=1,
    baseline_ms=1.0,
    threshold_ms=1.0 + 1e-6,
    interval_ms=1.0,
    slack_ms=0.0,
)
"""What methods that look at the clock are told in turn, so that they show what they do in either case."""

Timed = list[tuple[Sample, Elapsed]]


class Walker:
    """A method on its way along the stations."""

    def __init__(self, label: str, method: Method, timer: Timer, guard: Guard) -> None:
        self.label, self.method = label, method
        self._timer, self._guard = timer, guard
        self.follows_amount = False

    def step(self, station: Station, number: int) -> Timed:
        """Predict and adapt on one batch; frozen too, at the end of its shift."""
        if station.first:
            self.reset()
        found = self.serve(
            station.x, station.shift, number, HURRY if station.last else LEISURE, station.place
        )
        if station.last:
            with self._guard("freeze"):
                self.method.freeze()
            found.append(self._frozen(station.x, station.shift, number, station.place))
            self.reset()
        return found

    def reset(self) -> None:
        with self._guard("reset"):
            self.method.reset()

    def serve(self, x: Tensor, shift: str, number: int, moment: Moment = LEISURE, place: int = 0) -> Timed:
        """Predict and adapt on a batch, each timed."""
        if self.method.frozen:  # it froze itself
            return [self._frozen(x, shift, number, place)]
        method: Any = self.method
        with self._guard("predict"):
            _, elapsed = self._timer.time(lambda: predict_at(method, x, moment))
        kind = Kind(self.label, PREDICT, action=method.action_in_predict or "")
        predicted = self._sample(kind, number, shift, elapsed, place)
        with self._guard("adapt"):
            did, spent = self._timer.time(lambda: adapt_at(method, moment))
        adapted = self._sample(Kind(self.label, ADAPT, action=did), number, shift, spent, place)
        return [(predicted, elapsed), (adapted, spent)]

    def _sample(self, kind: Kind, number: int, shift: str, elapsed: Elapsed, place: int) -> Sample:
        """With the mode and amount that the method says its work just had."""
        mode, amount = work_of(self.method)
        self.follows_amount |= amount is not None
        return Sample(kind._replace(mode=mode), number, shift, elapsed.ms, elapsed.wall_ms, amount, place)

    def _frozen(self, x: Tensor, shift: str, number: int, place: int) -> tuple[Sample, Elapsed]:
        with self._guard("predict"):
            _, elapsed = self._timer.time(lambda: predict_at(self.method, x, LEISURE))
        kind = Kind(self.label, FROZEN)
        return Sample(kind, number, shift, elapsed.ms, elapsed.wall_ms, place=place), elapsed


def walker_of(job: Job, spec: MethodSpec, seed: int, timer: Timer) -> Walker:
    """A method of the job, newly made."""
    return Walker(spec.label, job.create(spec, seed), timer, job.guard(spec))
