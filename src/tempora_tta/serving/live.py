"""Living some cells of a run in real time, and judging the simulation by it: `tempora audit --realtime`.

Two comparisons. The lived times replayed against what was lived: a difference there is wrong logic. The run's profile
against what was lived: a difference only there is a wrong clock.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy import stats

from tempora_tta.data import Stream, Streams
from tempora_tta.engine.audit import _found, _job, _source
from tempora_tta.engine.job import STANDARD, Job, MethodSpec
from tempora_tta.engine.observer import Observer
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Resolved
from tempora_tta.serving.life import PREPARED_BYTES, Figures, Life, fits_prepared, live_once
from tempora_tta.store import Results
from tempora_tta.timing import Profile, ProfileClock, device_kind, machine_facts
from tempora_tta.timing.record import PROFILED_BATCHES, back_to_back_ms
from tempora_tta.timing.timer import Timer

CLOCK_TOLERANCE = 0.01
"""How far the mean of the lived utilities may be from the simulated one, where a profile can be expected to tell."""
LOGIC_TOLERANCE = 0.001
"""How far a lived utility may be from what the simulator makes of its arrivals and times, everywhere."""
MOST_UTILISATION, SHORTEST_DEADLINE_X = 0.7, 1.5
"""Beyond these a profile cannot be expected to tell: a small difference in time decides who is served."""

LOOKED_AT = 20
"""Batches of standard inference before each life."""
LIKE_ITSELF = (2 / 3, 3 / 2)
"""How far a machine's speed may be from its profile's and be made up for; beyond, something else is at work on it."""


@dataclass(frozen=True)
class LivedCell:
    """A cell of a run, simulated and lived."""

    method: str
    shift: str
    seed: int
    label: str
    simulated: Figures
    lives: tuple[Life, ...]
    outside: str | None
    """Why a profile cannot be expected to tell the utility, so that the cell is shown and not judged by it."""
    speeds_x: tuple[float, ...] = ()
    """Standard inference, back to back, right before each life over that when the machine was profiled; none where
    the profile is another machine's, or does not say."""

    def mean(self, name: str = "utility") -> float:
        """Over the repeats, of one of the lived figures; NaN where one is not known."""
        return float(np.mean(self._lived(name)))

    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of the mean lived utility; None for a cell that was lived once."""
        values = self._lived("utility")
        if len(values) < 2:
            return None
        half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
        return float(np.mean(values) - half), float(np.mean(values) + half)

    @property
    def clock_error(self) -> float:
        """From the simulated utility to the mean of the lived ones."""
        return self.mean() - self.simulated.utility

    @property
    def logic_error(self) -> float:
        """The largest difference between a lived utility and its replay."""
        return max(abs(life.replayed.utility - life.lived.utility) for life in self.lives)

    @property
    def clock_agrees(self) -> bool:
        return abs(self.clock_error) <= CLOCK_TOLERANCE

    @property
    def logic_agrees(self) -> bool:
        return self.logic_error <= LOGIC_TOLERANCE

    @property
    def stands(self) -> bool:
        """Whether nothing speaks against the simulator."""
        return self.logic_agrees and (self.outside is not None or self.clock_agrees)

    def _lived(self, name: str) -> list[float]:
        found = [getattr(life.lived, name) for life in self.lives]
        return [math.nan if value is None else value for value in found]


def outside(resolved: Resolved) -> str | None:
    """Why a profile cannot be expected to tell the utility of a deployment within a point; None: it can be."""
    if resolved.waits:
        return "no schedule"
    if resolved.baseline_ms is None or resolved.interval_ms is None:
        return "no known rate"
    if (utilisation := resolved.baseline_ms / resolved.interval_ms) > MOST_UTILISATION * (1 + 1e-9):
        return f"utilisation {utilisation:.2g}"
    if resolved.queue < 1:
        return "no queue"
    if (deadline_x := resolved.deadline_ms / resolved.baseline_ms) < SHORTEST_DEADLINE_X * (1 - 1e-9):
        return f"deadline {deadline_x:.2g} λ"
    return None


class Speed:
    """How many times as long as when it was profiled a machine's standard inference takes now: by the same look, back
    to back. The profile's own time of it was taken among the work of other methods, and is longer."""

    def __init__(self, job: Job, stream: Stream, profiled_ms: float) -> None:
        self._profiled_ms = profiled_ms
        self._standard = job.create(MethodSpec(STANDARD), stream.seed)
        self._inputs = [
            stream.batch(index).clone() for index in range(min(PROFILED_BATCHES, stream.num_batches))
        ]
        self._timer = Timer(job.device, torch.get_num_threads())

    def now_x(self) -> float:
        looked_ms = back_to_back_ms(self._standard, self._inputs, self._timer, LOOKED_AT)
        return float(np.median(looked_ms)) / self._profiled_ms


