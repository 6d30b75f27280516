"""The data of the page: names, cells, the stops of the what-if panel, the beginning of each timeline, the winners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta import analysis
from tempora_tta._numbers import percent
from tempora_tta.analysis.answer import certainty
from tempora_tta.analysis.cells import ALL, by_shift, ordered
from tempora_tta.analysis.of_run import cells_of, judgement_of, utilities_of
from tempora_tta.cards import Cards
from tempora_tta.published.methods import STANDARD
from tempora_tta.report.courses import timed
from tempora_tta.report.drawing import shades
from tempora_tta.report.frames import scenario_titles
from tempora_tta.report.html.packing import pack, pack_words
from tempora_tta.report.table import won_by
from tempora_tta.report.whatif import Names, packed, what_if
from tempora_tta.scenarios import SIX_TERMS
from tempora_tta.scenarios.timeline import FREE
from tempora_tta.store import Results
from tempora_tta.words import shift_title

TIMELINE_BATCHES = 24
"""Batches of each cell that can be drawn."""

NUMBERS = (
    *("utility", "sample_lo", "sample_hi", "rank", *SIX_TERMS, "ece", "fallback_fraction"),
    *("fallback_accuracy", "spent_ms", "response_ms", "waitspan_ms", "served_batches", "batches"),
)
WORDS = ("status", "timing")


def axes(results: Results) -> Names:
    """Return the values along which cells are counted: methods, shifts, seeds and scenarios, as they are shown."""
    utilities, cards = results.contenders, results.cards
    scenarios = utilities.groupby("scenario")[["protocol", "value", "queue"]].first().reset_index()
    return {
        "methods": cards.in_order(utilities["method"]),
        "shifts": ordered(utilities[["shift"]].drop_duplicates())["shift"].tolist(),
        "seeds": sorted(utilities["seed"].unique().tolist()),
        "scenarios": ordered(scenarios, cards)["scenario"].astype(int).tolist(),
    }


def payload(results: Results) -> dict[str, Any]:
    """Return everything as plain data. Names are given once; cells refer to them by position."""
    names, cards, cells = axes(results), results.cards, cells_of(results)
    utilities = utilities_of(results).loc[results.contenders.index]
    utilities = utilities.sort_values(["method", "shift", "seed", "scenario"], ignore_index=True)
    titles, favourite = scenario_titles(utilities), analysis.offline_champion(cells)
    sliders = what_if(results, names)
    limits = [None if slider.knob is None else slider.knob.name for slider in sliders]
    return {
        "baseline_ms": float(utilities["baseline_ms"].iloc[0]),
        "methods": [_method(name, cards) for name in names["methods"]],
        "shifts": [{"name": name, "title": shift_title(name)} for name in names["shifts"]],
        "counted": [names["shifts"].index(shift) for shift in analysis.shift_set(names["shifts"])],
        "seeds": names["seeds"],
        "scenarios": [_scenario(results, number, titles[number]) for number in names["scenarios"]],
        "sliders": [packed(slider, results) for slider in sliders],
        "first_slider": limits.index("threshold_ms") if "threshold_ms" in limits else 0,
        "first_cell": _first_cell(cells, names, favourite),
        "favourite": 0 if favourite is None else names["methods"].index(favourite),
        "cells": _cells(utilities, names),
        "intervals": _intervals(names, cells),
        "timelines": _timelines(results, utilities),
    }


def _method(name: str, cards: Cards) -> dict[str, Any]:
    shown = cards.method(name)
    return {"name": name, "label": shown.label, "standard": name == STANDARD, **shades(shown.colour)}


def _scenario(results: Results, number: int, title: str) -> dict[str, Any]:
    deployment = results.scenarios[number].deployment()
    fallback = deployment.fallback and (deployment.fallback_cost or FREE)
    return {"number": number, "title": title, "budgeted": deployment.has_budget, "fallback": fallback}


def _first_cell(cells: pd.DataFrame, names: Names, favourite: str | None) -> list[int]:
    """Return the cell that is open at first: the one where the offline favourite is furthest behind the best."""
    rows = cells[cells["counts"]]
    rows = rows if rows["reference"].all() else rows[~rows["reference"]]
    cell = ["shift", "scenario"]
    behind = rows[rows["method"] == favourite].set_index(cell)["utility"].rename("behind")
    best = rows[rows["rank"] == 1].drop_duplicates(cell).join(behind, on=cell)
    if best.empty:
        return [0, 0, 0, 0]
    gap = (best["utility"] - best["behind"]).fillna(0.0)
    first = best.iloc[int(gap.argmax())]
    places = {"shifts": first["shift"], "scenarios": int(first["scenario"]), "methods": first["method"]}
    return [*(names[axis].index(value) for axis, value in places.items()), 0]


def _intervals(names: Names, cells: pd.DataFrame) -> dict[str, Any]:
    """Return of every method in every scenario, on all shifts together and then on each: the 95 % interval of its
    utility over other batches, and the probability that it is best. Only drawn: four digits will do."""
    rows = cells[(cells["shift"] != ALL) | ~cells["incomplete"]].set_index(["shift", "scenario", "method"])
    order = pd.MultiIndex.from_product([[ALL, *names["shifts"]], names["scenarios"], names["methods"]])
    rows = rows[["sample_lo", "sample_hi", "p_best"]].astype(np.float64).reindex(order).round(4)
    return {str(name): pack(values.to_numpy(np.float32)) for name, values in rows.items()}


def _cells(utilities: pd.DataFrame, names: Names) -> dict[str, Any]:
    places = {
        axis[:-1]: [names[axis].index(value) for value in utilities[axis[:-1]]]
        for axis in ("methods", "shifts", "seeds", "scenarios")
    }
    numbers = {name: pack(utilities[name].to_numpy(np.float64, na_value=np.nan)) for name in NUMBERS}
    words = {name: pack_words(utilities[name].fillna("").tolist()) for name in WORDS}
    return {**{name: pack(place) for name, place in places.items()}, **numbers, **words}


def _timelines(results: Results, utilities: pd.DataFrame) -> dict[str, Any]:
    """Return the first batches of every cell, on its own clock: (cells, batches), flat.

    Only drawn: times in microseconds will do.
    """
    times = ("arrived_ms", "start_ms", "predict_ms", "adapt_ms")
    per = dict.fromkeys(("phase", "correct", "total"), 1) | dict.fromkeys(times, 1000)
    drawn = {name: np.zeros((len(utilities), TIMELINE_BATCHES), np.int64) for name in per}
    for place, (_, row) in enumerate(utilities.iterrows()):
        if row["status"] != "ok":
            continue
        trace = results.trace(row, predictions=False)
        resolved = results.resolved(row, trace.num_batches)
        trace = timed(trace, float(row["baseline_ms"]), resolved, TIMELINE_BATCHES)
        for name, values in drawn.items():
            first = np.nan_to_num(getattr(trace, name)[:TIMELINE_BATCHES])
            values[place, : len(first)] = np.rint(per[name] * first)
    packed = {name: pack(values.ravel()) for name, values in drawn.items()}
    return {"batches": TIMELINE_BATCHES, **packed, **{name: packed[name] | {"per": 1000} for name in times}}


# -- the winners grid ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Square:
    """One cell of the grid."""

    place: str
    """`shift-scenario-method`, as positions: the end of a link to the cell."""
    method: int | None
    text: str
    label: str = ""
    """Winner of the cell; several, if they are equal."""
    verdict: str = ""
    """holds, equal or undecided."""


@dataclass(frozen=True)
class Grid:
    """The whole table, ready to be filled into the page."""

    rows: list[tuple[str, list[Square]]]
    headings: list[tuple[str, int]]
    """Protocols, and how many columns each has."""
    columns: list[str]
    wins: list[tuple[int, int]]
    """(method, cells won), most first."""
    apart: bool = False
    """True if it has clean images, which count in no total."""

    def has(self, verdict: str) -> bool:
        return any(square.verdict == verdict for _, line in self.rows for square in line)


def winners_grid(results: Results, names: Names) -> Grid:
    """Return who wins where, over all seeds."""
    cells, cards = by_shift(cells_of(results)), results.cards
    best = analysis.winners(cells, cards)
    scenarios = results.contenders.drop_duplicates("scenario").set_index("scenario").loc[names["scenarios"]]
    titles = scenario_titles(results.contenders)
    judged = {key: judgement_of(rows) for key, rows in cells.groupby(["shift", "scenario"])}
    won = {(row["shift"], int(row["scenario"])): row for _, row in best.iterrows()}
    table = []
    for at, shift in enumerate(names["shifts"]):
        line = []
        for column, number in enumerate(names["scenarios"]):
            row, where = won.get((shift, number)), f"{shift_title(shift)}, {titles[number]}"
            if row is None:
                line.append(Square(f"{at}-{column}-0", None, _reasons(results.contenders, shift, number)))
                continue
            judgement, label = judged[shift, number], won_by(row, cards)
            method = names["methods"].index(row["winner"])
            text = f"{where}: {label} {percent(row['utility'])}. {certainty(judgement, cards)}".strip()
            verdict = "" if judgement is None else judgement.verdict
            line.append(Square(f"{at}-{column}-{method}", method, text, label, verdict))
        table.append((shift, line))
    wins = analysis.wins_of(best, cards)
    return Grid(
        rows=table,
        headings=[(str(name), len(own)) for name, own in scenarios.groupby("protocol", sort=False)],
        columns=[titles[number] for number in names["scenarios"]],
        wins=[(names["methods"].index(method), count) for method, count in wins.items()],
        apart=len(analysis.counted(best)) < len(best),
    )


def _reasons(utilities: pd.DataFrame, shift: str, number: int) -> str:
    rows = utilities[(utilities["shift"] == shift) & (utilities["scenario"] == number)]
    return "; ".join(rows["status"].drop_duplicates()) or "not run yet"
