"""What the page's scripts work with: cells, the batches of the offline passes, and timelines.

The offline pass of a stream holds everything that the what-if panel needs: any patience is scored from its
batches, a schedule or a budget follows from it wherever `tempora_tta.analysis.replays` says so. Cells with a pass
of their own bring the beginning of it, to be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta import analysis
from tempora_tta.analysis.answer import certainty
from tempora_tta.analysis.cells import ease_sign, is_offline
from tempora_tta.analysis.doubt import ALL, doubt, with_doubt
from tempora_tta.analysis.of_run import cells_of
from tempora_tta.cards import Cards
from tempora_tta.published.methods import STANDARD
from tempora_tta.published.setups import CORRUPTIONS
from tempora_tta.report.colours import shades
from tempora_tta.report.frames import scenario_titles
from tempora_tta.report.html.packing import pack, pack_words
from tempora_tta.report.tables.parts import shift_title
from tempora_tta.scenarios import SIX_TERMS, Deployment, Scenario, to_spec
from tempora_tta.scenarios.timeline import FREE
from tempora_tta.store import Results, StoredPass, Trace

TIMELINE_BATCHES = 48
"""How much of a pass of its own is drawn; the others can be drawn to their end."""

NUMBERS = (
    "value",
    "utility",
    "utility_lo",
    "utility_hi",
    "sample_lo",
    "sample_hi",
    "rank",
    *SIX_TERMS,
    "served_accuracy",
    "ece",
    "fallback_fraction",
    "fallback_accuracy",
    "cutoff",
    "spent_ms",
    "response_ms",
    "response_sd_ms",
    "waitspan_ms",
    "served_batches",
    "batches",
)
WORDS = ("status", "origin", "timing", "verdict")

Names = dict[str, list[Any]]


def axes(results: Results) -> Names:
    """The values along which cells are counted: methods, shifts, seeds and scenarios, as they are shown."""
    utilities = results.contenders
    shifts = list(utilities["shift"].drop_duplicates())
    known = {name: place for place, name in enumerate(CORRUPTIONS)}
    return {
        "methods": results.cards.in_order(utilities["method"]),
        "shifts": sorted(shifts, key=lambda name: known.get(name, len(known))),
        "seeds": sorted(utilities["seed"].unique().tolist()),
        "scenarios": scenario_order(utilities, results.cards),
    }


def scenario_order(utilities: pd.DataFrame, cards: Cards) -> list[int]:
    """Positions in run.json, by protocol and from strict to relaxed."""
    first = utilities.groupby("scenario")[["protocol", "value", "queue"]].first().reset_index()
    places = {name: place for place, name in enumerate(cards.in_protocol_order(first["protocol"]))}
    first["place"] = first["protocol"].map(places)
    first["ease"] = first["value"] * ease_sign(first["protocol"], cards)
    return [int(number) for number in first.sort_values(["place", "ease", "queue", "scenario"])["scenario"]]


def payload(results: Results, batches: pd.DataFrame) -> dict[str, Any]:
    """Everything, as plain data. Names are given once; cells and streams refer to them by position.

    `batches` are those of the offline passes (`report.frames.offline_batches`).
    """
    names = axes(results)
    utilities = with_doubt(results).loc[results.contenders.index].reset_index(drop=True)
    folder = results.folder
    passes = folder.passes()
    offline = utilities[is_offline(utilities, results.cards) & (utilities["status"] == "ok")]
    shared = set(offline["adapting_pass"])
    titles = scenario_titles(utilities)
    scenarios = {number: _scenario(results, utilities, number) for number in names["scenarios"]}
    wins = analysis.wins_of(analysis.winners(cells_of(results), results.cards), results.cards)
    return {
        "baseline_ms": float(utilities["baseline_ms"].iloc[0]),
        "methods": [
            _method(name, offline, passes, results.cards) | {"wins": wins.get(name, 0)}
            for name in names["methods"]
        ],
        "shifts": [{"name": name, "title": shift_title(name)} for name in names["shifts"]],
        "counted": [names["shifts"].index(shift) for shift in analysis.shift_set(names["shifts"])],
        "seeds": names["seeds"],
        "scenarios": [scenario | {"title": titles[number]} for number, scenario in scenarios.items()],
        "protocols": _protocols(results, scenarios),
        "cells": _cells(utilities, names),
        "certainty": {
            "everywhere": _certainty(results, names, ALL),
            "shifts": [_certainty(results, names, shift) for shift in names["shifts"]],
        },
        "intervals": _intervals(results, names),
        "streams": [
            _stream(part, names, passes[str(key)].facts)
            for key, part in batches.groupby("adapting_pass", sort=False)
        ],
        "timelines": {
            str(index): _timeline(_placed(results, row, row["adapting_pass"] in shared))
            for index, row in utilities[utilities["status"] == "ok"].iterrows()
            if row["adapting_pass"] not in shared or scenarios[int(row["scenario"])]["limit"] is None
        },
    }


def _certainty(results: Results, names: Names, shift: str) -> list[str]:
    """How sure the winner of each scenario is, seeds taken together."""
    found = doubt(results)
    cells = [pd.Series({"shift": shift, "scenario": number}) for number in names["scenarios"]]
    return [certainty(found.judgement(cell), results.cards) for cell in cells]


def _intervals(results: Results, names: Names) -> dict[str, Any]:
    """Of every method in every scenario, on all shifts together and then on each: the 95 % interval of its utility
    over other batches, and the probability that it is best. Drawn, not computed with: four digits will do."""
    rows = cells_of(results)
    rows = rows[(rows["shift"] != ALL) | ~rows["incomplete"]]
    shape = (1 + len(names["shifts"]), len(names["scenarios"]), len(names["methods"]))
    found = {name: np.full(shape, np.nan) for name in ("sample_lo", "sample_hi", "p_best")}
    places = {shift: 1 + place for place, shift in enumerate(names["shifts"])} | {ALL: 0}
    scenarios = {number: place for place, number in enumerate(names["scenarios"])}
    methods = {name: place for place, name in enumerate(names["methods"])}
    at = (
        rows["shift"].map(places).to_numpy(np.intp),
        rows["scenario"].astype(int).map(scenarios).to_numpy(np.intp),
        rows["method"].map(methods).to_numpy(np.intp),
    )
    for name, values in found.items():
        values[at] = rows[name].to_numpy(np.float64)
    return {name: pack(np.round(values, 4).astype(np.float32).ravel()) for name, values in found.items()}


def _method(
    name: str, offline: pd.DataFrame, passes: Mapping[str, StoredPass], cards: Cards
) -> dict[str, Any]:
    """How a method is shown, and what may be concluded from its offline pass."""
    shown = cards.method(name)
    keys = offline.loc[offline["method"] == name, "adapting_pass"]
    stored = passes[keys.iloc[0]] if len(keys) else None
    return {
        "name": name,
        "label": shown.label,
        **shades(shown.colour),
        "family": shown.family,
        "standard": name == STANDARD,
        "history_free": stored is not None and stored.history_free,
        # The page has one Standard to freeze into, the one in the reference runtime.
        "stateless": stored is not None and stored.stateless and "runtime" not in stored.identity,
        "time_aware": stored is not None and stored.time_aware,
    }


def _scenario(results: Results, utilities: pd.DataFrame, number: int) -> dict[str, Any]:
    """What the page shows of a scenario, and the one limit of it that the page may move."""
    row, scenario = utilities[utilities["scenario"] == number].iloc[0], results.scenarios[number]
    deployment, limit = scenario.deployment(), _limit(scenario)
    variant = {"interval_ms": deployment.queue, "threshold_ms": None, "budget_ms": deployment.rule}
    own = f"queue {deployment.queue}" + (f", {deployment.rule}" if deployment.has_budget else "")
    return {
        "number": number,
        "protocol": row["protocol"],
        "label": row["label"],
        "limit": limit,
        "variant": variant.get(limit or "", own),
        "queue": deployment.queue,
        "reference": row["protocol"] in results.cards.references,
        "budgeted": deployment.has_budget,
        "fallback": deployment.fallback and (deployment.fallback_cost or FREE),
        "patience_ms": _finite(deployment.threshold(float(row["baseline_ms"]))),
    }


def _limit(scenario: Scenario) -> str | None:
    """The knob that alone decides the deployment, as the scripts understand it; empty where there is none, None where
    there are several or other ones: then the page shows what was evaluated, on courses computed here."""
    deployment = replace(scenario.deployment(), name=None)
    if deployment == Deployment(arrivals="on_completion"):
        return ""
    forms = {
        "interval_ms": ("interval_ms", "utilisation", "queue"),
        "threshold_ms": ("arrivals", "threshold_ms", "threshold_x"),
        "budget_ms": ("arrivals", "budget_ms", "budget_x", "budget_baselines", "rule"),
    }
    loops = {"interval_ms": None, "threshold_ms": "on_prediction", "budget_ms": "on_completion"}
    for knob, used in forms.items():
        if scenario.parameter != knob or deployment.arrivals != loops[knob]:
            continue
        if deployment == Deployment(**{name: getattr(deployment, name) for name in used}):
            return knob
    return None


def _protocols(results: Results, scenarios: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The kinds of scenarios that vary a knob: what the what-if panel offers."""
    found = []
    for protocol in results.cards.in_protocol_order(one["protocol"] for one in scenarios.values()):
        card = results.cards.scenario(protocol)
        members = [number for number, one in scenarios.items() if one["protocol"] == protocol]
        limits = {scenarios[number]["limit"] for number in members}
        if card.parameter and not card.reference:
            found.append(
                {
                    "protocol": protocol,
                    "situation": card.situation,
                    "knob": card.knob,
                    "symbol": card.symbol,
                    "unit": card.unit,
                    "parameter": card.parameter,
                    "rising": card.rising,
                    "limit": limits.pop() if len(limits) == 1 else None,
                    "spec": _to_add(results.scenarios[members[0]]),
                }
            )
    return found


