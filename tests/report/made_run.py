"""Run folders made up for tests and benchmarks of the report: numpy streams, the real scenarios, no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tempora.cards import Cards, scenario_cards
from tempora.scenarios import Deployment, Scenario, relative_grid, to_record
from tempora.scenarios.archetypes import Offline
from tempora.scenarios.budget import budget_cutoff
from tempora.store import FROZEN, Cell, Results, RunFolder, StoredPass, Trace, utilities_frame, utility_row

BASELINE_MS = 40.0


@dataclass(frozen=True)
class Pace:
    """What a made-up method does: how long it takes, and how much better than Standard it is."""

    predict_ms: float
    adapt_ms: float
    gain: float
    history_free: bool = False
    stateless: bool = False


METHODS = {
    "standard": Pace(38.0, 0.0, 0.0, history_free=True, stateless=True),
    "lame": Pace(44.0, 0.0, -0.02, history_free=True, stateless=True),
    "adabn": Pace(43.0, 0.0, 0.10, history_free=True),
    "tent": Pace(42.0, 55.0, 0.18),
    "sar": Pace(80.0, 110.0, 0.22),
}
SHIFTS = {"gaussian_noise": 0.3, "fog": 0.5}
GRID: tuple[Scenario, ...] = (Offline(), *relative_grid())


def make_run(
    path: Path,
    *,
    methods: Mapping[str, Pace] = METHODS,
    shifts: Mapping[str, float] = SHIFTS,
    scenarios: Sequence[Scenario] = GRID,
    batches: int = 40,
    batch_size: int = 32,
    seeds: Sequence[int] = (2025,),
    model: str = "a_net",
    timing_uncertainty: float = 0.01,
    verdict: str = "VALID",
    broken: Mapping[str, str] | None = None,
    finished: bool = True,
    judged: bool = True,
    names: Mapping[str, str] | None = None,
    machine: Mapping[str, Any] | None = None,
    clock: str = "recorded",
    segments: Sequence[str] = (),
) -> Results:
    """Write a run folder. `shifts` maps names to Standard's accuracy, `broken` methods to why they failed, `names`
    labels of the run's own to methods; `machine` replaces facts about the machine. A measured run is `judged` when it
    is finished; its doubt takes a while to work out. `segments` are the shifts that every stream goes through, all of
    one length."""
    run = _Maker(path, scenarios, batches, batch_size, model, timing_uncertainty, verdict, names or {})
    if segments:
        run.facts["segments"] = _segments(segments, batches // len(segments))
    rows = []
    for seed in seeds:
        for shift, accuracy in shifts.items():
            rng = np.random.default_rng([seed, len(shift), round(1000 * accuracy)])
            for method, pace in methods.items():
                reason = (broken or {}).get(method)
                rows += run.cells(method, pace, shift, seed, accuracy, rng, reason)
    run.folder.write_utilities(utilities_frame(rows))
    manifest = _manifest(run, methods, shifts, seeds, finished) | {"clock": clock}
    manifest["machine"] |= machine or {}
    run.folder.write_manifest(manifest if judged else manifest | {"verdict": None})
    return Results(RunFolder(path))


class _Maker:
    def __init__(
        self,
        path: Path,
        scenarios: Sequence[Scenario],
        batches: int,
        batch_size: int,
        model: str,
        timing_uncertainty: float,
        verdict: str,
        names: Mapping[str, str],
    ) -> None:
        (path / "traces").mkdir(parents=True, exist_ok=True)
        self.folder = RunFolder(path)
        self.scenarios, self.batches, self.batch_size = tuple(scenarios), batches, batch_size
        self.model, self.verdict, self.names = model, verdict, names
        self.facts = {"timing_uncertainty": timing_uncertainty, "verdict": {"status": verdict, "reasons": []}}
        self.standard_key: dict[tuple[str, int], str] = {}
        self.paces: dict[str, Pace] = {}

    def cells(
        self, method: str, pace: Pace, shift: str, seed: int, accuracy: float, rng: Any, broken: str | None
    ) -> list[dict[str, Any]]:
        self.paces[method] = pace
        offline = self._offline(pace, accuracy, rng)
        stored = self._write("offline", method, shift, seed, offline)
        if method == "standard":
            self.standard_key[shift, seed] = stored.key
        rows = []
        for index, scenario in enumerate(self.scenarios):
            cell = Cell(method, self.model, shift, seed, scenario, index, BASELINE_MS)
            reason = scenario.not_applicable(BASELINE_MS)
            if broken is not None or reason is not None:
                status = f"failed: {broken}" if broken is not None else f"not applicable: {reason}"
                rows.append(utility_row(replace(cell, status=status), None))
                continue
            cell, adapting, frozen = self._placed(cell, pace, offline, stored, rng)
            cell = replace(cell, timing_uncertainty=self.facts["timing_uncertainty"], timing=self.verdict)
            rows.append(utility_row(cell, adapting, frozen))
        return rows

    def _placed(
        self, cell: Cell, pace: Pace, offline: Trace, stored: StoredPass, rng: Any
    ) -> tuple[Cell, Trace, Trace | None]:
        """The cell's passes, shared as the engine shares them."""
        resolved = cell.scenario.resolve(num_batches=self.batches, baseline_ms=BASELINE_MS)
        whole = replace(cell, origin="derived", adapting_pass=stored.key)
        if isinstance(cell.scenario, Deployment):
            frozen = self._tail(offline, 0, rng, True)
            return self._live(cell, offline, offline.on_timeline(resolved, frozen, frozen))
        if resolved.arrivals_ms is not None:
            if not offline.course(resolved).evicted.size:
                return whole, offline, None
            if pace.history_free:
                return replace(whole, origin="replayed"), offline, None
            return self._live(cell, offline, offline.on_timeline(resolved))
        cutoff = budget_cutoff(offline.service_ms, BASELINE_MS, resolved.budget_ms, resolved.rule)
        if cutoff == self.batches:
            return whole, offline, None
        if pace.stateless:
            key = self.standard_key[cell.shift, cell.seed]
            return replace(whole, frozen_pass=key), offline, self.folder.trace(key)
        tail = self._tail(offline, cutoff, rng)
        kept = self._write("tail", cell.method, cell.shift, cell.seed, tail, cutoff=cutoff)
        return replace(whole, frozen_pass=kept.key), offline, tail

    def _live(self, cell: Cell, offline: Trace, placed: Trace) -> tuple[Cell, Trace, None]:
        """A pass of its own, in which skipped batches cost some of what was learnt."""
        placed.correct[:] = np.where(placed.served, offline.correct * 0.95, 0).astype(np.int32)
        kept = self._write("live", cell.method, cell.shift, cell.seed, placed, scenario=cell.scenario_index)
        return replace(cell, origin="live", adapting_pass=kept.key), placed, None

    def _offline(self, pace: Pace, accuracy: float, rng: Any) -> Trace:
        trace = Trace.empty(self.batches, self.batch_size)
        trace.phase[:] = 1
        right = np.clip(accuracy + pace.gain, 0.02, 0.98)
        trace.correct[:] = rng.binomial(self.batch_size, right, self.batches)
        trace.predicted[:] = 0
        trace.action[:] = "step" if pace.adapt_ms else "none"
        # Clocks count nanoseconds.
        trace.predict_ms[:] = np.round(pace.predict_ms * rng.uniform(0.97, 1.03, self.batches), 6)
        trace.adapt_ms[:] = np.round(pace.adapt_ms * rng.uniform(0.9, 1.1, self.batches), 6)
        return trace.on_timeline(Offline().resolve(num_batches=self.batches, baseline_ms=BASELINE_MS))

    def _tail(self, offline: Trace, cutoff: int, rng: Any, timed: bool = False) -> Trace:
        tail = Trace.empty(self.batches, self.batch_size)
        tail.phase[cutoff:] = FROZEN
        learnt = 0.6 + 0.35 * min(1.0, cutoff / 10)
        tail.correct[cutoff:] = (offline.correct[cutoff:] * learnt).astype(np.int32)
        tail.predicted[cutoff:] = 0
        tail.action[cutoff:] = "none"
        if timed:
            tail.predict_ms[cutoff:] = rng.uniform(37, 39, self.batches - cutoff)
            tail.adapt_ms[cutoff:] = 0.0
        return tail

    def _write(self, kind: str, method: str, shift: str, seed: int, trace: Trace, **more: Any) -> StoredPass:
        identity = {
            "kind": kind,
            "method": method,
            "name": self.names.get(method, method),
            "settings": {},
            "shift": shift,
            "data": shift,
            "seed": seed,
            "batch_size": self.batch_size,
            "num_batches": self.batches,
        }
        pace = self.paces[method]
        about = {"history_free": pace.history_free, "stateless": pace.stateless}
        return self.folder.write_pass(identity | more, trace, self.facts | about)


