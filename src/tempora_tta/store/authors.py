"""The authors' published logs as a run folder, so that the paper's tables follow from its own batches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import HISTORY_FREE, METHODS, STANDARD, STATELESS
from tempora_tta.scenarios import (
    Amortised,
    Continuous,
    Course,
    Discrete,
    Offline,
    Resolved,
    Scenario,
    budget_cutoff,
    to_spec,
)
from tempora_tta.scenarios.course import course_of
from tempora_tta.store._author_logs import FloatArray, Log, read_logs, snake
from tempora_tta.store.cells import Cell, utilities_frame, utility_row
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.results import Results
from tempora_tta.store.trace import ADAPTED, FROZEN, Trace
from tempora_tta.store.verdicts import Verdict

PROVISION = 6.0
"""lambda = mean + 6 sigma of standard inference."""
TIMING = "WARN"
"""How far imported times can be trusted: nothing says that they are bad, and nothing that they are good."""

AS_TIMED, AS_STARTED, AS_LOGGED = "times", "starts", "log"
"""What the batches that a pass served follow from: its times, its times and the recorded starts, or nothing but
the log, which says so. The last is stored as it is and never replayed."""
OWN_SKIPS = "the skipped batches are the log's own, not replayed: they do not follow from its times"


def import_authors(
    folder: Path | str,
    out: Path | str,
    *,
    model: str | None = None,
    dataset: str | None = None,
    baseline_ms: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Results:
    """Turn the logs below `folder` into the run folder `out`, one pass and one cell per log and shift.

    model, dataset: which of them, where the logs hold several; a run folder holds one.
    baseline_ms: lambda; default, from the logs of standard inference offline, as the paper has it.
    progress: called with files read and files in all.
    """
    logs = _one_setup(list(read_logs(Path(folder), progress)), model, dataset)
    baseline = _baseline(logs, baseline_ms)
    scenarios = _scenarios(logs)
    with RunFolder.for_writing(out) as target:
        if target.has_manifest():
            raise TemporaError(f"{out} holds a run already: choose another folder")
        rows = [
            _row(target, log, shift, scenarios.index(log.scenario), baseline["baseline_ms"])
            for log in logs
            for shift in log.shifts
        ]
        target.write_utilities(utilities_frame(rows))
        follows = Counter(stored.facts["served_from"] for stored in target.passes().values())
        target.write_manifest(_manifest(logs, scenarios, baseline, follows))
    return Results(RunFolder(out))


def _one_setup(logs: list[Log], model: str | None, dataset: str | None) -> list[Log]:
    chosen = [
        log
        for log in logs
        if (model is None or log.model == model) and (dataset is None or log.dataset == snake(dataset))
    ]
    setups = sorted({log.setup for log in chosen or logs})
    if not chosen or len(setups) > 1:
        held = "; ".join(f"{name} on {data}, batches of {size}" for name, data, size in setups)
        raise TemporaError(
            f"a run folder holds one network and dataset, the logs hold {held}: "
            "choose with --model and --dataset, or point at a folder of one"
        )
    seen: dict[tuple[str, str, int, str], Path] = {}
    for log in chosen:
        for shift in log.shifts:
            key = (log.method, shift, log.seed, repr(log.scenario))
            if key in seen:
                raise TemporaError(
                    f"{seen[key]} and {log.path} are both {log.method} on {shift} under {log.scenario.label}, "
                    f"seed {log.seed}: import their folders one by one"
                )
            seen[key] = log.path
    return chosen


def _baseline(logs: list[Log], given_ms: float | None) -> dict[str, Any]:
    if given_ms is not None:
        if not 0 < given_ms < math.inf:
            raise TemporaError(f"baseline_ms={given_ms!r}: must be a finite number of milliseconds above 0")
        facts = dict.fromkeys(("mean_ms", "sigma_ms", "median_ms", "provision"))
        return {"baseline_ms": float(given_ms), **facts, "batches": 0, "source": "given"}
    times = [
        batches["prediction_time"] + batches["adaptation_time"]
        for log in logs
        if log.method == STANDARD and isinstance(log.scenario, Offline)
        for batches in log.shifts.values()
    ]
    if not times:
        raise TemporaError(
            "the logs lack standard inference offline (method basic), which lambda comes from: "
            "add that log, or give baseline_ms (--baseline-ms)"
        )
    pooled = np.concatenate(times)
    mean, sigma = float(pooled.mean()), float(pooled.std())
    return {
        "baseline_ms": mean + PROVISION * sigma,
        "mean_ms": mean,
        "sigma_ms": sigma,
        "median_ms": float(np.median(pooled)),
        "provision": PROVISION,
        "batches": pooled.size,
        "source": "imported",
    }


def _scenarios(logs: list[Log]) -> list[Scenario]:
    """Each deployment once: offline first, then by protocol, strict to relaxed."""
    kinds = (Offline, Discrete, Continuous, Amortised)

    def place(scenario: Scenario) -> tuple[int, int, float]:
        value = getattr(scenario, scenario.parameter) if scenario.parameter else 0.0
        return kinds.index(type(scenario)), scenario.deployment().queue, value

    return sorted({log.scenario for log in logs}, key=place)


def _row(folder: RunFolder, log: Log, shift: str, index: int, baseline_ms: float) -> dict[str, Any]:
    """Store a log's pass over one shift; the cell it makes."""
    cell = Cell(log.method, log.model, shift, log.seed, log.scenario, index, baseline_ms, timing=TIMING)
    reason = log.scenario.not_applicable(baseline_ms)
    if reason is not None:
        return utility_row(replace(cell, status=f"not applicable: {reason}"), None)
    batches = log.shifts[shift]
    resolved = cell.resolved(len(batches["num_samples"]))
    recorded = _recorded(batches, log.batch_size, resolved)
    found = _explained(recorded, batches, resolved)
    if found is None:
        reason = "failed: the log skips batches, which its protocol never does, or serves none"
        return utility_row(replace(cell, status=reason), None)
    served_from, trace = found
    facts = {
        "source": log.path.name,
        "served_from": served_from,
        "history_free": log.method in HISTORY_FREE,
        "stateless": log.method in STATELESS,
        "verdict": _verdict([OWN_SKIPS] if served_from == AS_LOGGED else []).to_json(),
    }
    stored = folder.write_pass(_identity(log, shift, resolved), trace.on_timeline(resolved), facts)
    return utility_row(replace(cell, adapting_pass=stored.key), trace)


