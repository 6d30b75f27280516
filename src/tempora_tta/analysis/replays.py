"""Answers of a run to one deployment, evaluated or not: exact, or none.

A deployment that was not evaluated still has an exact answer where `route` finds one in the passes that were made:
any patience, any schedule that loses nothing, any schedule of a method whose predictions do not depend on earlier
batches, any budget that lasts or whose frozen tail is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta.analysis.cells import counted, is_offline
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.published.methods import STANDARD, order
from tempora_tta.scenarios import Resolved, Scenario, route
from tempora_tta.scenarios.course import PERCENTILES
from tempora_tta.scenarios.routes import LIVE, REPLAY, TAIL
from tempora_tta.store import ADAPTED, Cell, Results, StoredPass, Trace, utility_row
from tempora_tta.store.resources import Resources
from tempora_tta.store.schema import STREAM_COLUMNS

FloatArray = NDArray[np.float64]
MISSED_BY_A_SHORT_STREAM = 0.05
"""Share of the batches: a method that serves this much less of a stream without end than of the one that was
evaluated has an answer about the beginning of a deployment."""
NO_OFFLINE_PASS = "it has no offline pass to replay"
NO_FROZEN_TAIL = "the budget would run out, and how the model predicts when frozen there was not measured"


@dataclass(frozen=True)
class Replay:
    """One method on one stream under a deployment."""

    row: dict[str, Any]
    """The columns of `utilities.parquet`; `answer` is `evaluated` or `replayed`."""
    trace: Trace
    """Placed on the deployment's clock."""
    resolved: Resolved

    @cached_property
    def worth(self) -> FloatArray:
        """Utility that each batch added."""
        return self.trace.worth(self.resolved)

    @cached_property
    def response_ms(self) -> FloatArray:
        """Time until each batch, or frame where these count, was answered: infinite if lost, NaN if not timed."""
        answered = np.where(self.trace.served, self.trace.response_ms(self.resolved), np.inf)
        return self.resolved.value.responses(answered).ravel()

    @property
    def lasting_share(self) -> float:
        return lasting_share(self.resolved, self.trace)

    def mean_ms(self, times: FloatArray) -> float:
        """Return the mean of `times` over the batches that were served and timed."""
        timed = self.trace.served & ~np.isnan(self.trace.predict_ms)
        return float(np.nanmean(times[timed])) if timed.any() else np.nan


@dataclass(frozen=True)
class Answers:
    """Utility of each method in one deployment, and the methods without an exact answer."""

    rows: pd.DataFrame
    """The rows of `streams`, of the methods with an answer on every stream."""
    streams: Mapping[tuple[str, str, int], Replay] = field(default_factory=dict)
    """By method, shift and seed."""
    unanswered: Mapping[str, str] = field(default_factory=dict)
    """Method -> why not."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Method -> the error that it ended with: measuring again would not help."""

    def of(self, method: str) -> list[Replay]:
        """Return a method's replays, stream by stream."""
        return [one for (name, *_), one in self.streams.items() if name == method]

    @property
    def varying(self) -> bool:
        """True if the device's own variation is known behind the times of all methods."""
        return all(varies(one.trace) for one in self.streams.values())


class _CannotAnswer(Exception):
    """The reason, for people."""


class _Failed(_CannotAnswer):
    """The method was tried and failed."""


def answer(results: Results, scenario: Scenario, shifts: Sequence[str] | None = None) -> Answers:
    """Replay every method of a run under `scenario`, on all shifts of the run (clean apart) or on the named ones."""
    utilities = counted(results.contenders) if shifts is None else of_shifts(results.contenders, shifts)
    if utilities.empty:
        raise TemporaError("the run has no finished shift yet: let it finish, then ask again")
    reader = _Reader(results, utilities, scenario)
    streams = [stream for _, stream in utilities[STREAM_COLUMNS].drop_duplicates().iterrows()]
    found: dict[tuple[str, str, int], Replay] = {}
    unanswered, failed = {}, {}
    for method in sorted(utilities["method"].unique(), key=order):
        try:
            replays = [reader.replay(method, stream) for stream in streams]
        except _Failed as reason:
            failed[method] = str(reason)
        except _CannotAnswer as reason:
            unanswered[method] = str(reason)
        else:
            found |= {(method, one.row["shift"], int(one.row["seed"])): one for one in replays}
    return Answers(pd.DataFrame([one.row for one in found.values()]), found, unanswered, failed)


def of_shifts(utilities: pd.DataFrame, shifts: Sequence[str]) -> pd.DataFrame:
    """Return the rows of some shifts; raise TemporaError if the run has not evaluated one of them."""
    for shift in shifts:
        if shift not in set(utilities["shift"]):
            raise unknown("shift of this run", shift, utilities["shift"].unique())
    return utilities[utilities["shift"].isin(shifts)]