def profile_of_this(job: Job) -> Profile | None:
    """The run's profile, if it is one of this network on a machine like this."""
    clock = job.clock
    if not isinstance(clock, ProfileClock) or not clock.recorded:
        return None
    found = (clock.profile.device, clock.profile.weights, clock.profile.batch_size)
    here = (device_kind(machine_facts(job.device)), job.weights, job.streams[0].batch_size)
    return clock.profile if found == here else None


def profiled_ms(job: Job, observer: Observer) -> float | None:
    """Standard inference back to back when the machine was profiled; None: nothing is known to compare it with."""
    profile = profile_of_this(job)
    if profile is not None and profile.back_to_back_ms is None:
        observer.note(
            f"the profile {profile.name!r} does not say how fast the machine was when it was recorded, so nothing is "
            "made up for; profile again to have this compared"
        )
    return None if profile is None else profile.back_to_back_ms


def live(
    results: Results, cells: int = 5, seed: int = 0, repeats: int = 3, observer: Observer | None = None
) -> list[LivedCell]:
    """Live some cells of a run that was made from a configuration, each `repeats` times: picked at random, those that
    a profile can be expected to tell before the others."""
    job = _job(results)
    possible = [cell for _, cell in results.utilities.iterrows() if not_livable(job, results, cell) is None]
    if not possible:
        raise TemporaError(
            f"{results.path} has no cell that could be lived: let the run finish, or use budgets that overshoot, a "
            "charged fallback and streams without resets"
        )
    chosen = picked([_why_outside(job, results, cell) is None for cell in possible], cells, seed)
    streams, observer = Streams(job.open_stream), observer or Observer()
    then_ms = profiled_ms(job, observer)
    try:  # cells are in the order of their streams
        return [
            _lived_cell(job, results, possible[place], repeats, streams, observer, then_ms)
            for place in chosen
        ]
    finally:
        streams.close()


def picked(judged: Sequence[bool], count: int, seed: int) -> list[int]:
    """Places of so many cells, drawn at random, in their order: those that can be judged first.

    >>> picked([False, True, False, True], 2, seed=0)
    [1, 3]
    """
    chance, places = random.Random(seed), range(len(judged))
    drawn = [
        place
        for first in (True, False)
        for place in chance.sample(places, len(places))
        if judged[place] == first
    ]
    return sorted(drawn[:count])


def not_livable(job: Job, results: Results, cell: pd.Series) -> str | None:
    """Why a cell cannot be lived, or None."""
    if cell["status"] != "ok":
        return str(cell["status"])
    deployment = results.scenarios[int(cell["scenario"])].deployment()
    if deployment.has_budget and deployment.rule == "strict":
        return (
            "its budget is strict: it knows what a batch will cost before it runs, which no live system can"
        )
    if deployment.fallback is not None and deployment.fallback_cost != "charged":
        return "its fallback is free, on a device of its own: that can be simulated, not served"
    source = _source(job, cell)
    if source is not None and source.resets_between(0, source.num_batches - 1):
        return "its stream resets the method, which nobody does to a live system"
    return None


def _why_outside(job: Job, results: Results, cell: pd.Series) -> str | None:
    source = _source(job, cell)
    return None if source is None else outside(results.resolved(cell, source.num_batches))


def _lived_cell(
    job: Job,
    results: Results,
    cell: pd.Series,
    repeats: int,
    streams: Streams,
    observer: Observer,
    then_ms: float | None,
) -> LivedCell:
    spec, source = _found(job, results, cell)
    resolved = results.resolved(cell, source.num_batches)
    observer.task_started(cell["method"], cell["shift"], int(cell["seed"]))
    stream = streams.open(source)
    if not fits_prepared(stream):
        observer.note(
            f"{cell['shift']}: its inputs take more than {PREPARED_BYTES >> 30} GB, so each is made while the "
            "pipeline may be at work, which slows what is lived; use fewer batches"
        )
    speed = None if then_ms is None else Speed(job, stream, then_ms)
    lives, speeds_x = [], []
    for _ in range(repeats):
        speed_x = 1.0 if speed is None else speed.now_x()
        if speed is not None:
            speeds_x.append(speed_x)
        lives.append(live_once(job, spec, stream, resolved, made_up_for(speed_x)))
    observer.task_finished(cell["method"], cell["shift"], int(cell["seed"]))
    return LivedCell(
        method=cell["method"],
        shift=cell["shift"],
        seed=int(cell["seed"]),
        label=cell["label"],
        simulated=Figures.of(float(cell["utility"]), {str(name): value for name, value in cell.items()}),
        lives=tuple(lives),
        outside=outside(resolved),
        speeds_x=tuple(speeds_x),
    )


def made_up_for(speed_x: float) -> float:
    """What a deployment is stretched by on a machine of this speed."""
    return speed_x if LIKE_ITSELF[0] <= speed_x <= LIKE_ITSELF[1] else 1.0