def _explained(
    recorded: Trace, batches: Mapping[str, FloatArray], resolved: Resolved
) -> tuple[str, Trace] | None:
    """A pass that takes the course the log took, and why it does; None if its protocol knows no such course."""
    served = np.flatnonzero(recorded.served)
    for served_from, trace in (
        (AS_TIMED, recorded),
        (AS_STARTED, _busy_until_next_start(recorded, batches)),
    ):
        if np.array_equal(trace.course(resolved).served, served):
            return served_from, trace
    if resolved.arrivals_ms is None or not served.size:
        return None
    return AS_LOGGED, _AsLogged(**vars(recorded), wait_ms=batches["queue_wait_time"])


def _recorded(batches: Mapping[str, FloatArray], batch_size: int, resolved: Resolved) -> Trace:
    samples = batches["num_samples"]
    served = samples > 0
    trace = Trace.empty(len(samples), batch_size)
    trace.total[served] = samples[served]
    trace.correct[:] = batches["num_correct"]
    trace.predict_ms[served] = batches["prediction_time"][served]
    trace.adapt_ms[served] = batches["adaptation_time"][served]
    trace.phase[served] = ADAPTED
    if math.isfinite(resolved.budget_ms) and resolved.baseline_ms is not None:
        cutoff = budget_cutoff(trace.service_ms, resolved.baseline_ms, resolved.budget_ms, resolved.rule)
        trace.phase[cutoff:] = FROZEN
    return trace


