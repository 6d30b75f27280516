"""Cells of a run lived in real time, on a pipeline as `deploy` makes it: `tempora audit --realtime`.

Two comparisons. The lived times replayed against what was lived: the simulator's own timeline drives the pipeline, so
the two must agree to the last digits, and a difference is wrong logic. The run's profile against what was lived: a
difference only there is a wrong clock.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from tempora_tta.data import Stream, Streams
from tempora_tta.engine.audit import _found, _job, _source
from tempora_tta.engine.job import STANDARD, Job, MethodSpec
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.predictions import note_predictions
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Resolved, Score, percentiles
from tempora_tta.serving.deploy import longest_ms
from tempora_tta.serving.pipeline import Pipeline, driven_live
from tempora_tta.serving.requests import Request, Response, ServedBatch
from tempora_tta.store import ADAPTED, FALLBACK, FROZEN, Results, Trace
from tempora_tta.timing import ProfileClock, device_kind, machine_facts
from tempora_tta.timing.record import PROFILED_BATCHES, back_to_back_ms
from tempora_tta.timing.timer import Timer

CLOCK_TOLERANCE = 0.01
"""Distance of the mean lived utility from the simulated one, where a profile can be expected to tell it."""
LOGIC_TOLERANCE = 0.001
"""Distance of a lived utility from what the simulator makes of its arrivals and times, everywhere."""
MOST_UTILISATION, SHORTEST_DEADLINE_X = 0.7, 1.5
"""Beyond these a profile cannot be expected to tell: a small difference in time decides who is served."""
SAME_SPEED = 0.1
"""Share by which a machine may be slower or faster than when it was profiled, and still be told by its profile."""
LOOKED_AT = 20
"""Batches of standard inference before each life."""
SOON_S = 0.02
"""Before the first scheduled batch."""
PREPARED_BYTES = 2 << 30
"""Inputs up to this size are made before a life begins."""
PHASE = {"adapt": ADAPTED, "frozen": FROZEN, "fallback": FALLBACK}
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """Utility, availability and responses of a deployment: simulated, lived or replayed.

    A percentile of too few responses is None.
    """

    utility: float
    availability: float
    response_p50_ms: float | None
    response_p90_ms: float | None
    response_p99_ms: float | None

    @classmethod
    def of(cls, utility: float, terms: Mapping[str, float | None]) -> Figures:
        responses = (_known(terms[f"response_p{percent}_ms"]) for percent in (50, 90, 99))
        return cls(utility, float(terms["availability"] or 0.0), *responses)


@dataclass(frozen=True)
class LiveResult:
    """One cell, lived once."""

    lived: Figures
    replayed: Figures
    """The simulator's figures from the lived arrivals and times."""
    handover_ms: float
    """The median time that a batch which was next had to wait for the worker: part of its lived time, and of no
    profile."""
    trace: Trace


@dataclass(frozen=True)
class LivedCell:
    """A cell of a run, simulated and lived."""

    method: str
    shift: str
    seed: int
    label: str
    simulated: Figures
    lives: tuple[LiveResult, ...]
    outside: str | None
    """A reason for which a profile cannot be expected to tell the utility: the cell is shown and not judged by it."""
    speeds_x: tuple[float, ...] = ()
    """Standard inference, back to back, before each life over that when the machine was profiled; empty where the
    profile is another machine's, or does not say."""

    def mean(self, name: str = "utility") -> float:
        """The mean over the repeats of one of the lived figures; NaN where one is not known."""
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
        """Difference of the mean lived utility from the simulated one."""
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
        """Nothing speaks against the simulator."""
        return self.logic_agrees and (self.outside is not None or self.clock_agrees)

    def _lived(self, name: str) -> list[float]:
        values = [getattr(life.lived, name) for life in self.lives]
        return [math.nan if value is None else value for value in values]


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
    judged = [outside(_resolved(job, results, cell)) is None for cell in possible]
    streams, observer = Streams(job.open_stream), observer or Observer()
    try:  # cells are in the order of their streams
        return [
            _lived_cell(job, results, possible[place], repeats, streams, observer)
            for place in picked(judged, cells, seed)
        ]
    finally:
        streams.close()


