"""Recording a latency profile of this machine: Table 2 of the paper, for these methods and this network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tempora.data import BatchSource
from tempora.engine.calibration import calibrate, remeasure, settle
from tempora.engine.job import STANDARD, Job, MethodSpec
from tempora.engine.observer import Observer
from tempora.engine.passes import Pass
from tempora.engine.sentinel import Sentinel
from tempora.measure import Baseline, MethodTimes, Profile, Verdict, judge_baseline, judge_run
from tempora.scenarios import Offline
from tempora.store import Trace


def record_profile(job: Job, name: str, observer: Observer | None = None) -> tuple[Profile, pd.DataFrame]:
    """Time every method of the job over its first stream; the profile, and the table that people read."""
    observer = observer or Observer()
    stream = job.streams[0].open()
    try:
        settle(job, stream, observer)
        baseline = job.baseline or calibrate(job, stream, observer)
        sentinel = Sentinel(job.create(MethodSpec(STANDARD), stream.seed), stream, job.clock, baseline)
        times, rows, verdicts = {}, [], []
        for spec in job.methods:
            observer.task_started(spec.label, stream.name, stream.seed)
            (trace, frozen), found, trained = _record(job, spec, stream, sentinel, observer)
            verdicts += found
            times[spec.label] = method_times(trace, frozen, bool(spec.settings.get("reforward")))
            rows.append(overhead_row(spec.label, trace, baseline, trained))
            observer.task_finished(spec.label, stream.name, stream.seed)
        verdict = judge_run(judge_baseline(baseline, remeasure(job, stream, observer)), verdicts)
    finally:
        stream.close()
    machine: Mapping[str, Any] = job.facts.get("machine", {})
    return Profile(baseline.baseline_ms, times, name, machine, verdict), pd.DataFrame(rows)


def _record(
    job: Job, spec: MethodSpec, stream: BatchSource, sentinel: Sentinel, observer: Observer
) -> tuple[list[Trace], list[Verdict], int]:
    """An offline pass and a timed frozen one, their verdicts, and how many parameters the method updates."""
    method = job.create(spec, stream.seed)
    run = Pass(method, spec.label, stream, job.clock, progress=observer.batch_done)
    offline = Offline().resolve(num_batches=stream.num_batches)
    kinds = {"adapting": lambda: run.offline(offline), "frozen": lambda: run.tail(0, None, timed=True)}
    traces, verdicts = [], []
    for kind, make in kinds.items():
        observer.pass_started(kind, stream.num_batches)
        trace, facts = sentinel.around(make, lambda: run.warm_up(job.warmup_batches))
        traces.append(trace)
        verdicts.append(Verdict.from_json(facts["verdict"]))
    return traces, verdicts, sum(parameter.numel() for parameter in method.trainable.values())


def method_times(trace: Trace, frozen: Trace, reforward: bool = False) -> MethodTimes:
    """The empirical times of one method, adaptation by what it did."""
    by_action = {
        str(action): trace.adapt_ms[trace.action == action].tolist() for action in np.unique(trace.action)
    }
    return MethodTimes(trace.predict_ms.tolist(), by_action, frozen.predict_ms.tolist(), reforward)


def overhead_row(label: str, trace: Trace, baseline: Baseline, trained: int) -> dict[str, Any]:
    """delta, e, e - lambda, l with their standard deviations, and the slowdown: one row of the paper's Table 2."""
    service, predict, adapt = trace.service_ms, trace.predict_ms, trace.adapt_ms
    return {
        "method": label,
        "service_ms": service.mean(),
        "service_sd_ms": service.std(),
        "predict_ms": predict.mean(),
        "predict_sd_ms": predict.std(),
        "intrinsic_ms": max(0.0, predict.mean() - baseline.baseline_ms),
        "adapt_ms": adapt.mean(),
        "adapt_sd_ms": adapt.std(),
        "slowdown": service.mean() / baseline.baseline_ms,
        "updated_parameters": trained,
    }
