"""Living some cells of a run: the deployment's arrivals in real time, on a pipeline as `deploy` makes it.

Three utilities stand beside each other: the simulated one of the run; the lived one; and the lived service times,
replayed through the simulator. Where the last two differ, the timeline's logic is wrong; where only the first does,
its clock is.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from tempora.data import Stream, Streams
from tempora.engine.audit import _job, _source
from tempora.engine.deploy import TOO_LONG_MS, TOO_LONG_X
from tempora.engine.job import STANDARD, Job, MethodSpec
from tempora.engine.observer import Observer
from tempora.engine.pipeline import Pipeline
from tempora.engine.pipeline.beside import Beside
from tempora.engine.pipeline.live_time import Lived
from tempora.engine.pipeline.operator import Operator
from tempora.engine.pipeline.requests import Answer, Request
from tempora.errors import TemporaError
from tempora.scenarios import Resolved
from tempora.scenarios.utility import utility_of
from tempora.store import ADAPTED, FALLBACK, FROZEN, Results, Trace

PHASE = {"adapt": ADAPTED, "frozen": FROZEN, "fallback": FALLBACK}
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SOON_S = 0.02
"""Before the first scheduled batch."""
TOLERANCE = 0.02
"""How far the mean of the lived utilities may be from the simulated one, beyond that one's own interval."""


@dataclass(frozen=True)
class Life:
    """One cell, lived once."""

    utility: float
    availability: float
    response_ms: float
    """The median of the answered batches."""
    replayed: float
    """The utility that the simulator makes of the lived service times."""
    trace: Trace


@dataclass(frozen=True)
class LivedCell:
    """A cell of a run, simulated and lived."""

    method: str
    shift: str
    seed: int
    label: str
    simulated: float
    simulated_lo: float
    simulated_hi: float
    availability: float
    response_ms: float
    lives: tuple[Life, ...]

    def mean(self, name: str) -> float:
        """Over the repeats: of utility, availability, response_ms or replayed."""
        return float(np.mean([getattr(life, name) for life in self.lives]))

    def interval(self, name: str = "utility") -> tuple[float, float] | None:
        """Student's 95 % interval of that mean; None for a cell that was lived once."""
        values = [getattr(life, name) for life in self.lives]
        if len(values) < 2:
            return None
        half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
        return float(np.mean(values) - half), float(np.mean(values) + half)

    @property
    def agrees(self) -> bool:
        """Whether the mean lies within the simulated utility's timing interval and `TOLERANCE`."""
        lived = self.mean("utility")
        return bool(self.simulated_lo - TOLERANCE <= lived <= self.simulated_hi + TOLERANCE)


def live(
    results: Results, cells: int = 5, seed: int = 0, repeats: int = 3, observer: Observer | None = None
) -> list[LivedCell]:
    """Live some cells of a run that was made from a configuration, picked at random, each `repeats` times."""
    job = _job(results)
    possible = [cell for _, cell in results.utilities.iterrows() if not_livable(results, cell) is None]
    if not possible:
        raise TemporaError(
            f"{results.path} has no cell that could be lived: let the run finish, or use budgets that overshoot"
        )
    chosen = sorted(random.Random(seed).sample(range(len(possible)), min(cells, len(possible))))
    streams, observer = (
        Streams(job.open_stream),
        observer or Observer(),
    )  # cells are in the order of their streams
    try:
        return [_lived(job, results, possible[place], repeats, streams, observer) for place in chosen]
    finally:
        streams.close()


def not_livable(results: Results, cell: pd.Series) -> str | None:
    """Why a cell cannot be lived, or None."""
    if cell["status"] != "ok":
        return str(cell["status"])
    deployment = results.scenarios[int(cell["scenario"])].deployment()
    if deployment.has_budget and deployment.rule == "strict":
        return (
            "its budget is strict: it knows what a batch will cost before it runs, which no live system can"
        )
    return None


def _lived(
    job: Job, results: Results, cell: pd.Series, repeats: int, streams: Streams, observer: Observer
) -> LivedCell:
    spec = next((spec for spec in job.methods if spec.label == cell["method"]), None)
    source = _source(job, cell)
    if spec is None or source is None:
        raise TemporaError(
            f"{cell['method']} on {cell['shift']}, seed {cell['seed']}, is not in the configuration of "
            f"{results.path / 'run.json'}: another run's files are in the folder, or it was edited"
        )
    resolved = results.resolved(cell, source.num_batches)
    observer.task_started(cell["method"], cell["shift"], int(cell["seed"]))
    stream = streams.open(source)
    lives = tuple(live_once(job, spec, stream, resolved) for _ in range(repeats))
    observer.task_finished(cell["method"], cell["shift"], int(cell["seed"]))
    course = results.trace(cell, predictions=False).course(resolved)
    return LivedCell(
        method=cell["method"],
        shift=cell["shift"],
        seed=int(cell["seed"]),
        label=cell["label"],
        simulated=float(cell["utility"]),
        simulated_lo=float(cell["utility_lo"]),
        simulated_hi=float(cell["utility_hi"]),
        availability=float(cell["availability"]),
        response_ms=_median(course.response_ms),
        lives=lives,
    )


