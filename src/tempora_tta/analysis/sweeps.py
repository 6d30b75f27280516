"""Utility along one knob: the exact answers of `replays`, for many values of the knob at once.

Three kinds of deployments have one knob that decides everything: a schedule (its interval), a user (their patience)
and a budget. Their values share the offline pass, so they are worked out next to each other in numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta.analysis.cells import is_offline
from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios import Deployment, Resolved, Scenario, route
from tempora_tta.scenarios.budget import afforded
from tempora_tta.scenarios.lanes import serve_lanes
from tempora_tta.scenarios.utility import decay
from tempora_tta.store import ADAPTED, Results, StoredPass, Trace
from tempora_tta.store.schema import STREAM_COLUMNS

FloatArray = NDArray[np.float64]


class Knob(NamedTuple):
    """The one knob of a deployment, and what it is set to otherwise."""

    name: str
    others: tuple[tuple[str, Any], ...] = ()

    def at(self, value: float) -> Deployment:
        """The deployment with the knob at this value."""
        return Deployment(**{**dict(self.others), self.name: float(value)})


_FORMS = {
    "interval_ms": ("interval_ms", "utilisation"),
    "threshold_ms": ("threshold_ms", "threshold_x"),
    "budget_ms": ("budget_ms", "budget_x", "budget_baselines"),
}
"""Fields of a deployment that set the knob."""


def knob_of(scenario: Scenario) -> Knob | None:
    """The knob that alone decides a scenario; None where there are several, or another one."""
    deployment = replace(scenario.deployment(), name=None)
    others: Mapping[str, tuple[tuple[str, Any], ...]] = {
        "interval_ms": (("queue", deployment.queue),),
        "threshold_ms": (("arrivals", "on_prediction"),),
        "budget_ms": (("arrivals", "on_completion"), ("rule", deployment.rule)),
    }
    name = scenario.parameter
    if name not in others:
        return None
    set_to = {one: getattr(deployment, one) for one in _FORMS[name]}
    return Knob(name, others[name]) if deployment == Deployment(**dict(others[name]), **set_to) else None


@dataclass(frozen=True)
class Sweep:
    """The utility of one method on one stream at each value; NaN where no exact answer is known."""

    utility: FloatArray
    why: str = ""
    """The reason, where there is any NaN."""
    batches: int = 1

    @classmethod
    def nothing(cls, why: str) -> Sweep:
        """No answer at any value."""
        return cls(np.array(np.nan), why)


@dataclass
class Sweeps:
    """The streams of a run; each pass is read once."""

    results: Results
    traces: dict[str, Trace] = field(default_factory=dict)

    def of(self, rows: pd.DataFrame, knob: Knob, values: FloatArray) -> Sweep:
        """The sweep of one method on one stream, given the rows of its cells there."""
        offline = self._offline(rows)
        if rows["status"].astype(str).str.startswith("failed").all():
            return Sweep.nothing(str(rows["status"].iloc[0]))
        if offline is None:
            return Sweep.nothing("it has no offline pass to replay")
        stored = self.results.folder.stored(offline["adapting_pass"])
        trace, resolved = self.trace(offline), self.resolved(knob.at(values[0]), offline)
        if stored.time_aware:
            return Sweep.nothing(route(resolved, time_aware=True).why)
        own = trace.on_device(resolved)
        if knob.name == "interval_ms":
            return self._intervals(own, stored, resolved, values)
        if knob.name == "threshold_ms":
            return self._patiences(own, resolved, values)
        return self._budgets(own, stored, resolved, values, rows)

    def trace(self, offline: pd.Series[Any]) -> Trace:
        key = str(offline["adapting_pass"])
        if key not in self.traces:
            self.traces[key] = self.results.folder.trace(key, predictions=False)
        return self.traces[key]

    def resolved(self, deployment: Scenario, row: pd.Series[Any]) -> Resolved:
        return deployment.resolve(
            num_batches=self.trace(row).num_batches,
            batch_size=int(self.results.manifest["batch_size"]),
            baseline_ms=float(row["baseline_ms"]),
            seed=int(row["seed"]),
            shift=str(row["shift"]),
        )

    def _offline(self, rows: pd.DataFrame) -> pd.Series[Any] | None:
        rows = rows[is_offline(rows, self.results.cards) & (rows["status"] == "ok")]
        return None if rows.empty else rows.iloc[0]

    def _intervals(self, own: Trace, stored: StoredPass, resolved: Resolved, values: FloatArray) -> Sweep:
        """A schedule that skips batches is known for methods without history alone."""
        arrivals_ms = np.arange(own.num_batches)[:, None] * values
        service_ms = np.broadcast_to(own.service_ms[:, None], arrivals_ms.shape)
        served = ~np.isnan(serve_lanes(service_ms, arrivals_ms, resolved.queue))
        utility = (own.accuracy[:, None] * served).sum(axis=0) / own.num_batches
        exact = served.all(axis=0) | stored.history_free
        why = "" if exact.all() else "it would skip batches, and what it predicts then depends on which"
        return Sweep(np.where(exact, utility, np.nan), why, own.num_batches)

    def _patiences(self, own: Trace, resolved: Resolved, values: FloatArray) -> Sweep:
        """Any patience above lambda is known: the stream waits, whatever the answers are worth."""
        response_ms = own.course(resolved).response_ms
        kappa = np.stack([decay(response_ms, value, resolved.baseline_ms) for value in values])
        return Sweep((own.accuracy * kappa).sum(axis=1) / own.num_batches, "", own.num_batches)

    def _budgets(
        self, own: Trace, stored: StoredPass, resolved: Resolved, values: FloatArray, rows: pd.DataFrame
    ) -> Sweep:
        """A budget that runs out is known where the frozen model was measured, or is Standard."""
        baseline_ms = float(resolved.baseline_ms or np.inf)
        may, _ = afforded(own.service_ms, own.phase == ADAPTED, values[:, None], baseline_ms, resolved.rule)
        cutoffs, whole = may.sum(axis=1), float(own.accuracy.mean())
        tails = self._tails(rows)
        standard = self._standard(rows, stored) if stored.stateless else None
        utility = np.full(len(values), np.nan)
        for place, cutoff in enumerate(cutoffs):
            if cutoff == own.num_batches:
                utility[place] = whole
            elif int(cutoff) in tails:
                utility[place] = tails[int(cutoff)]
            elif standard is not None:
                utility[place] = np.concatenate([own.accuracy[:cutoff], standard.accuracy[cutoff:]]).mean()
        why = "the budget would run out, and how the model predicts when frozen there was not measured"
        return Sweep(utility, why if np.isnan(utility).any() else "", own.num_batches)

    def _tails(self, rows: pd.DataFrame) -> dict[int, float]:
        """Utility by cut-off, of the budgets that were evaluated on the same stream."""
        rows = rows[(rows["status"] == "ok") & (rows["adapted_fraction"] < 1)]
        budgets = [
            (knob := knob_of(self.results.scenarios[int(number)])) is not None and knob.name == "budget_ms"
            for number in rows["scenario"]
        ]
        rows = rows[np.array(budgets, dtype=bool)]
        return dict(zip(rows["cutoff"].astype(int), rows["utility"].astype(float), strict=True))

    def _standard(self, rows: pd.DataFrame, stored: StoredPass) -> Trace | None:
        """Standard's own pass over the same stream, in the same runtime."""
        runtime = stored.identity.get("runtime")
        utilities = self.results.contenders
        own = utilities[utilities["method"] == (f"{STANDARD}@{runtime}" if runtime else STANDARD)]
        offline = self._offline(own[(own[STREAM_COLUMNS] == rows.iloc[0][STREAM_COLUMNS]).all(axis=1)])
        return None if offline is None else self.trace(offline)