class _Reader:
    """One deployment asked of one run."""

    def __init__(self, results: Results, utilities: pd.DataFrame, scenario: Scenario) -> None:
        self._results, self._utilities, self._scenario = results, utilities, scenario
        self._folder = results.folder

    def replay(self, method: str, stream: pd.Series[Any]) -> Replay:
        rows = self._utilities[self._utilities["method"] == method]
        rows = on_stream(rows, stream)
        if rows.empty:
            raise _CannotAnswer(f"the run has no cell of it on {stream['shift']}, seed {stream['seed']}")
        evaluated = self._evaluated(rows)
        if evaluated is not None:
            row = {str(name): value for name, value in evaluated.items()}
            return self._placed(row, self._results.trace(evaluated, predictions=False), "evaluated")
        status = rows["status"].astype(str)
        if status.str.startswith("failed").all():
            raise _Failed(status.iloc[0])
        return self._replayed(rows)

    def _placed(self, row: dict[str, Any], trace: Trace, how: str) -> Replay:
        """Give a row the name of the asked deployment, which a grid may call otherwise."""
        resolved = self._resolved(row, trace.num_batches)
        named = {"label": self._scenario.label, "value": self._scenario.value(resolved), "answer": how}
        return Replay({**row, **named}, trace, resolved)

    def _evaluated(self, rows: pd.DataFrame) -> pd.Series[Any] | None:
        """Return the row of exactly this deployment: it was run, or scored from a shared pass."""
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
        """Tell whether the device's own variation is kept apart from the times, to be applied or not."""
        key = row["adapting_pass"]
        return isinstance(key, str) and self._folder.trace(key, predictions=False).steady

    def _replayed(self, rows: pd.DataFrame) -> Replay:
        row = offline_row(self._results, rows)
        if row is None:
            raise _CannotAnswer(NO_OFFLINE_PASS)
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
        if way.kind == LIVE:
            raise _CannotAnswer(way.why)
        if way.kind == TAIL and not resolved.untimed_tail:
            raise _CannotAnswer(
                "the budget would run out, and how fast the model predicts when frozen there was not measured"
            )
        frozen_pass = None if way.cutoff is None else self._frozen_pass(rows, stored, way.cutoff)
        fallback_pass = None
        if way.kind == REPLAY and resolved.takes_standards_time:
            fallback_pass = standard_pass(self._results, rows, stored)
            if fallback_pass is None:
                raise _CannotAnswer("the fallback takes Standard's time, and the run has no pass of Standard")
        frozen, fallback = (
            None if key is None else self._folder.trace(key, predictions=False)
            for key in (frozen_pass, fallback_pass)
        )
        cell = Cell(
            method=row["method"],
            model=row["model"],
            shift=row["shift"],
            seed=int(row["seed"]),
            scenario=self._scenario,
            scenario_index=-1,
            baseline_ms=float(row["baseline_ms"]),
            origin="replayed" if way.kind == REPLAY else "derived",
            adapting_pass=row["adapting_pass"],
            frozen_pass=frozen_pass,
            fallback_pass=fallback_pass,
            timing=row["timing"],
            timing_uncertainty=float(stored.facts.get("timing_uncertainty", 0.0)),
            resources=Resources.of(stored.facts),
        )
        scored = utility_row(cell, adapting, frozen, fallback)
        return self._placed(scored, adapting.on_timeline(resolved, frozen, fallback), "replayed")

    def _frozen_pass(self, rows: pd.DataFrame, stored: StoredPass, cutoff: int) -> str:
        """Return where the batches after the cut-off are: a tail frozen at the same batch, or Standard's pass."""
        tails = rows[(rows["cutoff"] == cutoff) & (rows["adapted_fraction"] < 1) & (rows["status"] == "ok")]
        # The stream waited for every batch up to there, so they met the same states.
        scenarios = [self._results.scenarios[number] for number in tails["scenario"].astype(int)]
        tails = tails[np.array([scenario.deployment().waits for scenario in scenarios], dtype=bool)]
        if not tails.empty:
            tail = tails.iloc[0]
            return str(tail["frozen_pass"] if isinstance(tail["frozen_pass"], str) else tail["adapting_pass"])
        standard = standard_pass(self._results, rows, stored) if stored.stateless else None
        if standard is None:
            raise _CannotAnswer(NO_FROZEN_TAIL)
        return standard

    def _resolved(
        self, row: Mapping[str, Any] | pd.Series[Any], num_batches: int, scenario: Scenario | None = None
    ) -> Resolved:
        return resolved_on(self._results, scenario or self._scenario, row, num_batches)


# -- passes --------------------------------------------------------------------------------------------------


