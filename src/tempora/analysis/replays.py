"""What a run says about one deployment, evaluated or not: exactly, or not at all.

A deployment that was not evaluated still has an exact answer where the same batches would meet the same model
states as in a pass that was made: any patience, any schedule that skips nothing, any schedule of a method whose
predictions do not depend on earlier batches, any budget that lasts or whose frozen tail is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tempora.errors import TemporaError, unknown
from tempora.published.methods import STANDARD, order
from tempora.scenarios import Resolved, Scenario, decay
from tempora.store import ADAPTED, Cell, Results, StoredPass, Trace, utility_row

_STREAM = ["model", "shift", "seed"]
_DERIVED, _REPLAYED = "derived", "replayed"


@dataclass(frozen=True)
class Answers:
    """What each method gets out of one deployment, and who has no exact answer."""

    rows: pd.DataFrame
    """The columns of `utilities.parquet`, one row per method and stream, of the methods with an answer on every
    stream. `answer` is `evaluated` or `replayed`."""
    unanswered: dict[str, str]
    """Method -> why not."""
    worth: dict[tuple[str, str, int], pd.Series[float]]
    """(method, shift, seed) -> what each batch added to the utility."""


class _CannotAnswer(Exception):
    """The reason, for people."""


def answer(results: Results, scenario: Scenario, shifts: Sequence[str] | None = None) -> Answers:
    """Every method of a run under `scenario`, on all shifts of the run or some of them."""
    utilities = _of_shifts(results.utilities, shifts)
    reader = _Reader(results, utilities, scenario)
    found: list[dict[str, Any]] = []
    worth: dict[tuple[str, str, int], pd.Series[float]] = {}
    unanswered: dict[str, str] = {}
    streams = utilities[_STREAM].drop_duplicates()
    for method in sorted(utilities["method"].unique(), key=order):
        try:
            answers = [reader.answer(method, stream) for _, stream in streams.iterrows()]
        except _CannotAnswer as reason:
            unanswered[method] = str(reason)
            continue
        for row, trace in answers:
            found.append(row)
            worth[method, row["shift"], int(row["seed"])] = reader.worth(row, trace)
    return Answers(pd.DataFrame(found), unanswered, worth)


class _Reader:
    """One deployment asked of one run."""

    def __init__(self, results: Results, utilities: pd.DataFrame, scenario: Scenario) -> None:
        self._results, self._utilities, self._scenario = results, utilities, scenario
        self._folder = results.folder

    def answer(self, method: str, stream: pd.Series[Any]) -> tuple[dict[str, Any], Trace]:
        """The row of the method on a stream, and its trace on the deployment's clock."""
        rows = self._utilities[self._utilities["method"] == method]
        rows = rows[(rows[_STREAM] == stream).all(axis=1)]
        if rows.empty:
            raise _CannotAnswer(f"the run has no cell of it on {stream['shift']}, seed {stream['seed']}")
        evaluated = self._evaluated(rows)
        if evaluated is not None:
            return self._named(_as_dict(evaluated), "evaluated"), self._results.trace(
                evaluated, predictions=False
            )
        return self._replayed(rows)

    def worth(self, row: dict[str, Any], trace: Trace) -> pd.Series[float]:
        resolved = self._resolved(trace, float(row["baseline_ms"]))
        return batch_worth(trace, resolved.threshold_ms, resolved.baseline_ms)

    def _evaluated(self, rows: pd.DataFrame) -> pd.Series[Any] | None:
        """The row of exactly this deployment: it was run, or scored from a shared pass."""
        candidates = rows[(rows["protocol"] == self._scenario.protocol) & rows["batches"].notna()]
        for _, row in candidates.iterrows():
            count, baseline_ms = int(row["batches"]), float(row["baseline_ms"])
            evaluated = self._results.scenarios[int(row["scenario"])]
            asked, found = (
                one.resolve(num_batches=count, baseline_ms=baseline_ms) for one in (self._scenario, evaluated)
            )
            if _same(asked, found):
                if row["status"] != "ok":
                    raise _CannotAnswer(str(row["status"]))
                return row
        return None

    def _replayed(self, rows: pd.DataFrame) -> tuple[dict[str, Any], Trace]:
        offline = rows[(rows["protocol"] == "offline") & (rows["status"] == "ok")]
        if offline.empty:
            raise _CannotAnswer("it has no offline pass to replay")
        row = offline.iloc[0]
        stored = self._folder.stored(row["adapting_pass"])
        if stored.time_aware:
            raise _CannotAnswer("it looks at the clock, so every deployment is a run of its own")
        adapting = self._folder.trace(row["adapting_pass"], predictions=False)
        resolved = self._resolved(adapting, float(row["baseline_ms"]))
        course = adapting.course(resolved)
        beyond = ~course.adapted & (adapting.phase[course.served] == ADAPTED)
        if beyond.any() and not resolved.untimed_tail:
            raise _CannotAnswer(
                "the budget would run out, and how fast the model predicts when frozen there was not measured"
            )
        if course.evicted.size and not stored.history_free:
            raise _CannotAnswer("it would skip batches, and what it predicts then depends on which")
        frozen_pass = self._frozen_pass(rows, stored, course.cutoff) if beyond.any() else None
        frozen = None if frozen_pass is None else self._folder.trace(frozen_pass, predictions=False)
        cell = Cell(
            method=row["method"],
            model=row["model"],
            shift=row["shift"],
            seed=int(row["seed"]),
            scenario=self._scenario,
            scenario_index=-1,
            baseline_ms=float(row["baseline_ms"]),
            origin=_REPLAYED if course.evicted.size else _DERIVED,
            adapting_pass=row["adapting_pass"],
            frozen_pass=frozen_pass,
            verdict=row["verdict"],
            timing_uncertainty=float(stored.facts.get("timing_uncertainty", 0.0)),
        )
        scored = utility_row(cell, adapting, frozen)
        return self._named(scored, "replayed"), adapting.on_timeline(resolved, frozen)

    def _frozen_pass(self, rows: pd.DataFrame, stored: StoredPass, cutoff: int) -> str:
        """Where the batches after the cut-off are: in a tail frozen at the same batch, or in Standard's pass."""
        tails = rows[(rows["protocol"] == "amortised") & (rows["status"] == "ok")]
        tails = tails[(tails["cutoff"] == cutoff) & (tails["adapted_fraction"] < 1)]
        if not tails.empty:
            tail = tails.iloc[0]
            return str(tail["frozen_pass"] if isinstance(tail["frozen_pass"], str) else tail["adapting_pass"])
        if stored.stateless:
            runtime = stored.identity.get("runtime")
            name = f"{STANDARD}@{runtime}" if runtime else STANDARD
            standard = self._utilities[self._utilities["method"] == name]
            standard = standard[(standard[_STREAM] == rows.iloc[0][_STREAM]).all(axis=1)]
            standard = standard[(standard["protocol"] == "offline") & (standard["status"] == "ok")]
            if not standard.empty:
                return str(standard["adapting_pass"].iloc[0])
        raise _CannotAnswer(
            "the budget would run out, and how the model predicts when frozen there was not measured"
        )

    def _named(self, row: dict[str, Any], how: str) -> dict[str, Any]:
        """All rows get the asked deployment's name, whatever a grid called it."""
        knob = self._scenario.parameter
        value = getattr(self._scenario.deployment(), knob) if knob else None
        return {**row, "label": self._scenario.label, "value": value, "answer": how}

    def _resolved(self, trace: Trace, baseline_ms: float) -> Resolved:
        return self._scenario.resolve(num_batches=trace.num_batches, baseline_ms=baseline_ms)