def picked(judged: Sequence[bool], count: int, seed: int) -> list[int]:
    """Places of `count` cells, drawn at random, in their order: those that can be judged first.

    >>> picked([False, True, False, True], 2, seed=0)
    [1, 3]
    """
    chance = random.Random(seed)
    drawn = sorted(range(len(judged)), key=lambda place: (not judged[place], chance.random()))
    return sorted(drawn[:count])


def not_livable(job: Job, results: Results, cell: pd.Series) -> str | None:
    """Say why a cell cannot be lived; None: it can."""
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
        return "its stream resets the method, which no client does to a live system"
    return None


def outside(resolved: Resolved) -> str | None:
    """Say why a profile cannot be expected to tell the utility of a deployment within a point; None: it can."""
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


def profiled_ms(job: Job) -> float | None:
    """Standard inference back to back when this machine was profiled; None where the run's profile is of another
    machine or network, or does not say."""
    if not isinstance(job.clock, ProfileClock) or not job.clock.recorded:
        return None
    profile = job.clock.profile
    here = (device_kind(machine_facts(job.device)), job.weights, job.streams[0].batch_size)
    return profile.back_to_back_ms if (profile.device, profile.weights, profile.batch_size) == here else None


class Speed:
    """The machine's present speed: time of standard inference over that when it was profiled.

    By the same look, back to back: the profile's own time of Standard was taken among the work of other methods, and
    is longer.
    """

    def __init__(self, job: Job, stream: Stream, profiled_ms: float) -> None:
        self._profiled_ms = profiled_ms
        self._standard = job.create(MethodSpec(STANDARD), stream.seed)
        looked_at = range(min(PROFILED_BATCHES, stream.num_batches))
        self._inputs = [stream.batch(index).clone() for index in looked_at]
        self._timer = Timer(job.device, torch.get_num_threads())

    def now_x(self) -> float:
        times_ms = back_to_back_ms(self._standard, self._inputs, self._timer, LOOKED_AT)
        return float(np.median(times_ms)) / self._profiled_ms


def _resolved(job: Job, results: Results, cell: pd.Series) -> Resolved:
    return results.resolved(cell, _found(job, results, cell)[1].num_batches)


def _lived_cell(
    job: Job, results: Results, cell: pd.Series, repeats: int, streams: Streams, observer: Observer
) -> LivedCell:
    spec, source = _found(job, results, cell)
    names = cell["method"], cell["shift"], int(cell["seed"])
    observer.task_started(*names)
    stream, resolved, then_ms = streams.open(source), _resolved(job, results, cell), profiled_ms(job)
    if not fits_prepared(stream):
        observer.note(
            f"{cell['shift']}: its inputs take more than {PREPARED_BYTES >> 30} GB, so each is made while the "
            "pipeline may be at work, which slows what is lived; use fewer batches"
        )
    speed = None if then_ms is None else Speed(job, stream, then_ms)
    lives, speeds_x = [], []
    for _ in range(repeats):
        if speed is not None:
            speeds_x.append(speed.now_x())
        lives.append(live_once(job, spec, stream, resolved))
    observer.task_finished(*names)
    method, shift, seed = names
    simulated = Figures.of(float(cell["utility"]), {str(name): value for name, value in cell.items()})
    why_outside = outside(resolved) or _other_speed(speeds_x)
    return LivedCell(
        method, shift, seed, cell["label"], simulated, tuple(lives), why_outside, tuple(speeds_x)
    )


def _other_speed(speeds_x: Sequence[float]) -> str | None:
    """Say that the machine was not as fast as its profile, if so."""
    furthest_x = max(speeds_x, key=lambda speed_x: abs(speed_x - 1), default=1.0)
    return f"machine at {furthest_x:.2f} x" if abs(furthest_x - 1) > SAME_SPEED else None


def fits_prepared(stream: Stream) -> bool:
    """Tell whether all inputs of a life can be made before it begins."""
    return stream.num_batches * stream.batch(0).nbytes <= PREPARED_BYTES