def live_once(job: Job, spec: MethodSpec, stream: Stream, resolved: Resolved) -> Life:
    """Serve a stream in real time, as its deployment's clients would ask for it."""
    journal: list[Lived] = []
    with Pipeline(
        _operator(job, spec, stream, resolved),
        resolved,
        shape=tuple(stream.batch(0).shape[1:]),
        too_long_ms=max(TOO_LONG_MS, TOO_LONG_X * (resolved.baseline_ms or 0.0)),
        journal=journal.append,
    ) as pipeline:
        answers = _ask(pipeline, stream, resolved)
        found = [future.result() for future in answers]
        pipeline.wait()
        if (failure := pipeline.stats()["failure"]) is not None:
            raise TemporaError(f"{spec.label} was replaced by Standard while it was lived: {failure}")
    trace = _trace(journal, found, stream)
    responses = np.array([math.nan if one.response_ms is None else one.response_ms for one in found])
    served = trace.served
    kappa = resolved.value.kappa(responses[served])
    return Life(
        utility=utility_of(trace.accuracy[served], kappa, trace.num_batches),
        availability=float(served.mean()),
        response_ms=_median(responses[served]),
        replayed=replayed(trace, resolved),
        trace=trace,
    )


def replayed(trace: Trace, resolved: Resolved) -> float:
    """The utility of a lived trace's service times on the simulator's timeline.

    Batches that were lost alive and are served there, or the other way round, take the mean of the others' time
    and accuracy.
    """
    lost = trace.phase == FALLBACK
    if lost.any():
        means = (np.nanmean(trace.predict_ms[lost]), trace.correct[lost].mean())
        predict_ms, correct = (
            np.where(lost, values, mean)
            for values, mean in zip((trace.predict_ms, trace.correct), means, strict=True)
        )
        rescued = replace(trace, predict_ms=predict_ms, correct=correct)
    else:
        rescued = trace.scaled(1.0, 1.0)
    return trace.scaled(1.0, 1.0).score(resolved, fallback=rescued).utility


def _operator(job: Job, spec: MethodSpec, stream: Stream, resolved: Resolved) -> Operator:
    """The method as the run makes it. A fallback that is free gets a thread of its own on the same device."""
    standard = MethodSpec(STANDARD).under(spec.runtime)
    beside = None
    if resolved.fallback is not None and resolved.fallback_cost == "free" and not resolved.waits:
        latest = job.create(spec, stream.seed) if resolved.fallback == "latest" else None
        beside = Beside(job.create(standard, stream.seed), latest)
    return Operator(
        job.create(spec, stream.seed),
        job.create(standard, stream.seed),
        fallback=resolved.fallback,
        beside=beside,
        example=1.1 * stream.batch(0).flip(-1),
    )


def _ask(pipeline: Pipeline, stream: Stream, resolved: Resolved) -> list[Request]:
    """Submit every batch when its time has come: as scheduled, or with the answer, or the end, of the one before."""
    futures: list[Request] = []
    begin_s = time.perf_counter() + SOON_S
    for index in range(stream.num_batches):
        x = stream.batch(index)  # ready before its time comes
        if resolved.arrivals_ms is not None:
            time.sleep(max(0.0, begin_s + resolved.arrivals_ms[index] / 1000 - time.perf_counter()))
        elif resolved.arrivals == "on_prediction" and futures:
            futures[-1].result()
        else:
            pipeline.wait()
        futures.append(pipeline.submit(x))
    return futures


def _trace(journal: list[Lived], answers: list[Answer], stream: Stream) -> Trace:
    """What was lived, as a pass: its times are those of the work itself, from the worker's hand to the answer, and on
    until the device was done."""
    trace = Trace.empty(stream.num_batches, stream.batch_size)
    for row in journal:
        at, answer = row.batch, answers[row.batch]
        trace.phase[at], trace.action[at] = PHASE[row.phase], row.action
        trace.predict_ms[at], trace.adapt_ms[at] = (
            row.emission_ms - row.picked_ms,
            row.finish_ms - row.emission_ms,
        )
        trace.start_ms[at], trace.emission_ms[at], trace.finish_ms[at] = (
            row.start_ms,
            row.emission_ms,
            row.finish_ms,
        )
        trace.arrived_ms[at] = row.arrived_ms
        assert answer.scores is not None
        trace.predicted[at] = _classes(answer.scores, stream)
        trace.correct[at] = int((trace.predicted[at] == stream.labels(at)).sum())
    return trace


def _classes(scores: Tensor, stream: Stream) -> IntArray:
    if stream.classes is None:
        return scores.argmax(dim=1).numpy()
    known: IntArray = np.asarray(stream.classes)
    best: IntArray = known[scores[:, stream.classes].argmax(dim=1).numpy()]
    return best


def _median(responses_ms: FloatArray) -> float:
    return float(np.median(responses_ms)) if responses_ms.size else math.inf
