"""Living a deployment once: its arrivals in real time, on a pipeline as `deploy` makes it, and what came of it.

The lived times are replayed through the simulator, too: the real arrivals, and for every batch how long it kept the
pipeline busy, from the instant at which that was free for it. The pipeline is driven by the same timeline, so the
two must agree to the last digits. Where they do not, its threads did something else than the timeline says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tempora_tta.data import Stream
from tempora_tta.engine.job import STANDARD, Job, MethodSpec
from tempora_tta.engine.predictions import note_predictions
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Resolved, Score, percentiles
from tempora_tta.serving.deploy import longest_ms
from tempora_tta.serving.pipeline import Pipeline, driven_live
from tempora_tta.serving.requests import Request, Response, ServedBatch
from tempora_tta.store import ADAPTED, FALLBACK, FROZEN, Trace

PHASE = {"adapt": ADAPTED, "frozen": FROZEN, "fallback": FALLBACK}
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SOON_S = 0.02
"""Before the first scheduled batch."""
PREPARED_BYTES = 2 << 30
"""Inputs up to this size are made before the life begins."""


@dataclass(frozen=True)
class Figures:
    """What a deployment got: simulated, lived or replayed. A percentile of too few responses is None."""

    utility: float
    availability: float
    response_p50_ms: float | None
    response_p90_ms: float | None
    response_p99_ms: float | None

    @classmethod
    def of(cls, utility: float, terms: Mapping[str, float | None]) -> Figures:
        responses = (_known(terms[f"response_p{percent}_ms"]) for percent in (50, 90, 99))
        return cls(utility, float(terms["availability"] or 0.0), *responses)

    def at_speed(self, speed_x: float) -> Figures:
        """With the responses of a machine that is so many times as fast."""
        responses = self.response_p50_ms, self.response_p90_ms, self.response_p99_ms
        told = (None if ms is None else ms / speed_x for ms in responses)
        return Figures(self.utility, self.availability, *told)


@dataclass(frozen=True)
class Life:
    """One cell, lived once."""

    lived: Figures
    replayed: Figures
    """What the simulator makes of the lived arrivals and times."""
    handover_ms: float
    """The median time that a batch which was next had to wait for the worker: part of its lived time, and of no
    profile."""
    trace: Trace
    speed_x: float = 1.0
    """How many times as long as its profile says the machine's work took when it was lived. Arrivals, deadlines and
    budgets were so many times as long, too; responses are told in the profile's milliseconds."""
    prepared: bool = True
    """All inputs were there before it began. If not, the client made each while the pipeline may have been at work,
    which a client of another process would not have disturbed."""


def live_once(job: Job, spec: MethodSpec, stream: Stream, resolved: Resolved, speed_x: float = 1.0) -> Life:
    """Serve a stream in real time, as its deployment's clients would ask for it: on a machine whose work takes
    `speed_x` times as long as what it is compared with, all times of the deployment do."""
    journal: list[ServedBatch] = []
    resolved = resolved.stretched(speed_x)
    prepared = fits_prepared(stream)
    inputs = [stream.batch(index) for index in range(stream.num_batches)] if prepared else []
    batch = inputs.__getitem__ if prepared else stream.batch
    with Pipeline(
        job.create(spec, stream.seed),
        job.create(MethodSpec(STANDARD).under(spec.runtime), stream.seed),
        resolved,
        shape=tuple(stream.batch(0).shape[1:]),
        example=1.1 * stream.batch(0).flip(-1),
        too_long_ms=longest_ms(resolved.baseline_ms),
        journal=journal.append,
    ) as pipeline:
        requests = _ask(pipeline, batch, stream.num_batches, resolved)
        answers = [request.result() for request in requests]
        pipeline.wait()
        failure = pipeline.stats()["failure"]
        if failure is not None:
            raise TemporaError(f"{spec.label} was replaced by Standard while it was lived: {failure}")
    trace = _trace(journal, answers, requests, stream)
    score = replayed(trace, np.array([request.submitted_ms for request in requests]), resolved)
    return Life(
        lived=_lived(trace, answers, resolved).at_speed(speed_x),
        replayed=Figures.of(score.utility, score.terms).at_speed(speed_x),
        handover_ms=float(
            np.median([row.picked_ms - row.start_ms for row in journal if row.phase != "fallback"])
        ),
        trace=trace,
        speed_x=speed_x,
        prepared=prepared,
    )


def fits_prepared(stream: Stream) -> bool:
    """Whether all inputs of a life can be made before it begins."""
    return stream.num_batches * stream.batch(0).nbytes <= PREPARED_BYTES


def _lived(trace: Trace, answers: list[Response], resolved: Resolved) -> Figures:
    served, value = trace.served, resolved.value
    responses = np.array([one.response_ms for one in answers if one.response_ms is not None])
    utility = float(value.worth(trace.right_in(resolved)[served], responses).sum()) / trace.num_batches
    each = value.responses(responses).ravel()
    terms = {
        "availability": float(served.mean()),
        **percentiles(each, trace.num_batches * len(value.waited_ms)),
    }
    return Figures.of(utility, terms)


def replayed(trace: Trace, submitted_ms: FloatArray, resolved: Resolved) -> Score:
    """A lived trace on the simulator's timeline: its arrivals and the times of its batches.

    A client's response begins when it calls `submit`, a little before the pipeline takes note of the arrival. A batch
    that was lost alive and is served here, or the other way round, would take the mean of the others' time and
    accuracy; there should be none.
    """
    met = replace(driven_live(resolved), arrivals_ms=tuple(trace.arrived_ms.tolist()))
    course, accuracy = trace.filled().served_course(met, fallback=_rescued(trace))
    response_ms = course.response_ms + (trace.arrived_ms - submitted_ms)[course.served]
    return met.score(replace(course, response_ms=response_ms), accuracy)


def _rescued(trace: Trace) -> Trace:
    """What the fallback did, for every batch that it might be asked for."""
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
    futures: list[Request] = []
    begin_s = time.perf_counter() + SOON_S
    for index in range(num_batches):
        x = batch(index)  # ready before its time comes
        if resolved.arrivals_ms is not None:
            time.sleep(max(0.0, begin_s + resolved.arrivals_ms[index] / 1000 - time.perf_counter()))
        elif resolved.arrivals == "on_prediction" and futures:
            futures[-1].result()
        else:
            pipeline.wait()
        futures.append(pipeline.submit(x))
    return futures


def _trace(
    journal: list[ServedBatch], answers: list[Response], requests: list[Request], stream: Stream
) -> Trace:
    """What was lived, as a pass: its times are those that the timeline was told."""
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