def live_once(job: Job, spec: MethodSpec, stream: Stream, resolved: Resolved) -> LiveResult:
    """Serve a stream in real time, as its deployment's clients would ask for it."""
    journal: list[ServedBatch] = []
    # Clients are other programs: making an input must not disturb the pipeline.
    inputs = [stream.batch(index) for index in range(stream.num_batches)] if fits_prepared(stream) else None
    example = 1.1 * stream.batch(0).flip(-1)
    with Pipeline(
        job.create(replace(spec, at_once=resolved.at_once), stream.seed),
        job.create(MethodSpec(STANDARD).under(spec.runtime), stream.seed),
        resolved,
        shape=tuple(stream.batch(0).shape[1:]),
        example=example.repeat(resolved.at_once or 1, 1, 1, 1),
        too_long_ms=longest_ms(resolved.baseline_ms),
        journal=journal.append,
    ) as pipeline:
        batch = stream.batch if inputs is None else inputs.__getitem__
        requests = _ask(pipeline, batch, stream.num_batches, resolved)
        answers = [request.result() for request in requests]
        pipeline.wait()
        failure = pipeline.stats()["failure"]
        if failure is not None:
            raise TemporaError(f"{spec.label} was replaced by Standard while it was lived: {failure}")
    trace = _trace(journal, answers, requests, stream)
    score = replayed(trace, np.array([request.submitted_ms for request in requests]), resolved)
    handovers_ms = [row.picked_ms - row.start_ms for row in journal if row.phase != "fallback"]
    return LiveResult(
        lived=_lived(trace, answers, resolved),
        replayed=Figures.of(score.utility, score.terms),
        handover_ms=float(np.median(handovers_ms)),
        trace=trace,
    )


def replayed(trace: Trace, submitted_ms: FloatArray, resolved: Resolved) -> Score:
    """A lived trace on the simulator's timeline: its arrivals and the times of its batches.

    A client's response begins when it calls `submit`, a little before the pipeline takes note of the arrival. A batch
    that was lost alive and is served here, or the other way round, would take the mean of the others' time and
    accuracy; there should be none.
    """
    met = replace(driven_live(resolved), arrivals_ms=tuple(trace.arrived_ms.tolist()))
    course, accuracy = trace.filled().served_course(met, fallback=_by_fallback(trace))
    response_ms = course.response_ms + (trace.arrived_ms - submitted_ms)[course.served]
    return met.score(replace(course, response_ms=response_ms), accuracy)


def _by_fallback(trace: Trace) -> Trace:
    """Times and answers of the fallback, for every batch that it might be asked for."""
    lost = trace.phase == FALLBACK
    if not lost.any():
        return trace.filled()
    return replace(
        trace,
        predict_ms=np.where(lost, trace.predict_ms, trace.predict_ms[lost].mean()),
        correct=np.where(lost, trace.correct, trace.correct[lost].mean()),
        right=np.where(lost[:, None], trace.right, np.int8(-1)),
    )


def _ask(
    pipeline: Pipeline, batch: Callable[[int], Tensor], num_batches: int, resolved: Resolved
) -> list[Request]:
    """Submit every batch when its time has come: as scheduled, or with the answer, or the end, of the one before."""
    requests: list[Request] = []
    begin_s = time.perf_counter() + SOON_S
    for index in range(num_batches):
        x = batch(index)  # ready before its time comes
        if resolved.arrivals_ms is not None:
            time.sleep(max(0.0, begin_s + resolved.arrivals_ms[index] / 1000 - time.perf_counter()))
        elif resolved.arrivals == "on_prediction" and requests:
            requests[-1].result()
        else:
            pipeline.wait()
        requests.append(pipeline.submit(x))
    return requests


def _lived(trace: Trace, answers: list[Response], resolved: Resolved) -> Figures:
    served, value = trace.served, resolved.value
    responses = np.array([answer.response_ms for answer in answers if answer.response_ms is not None])
    utility = float(value.worth(trace.right_in(resolved)[served], responses).sum()) / trace.num_batches
    each = value.responses(responses).ravel()
    response = percentiles(each, trace.num_batches * len(value.waited_ms))
    return Figures.of(utility, {"availability": float(served.mean()), **response})


def _trace(
    journal: list[ServedBatch], answers: list[Response], requests: list[Request], stream: Stream
) -> Trace:
    """A life as a pass: its times are those that the timeline was told."""
    trace = Trace.empty(stream.num_batches, stream.batch_size)
    trace.arrived_ms[:] = [request.arrived_ms for request in requests]
    for row in journal:
        at, scores = row.batch, answers[row.batch].scores
        assert scores is not None
        trace.phase[at], trace.action[at] = PHASE[row.phase], row.action
        for name in ("predict_ms", "adapt_ms", "start_ms", "emission_ms", "finish_ms"):
            getattr(trace, name)[at] = getattr(row, name)
        note_predictions(trace, at, scores, stream)
    return trace


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)