def batch_worth(trace: Trace, threshold_ms: float, baseline_ms: float | None) -> pd.Series[float]:
    """What each batch of a placed trace added to its utility."""
    kappa = decay(trace.emission_ms - trace.arrived_ms, threshold_ms, baseline_ms)
    return pd.Series(np.where(trace.served, trace.accuracy * kappa, 0.0))


def _same(asked: Resolved, evaluated: Resolved) -> bool:
    """One deployment within rounding: a queue counts where batches arrive on their own, a rule with a budget."""
    if asked.arrivals != evaluated.arrivals:
        return False
    same_queue = asked.arrivals_ms is None or asked.queue == evaluated.queue
    same_rule = math.isinf(asked.budget_ms) or asked.rule == evaluated.rule
    times, others = (
        (one.threshold_ms, one.budget_ms, *(one.arrivals_ms or ())) for one in (asked, evaluated)
    )
    return same_queue and same_rule and np.allclose(times, others, rtol=1e-9, atol=0.0)


def _as_dict(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def _of_shifts(utilities: pd.DataFrame, shifts: Sequence[str] | None) -> pd.DataFrame:
    if utilities.empty:
        raise TemporaError("the run has no finished shift yet: let it finish, then ask again")
    for shift in shifts or ():
        if shift not in set(utilities["shift"]):
            raise unknown("shift of this run", shift, utilities["shift"].unique())
    return utilities if shifts is None else utilities[utilities["shift"].isin(shifts)]
