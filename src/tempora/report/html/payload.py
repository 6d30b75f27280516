"""What the page's scripts work with: cells, the batches of the offline passes, and timelines.

The offline pass of a stream holds everything that the what-if panel needs: any patience is scored from its
batches, a schedule or a budget follows from it wherever `tempora.analysis.replays` says so. Cells with a pass
of their own bring the beginning of it, to be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tempora.analysis.frames import protocol_order
from tempora.published.methods import STANDARD, display
from tempora.published.setups import CORRUPTIONS
from tempora.report.colours import on_dark, text_on
from tempora.report.frames import scenario_titles
from tempora.report.html.packing import pack, pack_words
from tempora.report.tables.parts import in_order, shift_title
from tempora.scenarios import SIX_TERMS
from tempora.store import Results, StoredPass, Trace

TIMELINE_BATCHES = 48
"""How much of a pass of its own is drawn; the others can be drawn to their end."""

NUMBERS = (
    "value",
    "utility",
    "utility_lo",
    "utility_hi",
    "rank",
    *SIX_TERMS,
    "served_accuracy",
    "cutoff",
    "spent_ms",
    "response_ms",
    "response_sd_ms",
    "waitspan_ms",
    "served_batches",
    "batches",
)
WORDS = ("status", "origin", "verdict")

Names = dict[str, list[Any]]


def axes(results: Results) -> Names:
    """The values along which cells are counted: methods, shifts, seeds and scenarios, as they are shown."""
    utilities = results.utilities
    shifts = list(utilities["shift"].drop_duplicates())
    known = {name: place for place, name in enumerate(CORRUPTIONS)}
    return {
        "methods": in_order(utilities["method"]),
        "shifts": sorted(shifts, key=lambda name: known.get(name, len(known))),
        "seeds": sorted(utilities["seed"].unique().tolist()),
        "scenarios": scenario_order(utilities),
    }


def scenario_order(utilities: pd.DataFrame) -> list[int]:
    """Positions in run.json, by protocol and from strict to relaxed."""
    first = utilities.groupby("scenario")[["protocol", "value", "queue"]].first().reset_index()
    first["place"] = [protocol_order(name) for name in first["protocol"]]
    return [int(number) for number in first.sort_values(["place", "value", "queue", "scenario"])["scenario"]]


def payload(results: Results, batches: pd.DataFrame) -> dict[str, Any]:
    """Everything, as plain data. Names are given once; cells and streams refer to them by position.

    `batches` are those of the offline passes (`report.frames.offline_batches`).
    """
    names = axes(results)
    utilities = results.utilities.reset_index(drop=True)
    folder = results.folder
    passes = folder.passes()
    offline = utilities[(utilities["protocol"] == "offline") & (utilities["status"] == "ok")]
    shared = set(offline["adapting_pass"])
    titles = scenario_titles(utilities)
    return {
        "baseline_ms": float(utilities["baseline_ms"].iloc[0]),
        "methods": [_method(name, offline, passes) for name in names["methods"]],
        "shifts": [{"name": name, "title": shift_title(name)} for name in names["shifts"]],
        "seeds": names["seeds"],
        "scenarios": [
            _scenario(results, utilities, number) | {"title": titles[number]} for number in names["scenarios"]
        ],
        "cells": _cells(utilities, names),
        "streams": [
            _stream(part, names, passes[str(key)].facts)
            for key, part in batches.groupby("adapting_pass", sort=False)
        ],
        # A pass of a cell's own was driven by the cell's clock, so it lies on it as it is stored.
        "timelines": {
            str(index): _timeline(folder.trace(row["adapting_pass"], predictions=False))
            for index, row in utilities[utilities["status"] == "ok"].iterrows()
            if row["adapting_pass"] not in shared
        },
    }


def _method(name: str, offline: pd.DataFrame, passes: Mapping[str, StoredPass]) -> dict[str, Any]:
    """How a method is shown, and what may be concluded from its offline pass."""
    shown = display(name)
    keys = offline.loc[offline["method"] == name, "adapting_pass"]
    stored = passes[keys.iloc[0]] if len(keys) else None
    return {
        "name": name,
        "label": shown.label,
        "colour": shown.colour,
        "dark": on_dark(shown.colour),
        "text": text_on(shown.colour),
        "dark_text": text_on(on_dark(shown.colour)),
        "family": shown.family,
        "standard": name == STANDARD,
        "history_free": stored is not None and stored.history_free,
        # The page has one Standard to freeze into, the one in the reference runtime.
        "stateless": stored is not None and stored.stateless and "runtime" not in stored.identity,
        "time_aware": stored is not None and stored.time_aware,
    }


def _scenario(results: Results, utilities: pd.DataFrame, number: int) -> dict[str, Any]:
    row = utilities[utilities["scenario"] == number].iloc[0]
    deployment = results.scenarios[number].deployment()
    return {
        "number": number,
        "protocol": row["protocol"],
        "label": row["label"],
        "queue": deployment.queue,
        "rule": deployment.rule,
        "patience_ms": _finite(deployment.threshold(float(row["baseline_ms"]))),
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


def _timeline(trace: Trace) -> dict[str, Any]:
    """The beginning of a cell's own pass. Drawn, not computed with: single precision will do."""
    first = slice(0, TIMELINE_BATCHES)
    drawn = {name: pack(getattr(trace, name)[first]) for name in ("phase", "correct", "total")}
    for name in ("arrived_ms", "start_ms", "predict_ms", "adapt_ms"):
        drawn[name] = pack(getattr(trace, name)[first].astype(np.float32))
    return drawn


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
