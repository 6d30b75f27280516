"""Small run folders made up for tests, written pass by pass as the engine writes them, without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tempora.published.methods import HISTORY_FREE, STATELESS
from tempora.scenarios import Amortised, Continuous, Discrete, Offline, Resolved, Scenario, to_spec
from tempora.store import (
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
from tempora.store.resources import Resources

BASELINE_MS, BATCHES, BATCH_SIZE = 10.0, 40, 50
GRID: tuple[Scenario, ...] = (
    Offline(),
    Discrete(interval_ms=10.0),
    Discrete(interval_ms=25.0),
    Continuous(threshold_ms=15.0),
    Amortised(budget_ms=60.0),
    Amortised(budget_ms=2000.0),
)
METHODS: dict[str, tuple[float, float, int]] = {
    "standard": (9.0, 0.0, 15),
    "adabn": (10.5, 0.0, 22),
    "lame": (11.0, 0.0, 12),
    "tent": (10.0, 14.0, 27),
    "sar": (10.0, 31.0, 28),
}
"""predict_ms, adapt_ms, and how many of 50 samples are right on average."""


def write_run(
    folder: Path,
    *,
    methods: Mapping[str, tuple[float, float, int]] = METHODS,
    scenarios: Sequence[Scenario] = GRID,
    shifts: Sequence[str] = ("fog", "snow"),
    seeds: Sequence[int] = (1,),
    uncertainty: float = 0.0,
    verdict: str = "VALID",
    judged: bool = True,
    luck: int = 0,
    identity: Mapping[str, Any] | None = None,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    variation: Sequence[float] = (),
    clock: str | None = None,
    **manifest: Any,
) -> Results:
    """A finished run. `luck` reseeds what each method gets right, not how hard the batches are; `identity` and
    `facts` are a method's own; `variation` the device's factors, batch after batch, if the clock keeps them apart. A
    measured run is `judged` when it is finished; what its times leave open takes a while to work out, so that only
    runs of some `uncertainty` are measured unless `clock` says so."""
    clock = clock or ("measured" if uncertainty else "recorded")
    with RunFolder.for_writing(folder) as target:
        rows: list[dict[str, Any]] = []
        for shift in shifts:
            for seed in seeds:
                made = _Stream(target, shift, seed, uncertainty, verdict, luck, identity or {}, facts or {})
                made.clock = clock
                made.variation = variation
                for method, numbers in methods.items():
                    rows += made.rows(method, numbers, scenarios)
        target.write_utilities(utilities_frame(rows))
        target.write_manifest(
            {
                "config": None,
                "machine": {"cpu": "Some CPU", "threads": 2, "device": "cpu", "versions": {"torch": "2.6"}},
                "model": "net",
                "methods": list(methods),
                "shifts": list(shifts),
                "seeds": list(seeds),
                "batch_size": BATCH_SIZE,
                "batches": dict.fromkeys(shifts, BATCHES),
                "scenarios": [to_spec(scenario) for scenario in scenarios],
                "clock": clock,
                "baseline": {"baseline_ms": BASELINE_MS},
                "finished": True,
                "verdict": {"status": verdict, "reasons": [], "text": verdict} if judged else None,
                **manifest,
            }
        )
    return open_run(folder)


measured_run = partial(write_run, clock="measured")


class _Stream:
    """One shift in one order."""

    def __init__(
        self,
        folder: RunFolder,
        shift: str,
        seed: int,
        uncertainty: float,
        verdict: str,
        luck: int,
        identity: Mapping[str, Any],
        facts: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._folder, self._shift, self._seed, self._luck = folder, shift, seed, luck
        self._uncertainty, self._verdict, self._more, self._facts = uncertainty, verdict, identity, facts
        self._generator = np.random.default_rng([seed, len(shift)])
        self._ease = self._generator.integers(-8, 9, BATCHES)
        self._pace = self._generator.uniform(0.97, 1.03, BATCHES)
        self._standard = ""
        self.variation: Sequence[float] = ()
        self.clock = ""

    def rows(
        self, method: str, numbers: tuple[float, float, int], scenarios: Sequence[Scenario]
    ) -> list[dict[str, Any]]:
        offline = self._offline(method, numbers)
        key = self._write(method, "offline", offline)
        if method == "standard":
            self._standard = key
        return [self._row(method, place, scenario, offline, key) for place, scenario in enumerate(scenarios)]

    def _offline(self, method: str, numbers: tuple[float, float, int]) -> Trace:
        predict_ms, adapt_ms, right = numbers
        noise = np.random.default_rng([self._seed, self._luck, len(method)]).integers(-2, 3, BATCHES)
        trace = Trace.empty(BATCHES, BATCH_SIZE)
        trace.phase[:] = ADAPTED
        trace.correct[:] = np.clip(right + self._ease + noise, 0, BATCH_SIZE)
        trace.predicted[:] = 0
        trace.predict_ms[:], trace.adapt_ms[:] = predict_ms * self._pace, adapt_ms * self._pace
        if self.variation:
            trace.residual[:] = np.resize(np.asarray(self.variation), BATCHES)
        return trace.on_timeline(self._resolved(Offline()))

    def _row(self, method: str, place: int, scenario: Scenario, offline: Trace, key: str) -> dict[str, Any]:
        cell = Cell(
            *(method, "net", self._shift, self._seed, scenario, place, BASELINE_MS),
            origin="live" if isinstance(scenario, Offline) else "derived",
            adapting_pass=key,
            timing=self._verdict,
            timing_uncertainty=self._uncertainty,
            resources=Resources.of(self._about(method)),
        )
        reason = scenario.not_applicable(BASELINE_MS)
        if reason is not None:
            return utility_row(replace(cell, status=f"not applicable: {reason}", adapting_pass=None), None)
        resolved = self._resolved(scenario)
        course = offline.course(resolved)
        if course.evicted.size and self._about(method)["history_free"]:
            return utility_row(replace(cell, origin="replayed"), offline)
        if course.evicted.size:
            live = offline.on_timeline(resolved)
            live.correct[live.served] -= 3  # fewer batches to learn from: a replay would not know
            stored = self._write(method, "live", live, place=place)
            return utility_row(replace(cell, origin="live", adapting_pass=stored), live)
        if not course.adapted.all():
            frozen_pass = self._frozen(method, offline, course.cutoff)
            frozen = self._folder.trace(frozen_pass)
            return utility_row(replace(cell, frozen_pass=frozen_pass), offline, frozen)
        return utility_row(cell, offline)

    def _frozen(self, method: str, offline: Trace, cutoff: int) -> str:
        if self._about(method)["stateless"]:
            return self._standard
        tail = Trace.empty(BATCHES, BATCH_SIZE)
        tail.phase[cutoff:] = FROZEN
        tail.correct[cutoff:] = offline.correct[cutoff:] - 5
        tail.predicted[cutoff:] = 0
        return self._write(method, "tail", tail, cutoff=cutoff)

    def _write(self, method: str, kind: str, trace: Trace, **more: Any) -> str:
        identity = {
            "kind": kind,
            "model": "net",
            "method": method,
            "name": method,
            "settings": {},
            "shift": self._shift,
            "seed": self._seed,
            "data": self._shift,
            "clock": self.clock,
            "batch_size": BATCH_SIZE,
            "num_batches": BATCHES,
            "machine": "Some CPU",
            **self._more.get(method, {}),
            **more,
        }
        return self._folder.write_pass(identity, trace, self._about(method)).key

    def _about(self, method: str) -> dict[str, Any]:
        """The facts of a method's passes."""
        return {
            "timing_uncertainty": self._uncertainty,
            "verdict": {"status": self._verdict},
            "history_free": method in HISTORY_FREE,
            "stateless": method in STATELESS,
            **self._facts.get(method, {}),
        }

    def _resolved(self, scenario: Scenario) -> Resolved:
        return scenario.resolve(num_batches=BATCHES, baseline_ms=BASELINE_MS)