def _busy_until_next_start(trace: Trace, batches: Mapping[str, FloatArray]) -> Trace:
    """The same pass, with a pipeline that was busy, whatever with, until the next batch that had waited began.

    For loops that take time between batches, which no time of the log counts: without it they would have served
    more than they did.
    """
    served = np.flatnonzero(trace.served)
    start_ms, waited = batches["start_timestamp"][served], batches["queue_wait_time"][served] > 0
    busy_ms = np.where(waited[1:], np.diff(start_ms), trace.service_ms[served[:-1]])
    adapt_ms = trace.adapt_ms.copy()
    adapt_ms[served[:-1]] = np.maximum(0.0, busy_ms - trace.predict_ms[served[:-1]])
    return replace(trace, adapt_ms=adapt_ms)


@dataclass(frozen=True)
class _AsLogged(Trace):
    """A pass on a schedule that takes the course of its log, whatever its times would make of it.

    At a knife edge a millisecond that the log does not count decides which batches are skipped, so no replay finds
    them again; which ones were is known all the same.
    """

    wait_ms: FloatArray

    def course(
        self, resolved: Resolved, frozen: Trace | None = None, fallback: Trace | None = None
    ) -> Course:
        served = np.flatnonzero(self.served)
        predict_ms, adapt_ms, wait_ms = self.predict_ms[served], self.adapt_ms[served], self.wait_ms[served]
        arrived_ms = np.array(resolved.arrivals_ms)[served]
        return course_of(
            num_batches=self.num_batches,
            served=served,
            evicted=np.flatnonzero(~self.served),
            arrived_ms=arrived_ms,
            start_ms=arrived_ms + wait_ms,
            wait_ms=wait_ms,
            forced=(np.diff(served, prepend=-1) > 1) & (wait_ms == 0),
            predict_ms=predict_ms,
            adapt_ms=adapt_ms,
            adapted=np.ones(served.size, dtype=bool),
            spent_ms=float(np.maximum(0.0, predict_ms + adapt_ms - (resolved.baseline_ms or math.inf)).sum()),
        )


def _identity(log: Log, shift: str, resolved: Resolved) -> dict[str, Any]:
    return {
        "kind": "offline" if isinstance(log.scenario, Offline) else "live",
        "model": log.model,
        "method": log.method,
        "name": log.method,
        "settings": {},
        "shift": shift,
        "data": log.dataset,
        "seed": log.seed,
        "batch_size": log.batch_size,
        "num_batches": resolved.num_batches,
        "clock": "imported",
        "machine": "",
        "scenario": to_spec(log.scenario),
    }


def _manifest(
    logs: list[Log], scenarios: list[Scenario], baseline: dict[str, Any], follows: Mapping[str, int]
) -> dict[str, Any]:
    batches = {shift: len(found["num_samples"]) for log in logs for shift, found in log.shifts.items()}
    first = logs[0]
    own_skips = follows.get(AS_LOGGED, 0)
    provision_ms = None
    if baseline["mean_ms"] is not None:
        provision_ms = (baseline["baseline_ms"] - baseline["mean_ms"]) * max(batches.values())
    return {
        "imported": {
            "from": "the authors' logs",
            "files": len(logs),
            "retimed_passes": follows.get(AS_STARTED, 0),
            "own_skips_passes": own_skips,
        },
        "dataset": first.dataset,
        "machine": {"cpu": "the authors' machine", "device": "unknown", "threads": None, "versions": {}},
        "model": first.model,
        "methods": sorted({log.method for log in logs}, key=list(METHODS).index),
        "shifts": list(batches),
        "seeds": sorted({log.seed for log in logs}),
        "batch_size": first.batch_size,
        "batches": batches,
        "scenarios": [to_spec(scenario) for scenario in scenarios],
        "clock": "imported",
        "shared": False,
        "baseline": baseline,
        "provision_ms": provision_ms,
        "finished": True,
        "verdict": _verdict([f"{own_skips} discrete passes: {OWN_SKIPS}"] if own_skips else []).to_json(),
    }


def _verdict(more: list[str]) -> Verdict:
    reasons = ("imported; how quiet the authors' machine was is not in their logs", *more)
    return Verdict(TIMING, reasons, said=f"{TIMING}: {'; '.join(reasons)}")