def _segments(shifts: Sequence[str], batches: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for place, shift in enumerate(shifts):
        visit = 1 + sum(one["shift"] == shift for one in found)
        name = f"{shift} visit {visit}" if visit > 1 else shift
        where = {"first": place * batches, "batches": batches, "severity": None, "visit": visit}
        found.append({"shift": shift, "name": name, **where})
    return found


def _manifest(
    run: _Maker,
    methods: Mapping[str, Pace],
    shifts: Mapping[str, float],
    seeds: Sequence[int],
    finished: bool,
) -> dict[str, Any]:
    reasons = [] if run.verdict == "VALID" else ["baseline drifted 9% during the run"]
    return {
        "config": {},
        "dataset": "made_up",
        "severity": 5,
        "machine": {
            "cpu": "A Processor",
            "cores": 2,
            "threads": 1,
            "device": "cpu",
            "system": "Linux",
            "python": "3.11.7",
            "versions": {"tempora": "0.1.0", "torch": "2.15.0"},
            "commit": "abb223ec3cbc9fcc881ff1a433f6ae829a7e7676",
            "dirty": False,
            "command": ["tempora", "run", "--model", run.model, "--out", "runs/made up"],
        },
        "model": run.model,
        "methods": list(methods),
        "shifts": list(shifts),
        "seeds": list(seeds),
        "batch_size": run.batch_size,
        "batches": dict.fromkeys(shifts, run.batches),
        "scenarios": [to_record(scenario) for scenario in run.scenarios],
        "cards": {"scenarios": Cards(scenario_cards(run.scenarios)).to_json()["scenarios"]},
        "shared": True,
        "baseline": {"baseline_ms": BASELINE_MS, "mean_ms": 38.0, "median_ms": 38.0, "sd_ms": 0.3},
        "provision_ms": (BASELINE_MS - 38.0) * run.batches,
        "finished": finished,
        "verdict": {
            "status": run.verdict,
            "reasons": reasons,
            "text": "; ".join(
                [f"{run.verdict}: {reasons[0]}", "close other programs"] if reasons else ["VALID"]
            ),
        },
    }
