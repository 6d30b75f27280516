"""What a run says about one deployment, evaluated or not: exactly, or not at all.

A deployment that was not evaluated still has an exact answer where `route` finds one in the passes that were made:
any patience, any schedule that loses nothing, any schedule of a method whose predictions do not depend on earlier
batches, any budget that lasts or whose frozen tail is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta.analysis.cells import counted, is_offline
from tempora_tta.analysis.tails import FloatArray, varies
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.published.methods import STANDARD, order
from tempora_tta.scenarios import Resolved, Scenario, route
from tempora_tta.store import Cell, Results, StoredPass, Trace, utility_row
from tempora_tta.store.resources import Resources
from tempora_tta.store.schema import STREAM_COLUMNS

_DERIVED, _REPLAYED = "derived", "replayed"
MISSED_BY_A_SHORT_STREAM = 0.05
"""Share of the batches: a method that serves this much less of a stream without end than of the one that was
evaluated has an answer about the beginning of a deployment."""


@dataclass(frozen=True)
class Answers:
    """What each method gets out of one deployment, and who has no exact answer."""

    rows: pd.DataFrame
    """The columns of `utilities.parquet`, one row per method and stream, of the methods with an answer on every
    stream. `answer` is `evaluated` or `replayed`."""
    unanswered: dict[str, str]
    """Method -> why not."""
    failed: dict[str, str]
    """Method -> the error that it ended with: measuring again would not help."""
    worth: dict[tuple[str, str, int], pd.Series[float]]
    """(method, shift, seed) -> what each batch added to the utility."""
    phase: dict[tuple[str, str, int], NDArray[np.int8]]
    """The same -> the phase of each batch."""
    response_ms: dict[tuple[str, str, int], FloatArray] = field(default_factory=dict)
    """(method, shift, seed) -> how long each batch, or frame where these count, took to be answered: infinite if
    lost, NaN if not timed."""
    sustained: dict[tuple[str, str, int], float] = field(default_factory=dict)
    """(method, shift, seed) -> the share of a stream without end that the pipeline could serve at this pace."""
    mean_ms: dict[tuple[str, str, int], tuple[float, float]] = field(default_factory=dict)
    """The same -> mean time of a served batch until its prediction, and until the pipeline is free again."""
    varying: bool = True
    """Whether the device's own variation is known behind the times of all of them."""


class _CannotAnswer(Exception):
    """The reason, for people."""


class _Failed(_CannotAnswer):
    """The method was tried and failed."""


def answer(results: Results, scenario: Scenario, shifts: Sequence[str] | None = None) -> Answers:
    """Every method of a run under `scenario`, on all shifts of the run (clean apart) or those that are named."""
    utilities = counted(results.contenders) if shifts is None else _of_shifts(results.contenders, shifts)
    if utilities.empty:
        raise TemporaError("the run has no finished shift yet: let it finish, then ask again")
    reader = _Reader(results, utilities, scenario)
    found: list[dict[str, Any]] = []
    worth: dict[tuple[str, str, int], pd.Series[float]] = {}
    phase: dict[tuple[str, str, int], NDArray[np.int8]] = {}
    response_ms: dict[tuple[str, str, int], FloatArray] = {}
    sustained: dict[tuple[str, str, int], float] = {}
    mean_ms: dict[tuple[str, str, int], tuple[float, float]] = {}
    unanswered: dict[str, str] = {}
    failed: dict[str, str] = {}
    varying = True
    streams = utilities[STREAM_COLUMNS].drop_duplicates()
    for method in sorted(utilities["method"].unique(), key=order):
        try:
            answers = [reader.answer(method, stream) for _, stream in streams.iterrows()]
        except _Failed as reason:
            failed[method] = str(reason)
            continue
        except _CannotAnswer as reason:
            unanswered[method] = str(reason)
            continue
        for row, trace in answers:
            found.append(row)
            key = (method, row["shift"], int(row["seed"]))
            worth[key], response_ms[key] = reader.worth(row, trace), reader.response_ms(row, trace)
            phase[key], sustained[key] = trace.phase, reader.lasting_share(row, trace)
            mean_ms[key] = _mean_times(trace)
            varying = varying and varies(trace)
    rows = pd.DataFrame(found)
    return Answers(rows, unanswered, failed, worth, phase, response_ms, sustained, mean_ms, varying)


