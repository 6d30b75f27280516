"""Run folders made up for tests and benchmarks, written pass by pass as the engine writes them: numpy streams, the
real scenarios, nothing run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tempora_tta.cards import Cards, scenario_cards
from tempora_tta.scenarios import (
    Amortised,
    Continuous,
    Discrete,
    Offline,
    Scenario,
    relative_grid,
    route,
    to_record,
)
from tempora_tta.store import (
    ADAPTED,
    FROZEN,
    Cell,
    Results,
    RunFolder,
    Trace,
    open_run,
    utilities_frame,
    utility_row,
)
from tempora_tta.store.record import RunRecord, made_with
from tempora_tta.store.resources import Resources

BASELINE_MS, BATCHES, BATCH_SIZE = 10.0, 40, 50
GRID: tuple[Scenario, ...] = (
    Offline(),
    Discrete(interval_ms=10.0),
    Discrete(interval_ms=25.0),
    Continuous(threshold_ms=15.0),
    Amortised(budget_ms=60.0),
    Amortised(budget_ms=2000.0),
)
WIDE_GRID: tuple[Scenario, ...] = (Offline(), *relative_grid())


class Pace(NamedTuple):
    """Behaviour of a made-up method: how long it takes, and what share of its answers is right on average."""

    predict_ms: float
    adapt_ms: float
    accuracy: float


METHODS = {
    "standard": Pace(9.0, 0.0, 0.30),
    "adabn": Pace(10.5, 0.0, 0.44),
    "lame": Pace(11.0, 0.0, 0.24),
    "tent": Pace(10.0, 14.0, 0.54),
    "sar": Pace(10.0, 31.0, 0.56),
}
MACHINE = {
    "cpu": "Some CPU",
    "cores": 2,
    "threads": 2,
    "device": "cpu",
    "system": "Linux",
    "python": "3.11.7",
    "versions": {"tempora": "0.1.0", "torch": "2.6"},
    "commit": "abb223ec3cbc9fcc881ff1a433f6ae829a7e7676",
    "dirty": False,
    "command": ["tempora", "run", "--model", "a_net", "--out", "runs/made up"],
}


def write_run(
    folder: Path,
    *,
    methods: Mapping[str, Pace] = METHODS,
    scenarios: Sequence[Scenario] = GRID,
    shifts: Sequence[str] = ("fog", "snow"),
    seeds: Sequence[int] = (1,),
    batches: int = BATCHES,
    batch_size: int = BATCH_SIZE,
    model: str = "a_net",
    uncertainty: float = 0.0,
    verdict: str = "VALID",
    judged: bool = True,
    luck: int = 0,
    identity: Mapping[str, Mapping[str, Any]] | None = None,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    broken: Mapping[str, str] | None = None,
    variation: Sequence[float] = (),
    segments: Sequence[str] = (),
    clock: str | None = None,
    machine: Mapping[str, Any] | None = None,
    **manifest: Any,
) -> Results:
    """A finished run. `luck` reseeds what each method gets right, not how hard the batches are; `identity` and
    `facts` are a method's own; `broken` says why methods failed; `variation` the device's factors, batch after batch,
    if the clock keeps them apart; `segments` the shifts that every stream goes through, all of one length; `machine`
    replaces facts about the machine. A measured run is `judged` when it is finished; what its times leave open takes
    a while to work out, so that only runs of some `uncertainty` are measured unless `clock` says so."""
    clock = clock or ("measured" if uncertainty else "recorded")
    common = {
        "model": model,
        "clock": clock,
        "batch_size": batch_size,
        "num_batches": batches,
        "machine": "Some CPU",
    }
    known: dict[str, Any] = {"timing_uncertainty": uncertainty, "verdict": {"status": verdict, "reasons": []}}
    if segments:
        known["segments"] = _segments(segments, batches // len(segments))
    identities = {method: {"name": method, **(identity or {}).get(method, {})} for method in methods}
    with RunFolder.for_writing(folder) as target:
        rows: list[dict[str, Any]] = []
        for shift in shifts:
            for seed in seeds:
                stream = _Stream(target, shift, seed, common, known, luck, tuple(variation))
                for method, pace in methods.items():
                    own = _Method(
                        method,
                        pace,
                        identities[method],
                        {
                            "history_free": method in ("standard", "lame", "adabn"),
                            "stateless": method in ("standard", "lame"),
                            **(facts or {}).get(method, {}),
                        },
                        (broken or {}).get(method),
                    )
                    rows += stream.rows(own, scenarios)
        target.write_utilities(utilities_frame(rows))
        reasons = [] if verdict == "VALID" else ["baseline drifted 9 % during the run"]
        said = "; ".join([f"{verdict}: {reasons[0]}", "close other programs"]) if reasons else verdict
        record = RunRecord.model_validate(
            {
                "config": None,
                "dataset": "made_up",
                "severity": 5,
                "machine": MACHINE | dict(machine or {}),
                "model": model,
                "methods": list(methods),
                "shifts": list(shifts),
                "seeds": list(seeds),
                "batch_size": batch_size,
                "batches": dict.fromkeys(shifts, batches),
                "scenarios": [to_record(scenario) for scenario in scenarios],
                "cards": {"scenarios": Cards(scenario_cards(scenarios)).to_json()["scenarios"]},
                "weights": next(iter(identities.values()), {}).get("weights", "w"),
                "method_settings": {method: made_with(one) for method, one in identities.items()},
                "clock": clock,
                "baseline": {"baseline_ms": BASELINE_MS},
                "finished": True,
                "verdict": {"status": verdict, "reasons": reasons, "text": said} if judged else None,
                **manifest,
            }
        )
        target.write_manifest(record)
    return open_run(folder)


measured_run = partial(write_run, clock="measured")


def _segments(shifts: Sequence[str], batches: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for place, shift in enumerate(shifts):
        visit = 1 + sum(one["shift"] == shift for one in found)
        name = f"{shift} visit {visit}" if visit > 1 else shift
        where = {"first": place * batches, "batches": batches, "severity": None, "visit": visit}
        found.append({"shift": shift, "name": name, **where})
    return found


class _Method(NamedTuple):
    label: str
    pace: Pace
    identity: dict[str, Any]
    facts: dict[str, Any]
    broken: str | None

    @property
    def promises(self) -> dict[str, bool]:
        return {name: self.facts[name] for name in ("history_free", "stateless")}


@dataclass
class _Stream:
    """One shift in one order."""

    folder: RunFolder
    shift: str
    seed: int
    common: dict[str, Any]
    facts: dict[str, Any]
    luck: int
    variation: tuple[float, ...]

    def __post_init__(self) -> None:
        self.batches, self.batch_size = self.common["num_batches"], self.common["batch_size"]
        generator = np.random.default_rng([self.seed, len(self.shift)])
        self.ease = generator.integers(-8, 9, self.batches)
        self.pace = generator.uniform(0.97, 1.03, self.batches)
        self.standard = ""

    def rows(self, method: _Method, scenarios: Sequence[Scenario]) -> list[dict[str, Any]]:
        offline = self._offline(method)
        key = self._write(method, "offline", offline)
        if method.label == "standard":
            self.standard = key
        return [self._row(method, place, scenario, offline, key) for place, scenario in enumerate(scenarios)]

    def _offline(self, method: _Method) -> Trace:
        predict_ms, adapt_ms, accuracy = method.pace
        generator = np.random.default_rng([self.seed, self.luck, len(method.label)])
        right = round(accuracy * self.batch_size) + self.ease + generator.integers(-2, 3, self.batches)
        trace = Trace.empty(self.batches, self.batch_size)
        trace.phase[:] = ADAPTED
        trace.correct[:] = np.clip(right, 0, self.batch_size)
        trace.predicted[:] = 0
        trace.action[:] = "step" if adapt_ms else "none"
        # Clocks count nanoseconds.
        trace.predict_ms[:] = np.round(predict_ms * self.pace, 6)
        trace.adapt_ms[:] = np.round(adapt_ms * self.pace, 6)
        if self.variation:
            trace.residual[:] = np.resize(np.asarray(self.variation), self.batches)
        return trace.on_timeline(Offline().resolve(num_batches=self.batches))

    def _row(
        self, method: _Method, place: int, scenario: Scenario, offline: Trace, key: str
    ) -> dict[str, Any]:
        """A cell, its passes shared as the engine shares them."""
        cell = Cell(
            *(method.label, self.common["model"], self.shift, self.seed, scenario, place, BASELINE_MS),
            origin="live" if isinstance(scenario, Offline) else "derived",
            adapting_pass=key,
            timing=self.facts["verdict"]["status"],
            timing_uncertainty=self.facts["timing_uncertainty"],
            resources=Resources.of(self.facts | method.facts),
        )
        reason = scenario.not_applicable(BASELINE_MS)
        if method.broken is not None or reason is not None:
            status = f"failed: {method.broken}" if method.broken is not None else f"not applicable: {reason}"
            return utility_row(replace(cell, status=status, adapting_pass=None), None)
        resolved = scenario.resolve(num_batches=self.batches, baseline_ms=BASELINE_MS)
        way = route(resolved, offline.offline_course(), **method.promises)
        if way.kind == "replay":
            return utility_row(replace(cell, origin="replayed"), offline)
        if way.kind == "live":
            frozen = self._frozen(offline, 0)
            frozen.predict_ms[:], frozen.adapt_ms[:] = 0.95 * BASELINE_MS, 0.0
            live = offline.on_timeline(resolved, frozen, frozen)
            live.correct[live.served] -= 3  # fewer batches to learn from: a replay would not know
            stored = self._write(method, "live", live, place=place)
            return utility_row(replace(cell, origin="live", adapting_pass=stored), live)
        if way.cutoff is None:
            return utility_row(cell, offline)
        tail = self.standard if method.facts["stateless"] else ""
        tail = tail or self._write(method, "tail", self._frozen(offline, way.cutoff), cutoff=way.cutoff)
        return utility_row(replace(cell, frozen_pass=tail), offline, self.folder.trace(tail))

    def _frozen(self, offline: Trace, cutoff: int) -> Trace:
        tail = Trace.empty(self.batches, self.batch_size)
        tail.phase[cutoff:] = FROZEN
        tail.correct[cutoff:] = offline.correct[cutoff:] - 5
        tail.predicted[cutoff:] = 0
        tail.action[cutoff:] = "none"
        return tail

    def _write(self, method: _Method, kind: str, trace: Trace, **more: Any) -> str:
        identity = {
            "kind": kind,
            "method": method.label,
            "settings": {},
            "shift": self.shift,
            "seed": self.seed,
            "data": self.shift,
            **self.common,
            **method.identity,
            **more,
        }
        return self.folder.write_pass(identity, trace, self.facts | method.facts).key