def _to_add(scenario: Scenario) -> dict[str, Any]:
    """What a configuration says besides the knob that varies, to have one more of the kind."""
    spec = to_spec(scenario)
    if "scenario" not in spec:
        return {"protocol": scenario.protocol}
    return {
        name: value for name, value in spec.items() if name not in (scenario.parameter, "name", "described")
    }


def _cells(utilities: pd.DataFrame, names: Names) -> dict[str, Any]:
    places = {
        axis[:-1]: [names[axis].index(value) for value in utilities[axis[:-1]]]
        for axis in ("methods", "shifts", "seeds", "scenarios")
    }
    numbers = {name: pack(utilities[name].to_numpy(np.float64, na_value=np.nan)) for name in NUMBERS}
    words = {name: pack_words(utilities[name].fillna("").tolist()) for name in WORDS}
    return {**{name: pack(place) for name, place in places.items()}, **numbers, **words}


def _stream(batches: pd.DataFrame, names: Names, facts: dict[str, Any]) -> dict[str, Any]:
    """The batches of one method's offline pass over one stream."""
    first = batches.iloc[0]
    columns = ("phase", "correct", "total", "predict_ms", "adapt_ms")
    return {
        "method": names["methods"].index(first["method"]),
        "shift": names["shifts"].index(first["shift"]),
        "seed": names["seeds"].index(first["seed"]),
        "uncertainty": float(facts.get("timing_uncertainty", 0.0)),
        **{name: pack(batches[name].to_numpy()) for name in columns},
    }


def _placed(results: Results, row: pd.Series[Any], shared: bool) -> Trace:
    """The batches of a cell on its own clock, with the arrivals of those that were skipped."""
    trace = (
        results.trace(row, predictions=False)
        if shared
        else results.folder.trace(
            row["adapting_pass"],
            predictions=False,  # driven by the cell's clock, it lies on it as it is stored
        )
    )
    if trace.served[:TIMELINE_BATCHES].all():
        return trace
    arrivals_ms = results.resolved(row, trace.num_batches).arrivals_ms
    if arrivals_ms is None:
        return trace
    return replace(trace, arrived_ms=np.where(trace.served, trace.arrived_ms, arrivals_ms))


def _timeline(trace: Trace) -> dict[str, Any]:
    """The beginning of a cell's pass. Drawn, not computed with: single precision will do."""
    first = slice(0, TIMELINE_BATCHES)
    drawn = {name: pack(getattr(trace, name)[first]) for name in ("phase", "correct", "total")}
    for name in ("arrived_ms", "start_ms", "predict_ms", "adapt_ms"):
        drawn[name] = pack(getattr(trace, name)[first].astype(np.float32))
    return drawn


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
