"""Measuring lambda: standard inference over a calibration sweep, on a process that has settled."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from tempora_tta.data import Stream
from tempora_tta.engine.calls import Calls
from tempora_tta.engine.job import STANDARD, Job, MethodSpec
from tempora_tta.engine.observer import Observer, Stopped
from tempora_tta.methods.contract import UNTOLD
from tempora_tta.timing import Baseline


def settle(job: Job, stream: Stream, observer: Observer) -> None:
    """Take every method once forward and backward, so that no timed batch pays for memory taken the first time."""
    observer.pass_started("settling", len(job.methods))
    for number, spec in enumerate(job.methods):
        with suppress(Exception):  # a method that fails does so again in its own task, which records why
            method = job.create(spec, stream.seed)
            Calls(method, spec.label, stream, job.clock, timeout_s=job.config.method_timeout_s).warm_up(2)
        observer.batch_done(None, number)


def calibrate(job: Job, stream: Stream, observer: Observer) -> Baseline:
    """lambda, from `calibration_batches` batches of standard inference, cycling through the stream."""
    times = list(_standard_times(job, stream, observer, job.config.calibration_batches, "calibration"))
    return Baseline.from_times(times, job.config.provision)


def remeasure(job: Job, stream: Stream, observer: Observer) -> float:
    """The median of standard inference now: to see whether the machine drifted, or differs from another."""
    batches = max(20, job.config.calibration_batches // 7)
    return float(np.median(list(_standard_times(job, stream, observer, batches, "look at the device"))))


def _standard_times(job: Job, stream: Stream, observer: Observer, batches: int, kind: str) -> Iterable[float]:
    standard = Calls(job.create(MethodSpec(STANDARD), stream.seed), STANDARD, stream, job.clock)
    standard.warm_up(job.config.warmup_batches)
    observer.pass_started(kind, batches)
    for number in range(batches):
        x = stream.batch(number % stream.num_batches)
        _, elapsed_ms = standard.predict(number, x, UNTOLD)
        observer.batch_done(None, number)
        if observer.stop_requested:
            raise Stopped
        yield elapsed_ms
