"""Utility along one knob: the exact answers of `replays`, for many values of the knob at once.

Three kinds of deployments have one knob that decides everything: a schedule (its interval), a user (their patience)
and a budget. Their values share the offline pass, so numpy works them out together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tempora_tta.analysis.replays import (
    NO_FROZEN_TAIL,
    NO_OFFLINE_PASS,
    FloatArray,
    offline_row,
    resolved_on,
    standard_pass,
)
from tempora_tta.scenarios import Deployment, Resolved, Scenario, route
from tempora_tta.scenarios.course import decay
from tempora_tta.scenarios.replaying import serve_lanes
from tempora_tta.scenarios.timeline import afforded
from tempora_tta.store import ADAPTED, Results, StoredPass, Trace


class Knob(NamedTuple):
    """The one knob of a deployment, and what it is set to otherwise."""

    name: str
    others: tuple[tuple[str, Any], ...] = ()

    def at(self, value: float) -> Deployment:
        """Return the deployment with the knob at this value."""
        return Deployment(**{**dict(self.others), self.name: float(value)})


_FORMS = {
    "interval_ms": ("interval_ms", "utilisation"),
    "threshold_ms": ("threshold_ms", "threshold_x"),
    "budget_ms": ("budget_ms", "budget_x", "budget_baselines"),
}
"""Fields of a deployment that set the knob."""


def knob_of(scenario: Scenario) -> Knob | None:
    """Return the knob that alone decides a scenario; None where there are several, or another one."""
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


class Sweep(NamedTuple):
    """The utility of one method on one stream at each value; NaN where no exact answer is known."""

    utility: FloatArray
    why: str = ""
    """The reason, where there is any NaN."""
    batches: int = 1


def no_answer(why: str) -> Sweep:
    """Return a sweep without an answer at any value."""
    return Sweep(np.array(np.nan), why)


def sweep(results: Results, rows: pd.DataFrame, knob: Knob, values: FloatArray) -> Sweep:
    """Return the sweep of one method on one stream, given the rows of its cells there."""
    if rows["status"].astype(str).str.startswith("failed").all():
        return no_answer(str(rows["status"].iloc[0]))
    offline = offline_row(results, rows)
    if offline is None:
        return no_answer(NO_OFFLINE_PASS)
    stored = results.folder.stored(offline["adapting_pass"])
    trace = results.folder.trace(offline["adapting_pass"], predictions=False)
    resolved = resolved_on(results, knob.at(values[0]), offline, trace.num_batches)
    if stored.time_aware:
        return no_answer(route(resolved, time_aware=True).why)
    own = trace.on_device(resolved)
    if knob.name == "interval_ms":
        utility = _intervals(own, resolved, values, stored.history_free)
        why = "it would skip batches, and what it predicts then depends on which"
    elif knob.name == "threshold_ms":
        utility, why = _patiences(own, resolved, values), ""
    else:
        utility, why = _budgets(results, own, stored, resolved, values, rows), NO_FROZEN_TAIL
    return Sweep(utility, why if np.isnan(utility).any() else "", own.num_batches)


def _intervals(own: Trace, resolved: Resolved, values: FloatArray, history_free: bool) -> FloatArray:
    """Serve every schedule; one that skips batches is known for methods without history alone."""
    arrivals_ms = np.arange(own.num_batches)[:, None] * values
    service_ms = np.broadcast_to(own.service_ms[:, None], arrivals_ms.shape)
    served = ~np.isnan(serve_lanes(service_ms, arrivals_ms, resolved.queue))
    utility = (own.accuracy[:, None] * served).sum(axis=0) / own.num_batches
    return np.where(served.all(axis=0) | history_free, utility, np.nan)


def _patiences(own: Trace, resolved: Resolved, values: FloatArray) -> FloatArray:
    """Weigh the answers by every patience: the stream waits for them all the same."""
    response_ms = own.course(resolved).response_ms
    kappa = np.stack([decay(response_ms, value, resolved.baseline_ms) for value in values])
    return np.asarray((own.accuracy * kappa).sum(axis=1) / own.num_batches)


def _budgets(
    results: Results,
    own: Trace,
    stored: StoredPass,
    resolved: Resolved,
    values: FloatArray,
    rows: pd.DataFrame,
) -> FloatArray:
    """Freeze where every budget runs out; known where the frozen model was measured, or is Standard."""
    baseline_ms = float(resolved.baseline_ms or np.inf)
    may, _ = afforded(own.service_ms, own.phase == ADAPTED, values[:, None], baseline_ms, resolved.rule)
    known = _tails(results, rows) | {own.num_batches: float(own.accuracy.mean())}
    standard = standard_pass(results, rows, stored) if stored.stateless else None
    frozen = None if standard is None else results.folder.trace(standard, predictions=False)
    utility = np.full(len(values), np.nan)
    for place, cutoff in enumerate(may.sum(axis=1).tolist()):
        if cutoff in known:
            utility[place] = known[cutoff]
        elif frozen is not None:
            utility[place] = np.concatenate([own.accuracy[:cutoff], frozen.accuracy[cutoff:]]).mean()
    return utility


def _tails(results: Results, rows: pd.DataFrame) -> dict[int, float]:
    """Return utility by cut-off, of the budgets that were evaluated on the same stream."""
    rows = rows[(rows["status"] == "ok") & (rows["adapted_fraction"] < 1)]
    knobs = [knob_of(results.scenarios[int(number)]) for number in rows["scenario"]]
    rows = rows[np.array([knob is not None and knob.name == "budget_ms" for knob in knobs], dtype=bool)]
    return dict(zip(rows["cutoff"].astype(int), rows["utility"].astype(float), strict=True))