class _Reader:
    """One deployment asked of one run."""

    def __init__(self, results: Results, utilities: pd.DataFrame, scenario: Scenario) -> None:
        self._results, self._utilities, self._scenario = results, utilities, scenario
        self._folder = results.folder

    def answer(self, method: str, stream: pd.Series[Any]) -> tuple[dict[str, Any], Trace]:
        """The row of the method on a stream, and its trace on the deployment's clock."""
        rows = self._utilities[self._utilities["method"] == method]
        rows = rows[(rows[STREAM_COLUMNS] == stream).all(axis=1)]
        if rows.empty:
            raise _CannotAnswer(f"the run has no cell of it on {stream['shift']}, seed {stream['seed']}")
        evaluated = self._evaluated(rows)
        if evaluated is not None:
            return self._named(_as_dict(evaluated), "evaluated"), self._results.trace(
                evaluated, predictions=False
            )
        status = rows["status"].astype(str)
        if status.str.startswith("failed").all():
            raise _Failed(status.iloc[0])
        return self._replayed(rows)

    def worth(self, row: dict[str, Any], trace: Trace) -> pd.Series[float]:
        return pd.Series(trace.worth(self._resolved(row, trace.num_batches)))

    def lasting_share(self, row: dict[str, Any], trace: Trace) -> float:
        return lasting_share(self._resolved(row, trace.num_batches), trace)

    def response_ms(self, row: dict[str, Any], trace: Trace) -> FloatArray:
        resolved = self._resolved(row, trace.num_batches)
        answered = np.where(trace.served, trace.response_ms(resolved), np.inf)
        return resolved.value.responses(answered).ravel()

    def _evaluated(self, rows: pd.DataFrame) -> pd.Series[Any] | None:
        """The row of exactly this deployment: it was run, or scored from a shared pass."""
        candidates = rows[(rows["protocol"] == self._scenario.protocol) & rows["batches"].notna()]
        for _, row in candidates.iterrows():
            count = int(row["batches"])
            evaluated = self._results.scenarios[int(row["scenario"])]
            asked, other = self._resolved(row, count), self._resolved(row, count, evaluated)
            if _same(asked, other) and (asked.residuals == other.residuals or not self._apart(row)):
                if row["status"] != "ok":
                    status = str(row["status"])
                    raise _Failed(status) if status.startswith("failed") else _CannotAnswer(status)
                return row
        return None

    def _apart(self, row: pd.Series[Any]) -> bool:
        """Whether the device's own variation is kept apart from the times, to be applied or not."""
        key = row["adapting_pass"]
        return isinstance(key, str) and self._folder.trace(key, predictions=False).steady

    def _replayed(self, rows: pd.DataFrame) -> tuple[dict[str, Any], Trace]:
        offline = self._offline(rows)
        if offline.empty:
            raise _CannotAnswer("it has no offline pass to replay")
        row = offline.iloc[0]
        stored = self._folder.stored(row["adapting_pass"])
        adapting = self._folder.trace(row["adapting_pass"], predictions=False)
        resolved = self._resolved(row, adapting.num_batches)
        way = route(
            resolved,
            adapting.on_device(resolved).offline_course(),
            history_free=stored.history_free,
            stateless=stored.stateless,
            time_aware=stored.time_aware,
        )
        if way.kind == "live":
            raise _CannotAnswer(way.why)
        if way.kind == "tail" and not resolved.untimed_tail:
            raise _CannotAnswer(
                "the budget would run out, and how fast the model predicts when frozen there was not measured"
            )
        frozen_pass = None if way.cutoff is None else self._frozen_pass(rows, stored, way.cutoff)
        frozen = None if frozen_pass is None else self._folder.trace(frozen_pass, predictions=False)
        fallback_pass = None
        if way.kind == "replay" and resolved.fallback is not None:
            fallback_pass = self._standard_pass(rows, stored)
            if fallback_pass is None:
                raise _CannotAnswer("the fallback takes Standard's time, and the run has no pass of Standard")
        fallback = None if fallback_pass is None else self._folder.trace(fallback_pass, predictions=False)
        cell = Cell(
            method=row["method"],
            model=row["model"],
            shift=row["shift"],
            seed=int(row["seed"]),
            scenario=self._scenario,
            scenario_index=-1,
            baseline_ms=float(row["baseline_ms"]),
            origin=_REPLAYED if way.kind == "replay" else _DERIVED,
            adapting_pass=row["adapting_pass"],
            frozen_pass=frozen_pass,
            fallback_pass=fallback_pass,
            timing=row["timing"],
            timing_uncertainty=float(stored.facts.get("timing_uncertainty", 0.0)),
            resources=Resources.of(stored.facts),
        )
        scored = utility_row(cell, adapting, frozen, fallback)
        return self._named(scored, "replayed"), adapting.on_timeline(resolved, frozen, fallback)

    def _offline(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows[is_offline(rows, self._results.cards) & (rows["status"] == "ok")]

    def _frozen_pass(self, rows: pd.DataFrame, stored: StoredPass, cutoff: int) -> str:
        """Where the batches after the cut-off are: in a tail frozen at the same batch, or in Standard's pass."""
        tails = rows[(rows["cutoff"] == cutoff) & (rows["adapted_fraction"] < 1) & (rows["status"] == "ok")]
        # The stream waited for every batch up to there, so they met the same states.
        scenarios = [self._results.scenarios[number] for number in tails["scenario"].astype(int)]
        tails = tails[np.array([scenario.deployment().waits for scenario in scenarios], dtype=bool)]
        if not tails.empty:
            tail = tails.iloc[0]
            return str(tail["frozen_pass"] if isinstance(tail["frozen_pass"], str) else tail["adapting_pass"])
        standard = self._standard_pass(rows, stored) if stored.stateless else None
        if standard is None:
            raise _CannotAnswer(
                "the budget would run out, and how the model predicts when frozen there was not measured"
            )
        return standard

    def _standard_pass(self, rows: pd.DataFrame, stored: StoredPass) -> str | None:
        """Standard's own pass over the same stream, in the same runtime."""
        runtime = stored.identity.get("runtime")
        name = f"{STANDARD}@{runtime}" if runtime else STANDARD
        standard = self._utilities[self._utilities["method"] == name]
        standard = standard[(standard[STREAM_COLUMNS] == rows.iloc[0][STREAM_COLUMNS]).all(axis=1)]
        standard = self._offline(standard)
        return None if standard.empty else str(standard["adapting_pass"].iloc[0])

    def _named(self, row: dict[str, Any], how: str) -> dict[str, Any]:
        """All rows get the asked deployment's name, whatever a grid called it."""
        value = self._scenario.value(self._resolved(row, int(row["batches"])))
        return {**row, "label": self._scenario.label, "value": value, "answer": how}

    def _resolved(
        self,
        row: Mapping[str, Any] | pd.Series[Any],
        num_batches: int,
        scenario: Scenario | None = None,
    ) -> Resolved:
        """The asked deployment, or that of another `scenario`, on the stream of a row."""
        return (scenario or self._scenario).resolve(
            num_batches=num_batches,
            batch_size=int(self._results.manifest["batch_size"]),
            baseline_ms=float(row["baseline_ms"]),
            seed=int(row["seed"]),
            shift=str(row["shift"]),
        )


def _mean_times(trace: Trace) -> tuple[float, float]:
    timed = trace.served & ~np.isnan(trace.predict_ms)
    if not timed.any():
        return np.nan, np.nan
    return float(trace.predict_ms[timed].mean()), float(np.nanmean(trace.service_ms[timed]))


def lasting_share(resolved: Resolved, trace: Trace) -> float:
    """The share of a stream without end that a pipeline serves at this pace, at the mean service time of a trace."""
    arrivals_ms = resolved.arrivals_ms
    if arrivals_ms is None or len(arrivals_ms) < 2 or not trace.served.any():
        return 1.0
    interval_ms = (arrivals_ms[-1] - arrivals_ms[0]) / (len(arrivals_ms) - 1)
    service_ms = float(np.nanmean(trace.service_ms[trace.served]))
    return float(interval_ms / service_ms) if 0 < interval_ms < service_ms else 1.0


def _same(asked: Resolved, evaluated: Resolved) -> bool:
    """One deployment within rounding: queue and fallback count where batches arrive on their own, a rule with a
    budget."""
    if asked.arrivals != evaluated.arrivals or asked.counts_frames != evaluated.counts_frames:
        return False
    same_queue, same_fallback = asked.queue == evaluated.queue, _fallback(asked) == _fallback(evaluated)
    same_rule = not asked.has_budget or asked.rule == evaluated.rule
    times, others = (
        (one.threshold_ms, one.deadline_ms, one.budget_ms, *one.waited_ms, *(one.arrivals_ms or ()))
        for one in (asked, evaluated)
    )
    return (
        (asked.waits or (same_queue and same_fallback))
        and same_rule
        and np.allclose(times, others, rtol=1e-9, atol=0.0)
    )


def _fallback(resolved: Resolved) -> tuple[str, str] | None:
    return None if resolved.fallback is None else (resolved.fallback, resolved.fallback_cost)


def _as_dict(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def _of_shifts(utilities: pd.DataFrame, shifts: Sequence[str]) -> pd.DataFrame:
    for shift in shifts:
        if shift not in set(utilities["shift"]):
            raise unknown("shift of this run", shift, utilities["shift"].unique())
    return utilities[utilities["shift"].isin(shifts)]
