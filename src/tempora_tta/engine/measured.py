"""Times measured while passes run: lambda first, and a look at the machine before and after every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from tempora_tta._numbers import percent
from tempora_tta.data import Order, Stream, Streams
from tempora_tta.engine.calls import Calls
from tempora_tta.engine.job import STANDARD, Job, MethodSpec
from tempora_tta.engine.observer import Observer, Stopped
from tempora_tta.errors import counted
from tempora_tta.methods.contract import UNTOLD
from tempora_tta.store import Trace
from tempora_tta.store.verdicts import INVALID, VALID, WARN, Verdict, worst
from tempora_tta.timing import Baseline

DRIFT_WARNS, DRIFT_SPOILS = 0.05, 0.15
"""Change of standard inference's median since lambda was measured: a pass is WARN above the first, INVALID above the
second."""
LOOK_BATCHES = 20


def warm_up_all(job: Job, stream: Stream, observer: Observer) -> None:
    """Take every method once forward and backward, so that no timed batch pays for memory taken the first time."""
    observer.pass_started("settling", len(job.methods))
    for number, spec in enumerate(job.methods):
        with suppress(Exception):  # a method that fails does so again in its own task, which records why
            method = job.create(spec, stream.seed)
            Calls(method, spec.label, stream, job.clock, timeout_s=job.config.method_timeout_s).warm_up(2)
        observer.batch_done(None, number)


def calibrate(job: Job, streams: Streams, observer: Observer) -> Baseline:
    """Measure lambda by standard inference, over batches of the first stream again and again or over every stream."""
    times: list[float] = []
    observer.pass_started("calibration", sum(calibration(job).values()))
    for order, batches in calibration(job).items():
        standard = _standard(job, streams.open(order), job.config.warmup_batches)
        for elapsed_ms in _times(standard, batches):
            times.append(elapsed_ms)
            observer.batch_done(None, len(times) - 1)
            if observer.stop_requested:
                raise Stopped
    return Baseline.from_times(times, job.config.provision)


def calibration(job: Job) -> dict[Order, int]:
    """The streams that lambda is measured on, and the number of batches of each."""
    batches, first = job.config.calibration_batches, job.streams[0]
    if not isinstance(batches, str):
        return {first: batches}
    return {order: order.num_batches for order in job.streams if order.seed == first.seed}


class Drift:
    """Standard inference around every pass of a stream. A look after one pass is the look before the next."""

    def __init__(self, job: Job, stream: Stream, baseline: Baseline) -> None:
        self._standard = _standard(job, stream, 5)
        self._usual_ms = baseline.median_ms
        """A given lambda says nothing about this machine: then the first look is what is usual."""
        self._last_ms: float | None = None

    def around(
        self, make: Callable[[], Trace], warm_up: Callable[[], None] = lambda: None
    ) -> tuple[Trace, dict[str, Any]]:
        """Make a pass between two looks at the machine; return it, and the facts about its times."""
        before_ms = self._last_ms or self._look_ms()
        usual_ms = self._usual_ms = self._usual_ms or before_ms
        warm_up()
        trace = make()
        self._last_ms = self._look_ms()
        drift = max(abs(look_ms / usual_ms - 1) for look_ms in (before_ms, self._last_ms))
        return trace, {
            "drift": drift,
            "timing_uncertainty": _uncertainty(drift, trace),
            "verdict": judged(drift).to_json(),
        }

    def _look_ms(self) -> float:
        return float(np.median(list(_times(self._standard, LOOK_BATCHES))))


def judged(drift: float) -> Verdict:
    """Judge a pass by how far standard inference was from usual around it."""
    if drift <= DRIFT_WARNS:
        return Verdict()
    reason = f"standard inference drifted {percent(drift, 0)} from the baseline"
    return Verdict(INVALID if drift > DRIFT_SPOILS else WARN, (reason,))


def judged_run(passes: Iterable[Verdict]) -> Verdict:
    """Judge a run by its passes: the worst decides, and how many they are is said."""
    statuses = [verdict.status for verdict in passes]
    reasons = tuple(
        f"{count} of {counted(len(statuses), 'pass')} {'is' if count == 1 else 'are'} {grade}"
        for grade in (INVALID, WARN)
        if (count := statuses.count(grade))
    )
    return Verdict(worst([VALID, *statuses]), reasons)


def _standard(job: Job, stream: Stream, warm_up_batches: int) -> Calls:
    standard = Calls(job.create(MethodSpec(STANDARD), stream.seed), STANDARD, stream, job.clock)
    standard.warm_up(warm_up_batches)
    return standard


def _times(standard: Calls, batches: int) -> Iterator[float]:
    """Milliseconds of standard inference, batch by batch, cycling through its stream."""
    for index in range(batches):
        x = standard.stream.batch(index % standard.stream.num_batches)
        yield standard.predict(index, x, UNTOLD)[1]


def _uncertainty(drift: float, trace: Trace) -> float:
    """Return the relative error of a pass's times: the machine's drift and the mean's own error."""
    services = trace.service_ms[~np.isnan(trace.service_ms)]
    error = float(services.std() / services.mean() / np.sqrt(services.size)) if services.size else 0.0
    return min(0.5, drift + error)