def on_stream(rows: pd.DataFrame, stream: pd.Series[Any]) -> pd.DataFrame:
    """Return the rows of one stream, named by any row of it."""
    return rows[(rows[STREAM_COLUMNS] == stream[STREAM_COLUMNS]).all(axis=1)]


def offline_row(results: Results, rows: pd.DataFrame) -> pd.Series[Any] | None:
    """Return the finished row without pressure among the rows of one method and stream."""
    rows = rows[is_offline(rows, results.cards) & (rows["status"] == "ok")]
    return None if rows.empty else rows.iloc[0]


def standard_pass(results: Results, rows: pd.DataFrame, stored: StoredPass) -> str | None:
    """Return Standard's own pass over the stream of `rows`, in the same runtime as a stored pass."""
    runtime = stored.identity.get("runtime")
    utilities = results.contenders
    own = utilities[utilities["method"] == (f"{STANDARD}@{runtime}" if runtime else STANDARD)]
    found = offline_row(results, on_stream(own, rows.iloc[0]))
    return None if found is None else str(found["adapting_pass"])


def resolved_on(
    results: Results, scenario: Scenario, row: Mapping[str, Any] | pd.Series[Any], num_batches: int
) -> Resolved:
    """Return a deployment on the stream of a row, whichever scenario the row is of."""
    return scenario.resolve(
        num_batches=num_batches,
        batch_size=int(results.manifest["batch_size"]),
        baseline_ms=float(row["baseline_ms"]),
        seed=int(row["seed"]),
        shift=str(row["shift"]),
    )


def lasting_share(resolved: Resolved, trace: Trace) -> float:
    """Return the share of an endless stream that a pipeline serves at this pace, at a trace's mean service time."""
    arrivals_ms = resolved.arrivals_ms
    if arrivals_ms is None or len(arrivals_ms) < 2 or not trace.served.any():
        return 1.0
    interval_ms = (arrivals_ms[-1] - arrivals_ms[0]) / (len(arrivals_ms) - 1)
    service_ms = float(np.nanmean(busy_ms(resolved, trace)[trace.served]))
    return float(interval_ms / service_ms) if 0 < interval_ms < service_ms else 1.0


def busy_ms(resolved: Resolved, trace: Trace) -> FloatArray:
    """Return the time that each batch of a placed trace takes; of frames answered together, each has its part."""
    if not resolved.at_once:
        return trace.service_ms
    _, group, sizes = np.unique(trace.start_ms, return_inverse=True, return_counts=True)
    return trace.predict_ms / sizes[group] + trace.adapt_ms


def _same(asked: Resolved, evaluated: Resolved) -> bool:
    """Tell whether two deployments are one within rounding.

    Queue and fallback count where batches arrive on their own, a rule with a budget.
    """
    if asked.arrivals != evaluated.arrivals or asked.counts_frames != evaluated.counts_frames:
        return False
    if asked.at_once != evaluated.at_once:
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


# -- the device's own variation ------------------------------------------------------------------------------


def varies(trace: Trace) -> bool:
    """Tell whether the device's own variation is known behind a trace: apart from its times, or within them."""
    if trace.steady:
        return bool((np.nan_to_num(trace.residual, nan=1.0) != 1.0).any())
    rows = (trace.phase == ADAPTED) & ~np.isnan(trace.predict_ms)
    return any(np.unique(trace.predict_ms[rows & (trace.mode == mode)]).size > 1 for mode in set(trace.mode))


def with_variation(results: Results, scenario: Scenario) -> Scenario:
    """Put the device's own variation into a deployment, where the clock keeps it apart, for questions on the tail.

    A deployment that leaves it out by its own word is left alone.
    """
    deployment = scenario.deployment()
    passes = results.utilities["adapting_pass"].dropna()
    if deployment.residuals is not None or passes.empty:
        return scenario
    apart = results.folder.trace(str(passes.iloc[0]), predictions=False).steady
    return replace(deployment, residuals=True) if apart else scenario


def tail_note(results: Results, percent: int, known: bool) -> str:
    """Say what to know about a percentile of this run; nothing where the device's own tail is in it.

    `known`: the device's own variation is behind the times.
    """
    if not known:
        return "Percentiles cover queueing only: this clock has no variation of the device in it."
    samples = _clean_samples(results)
    if samples is None or samples >= PERCENTILES[percent]:
        return ""
    return (
        f"Percentiles: the device's own p{percent} is not known on this machine: its profile has {samples} clean "
        f"samples, it takes {PERCENTILES[percent]}."
    )


def _clean_samples(results: Results) -> int | None:
    """Return how many samples the residuals of the run's own profile come from; None without a profile of its own."""
    try:
        told = json.loads((results.path / "profile.json").read_text(encoding="utf-8"))
        return int(told["residuals"]["clean_samples"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
