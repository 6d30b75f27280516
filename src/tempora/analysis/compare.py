"""Two runs side by side: what changed beyond noise, and which methods changed places."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tempora.analysis.correlation import spearman
from tempora.analysis.frames import ordered, scored
from tempora.analysis.replays import batch_worth
from tempora.analysis.uncertainty import FloatArray, interval
from tempora.cards import Cards
from tempora.errors import TemporaError
from tempora.store import Results
from tempora.store.schema import SCENARIO_NAME
from tempora.store.verdicts import verdict_of

_CELL = [*SCENARIO_NAME, "method"]
"""Scenarios are the same if their labels are: what the user held fixed, in milliseconds or relative to lambda."""
_SIDES = ("", "_other")

SAME, TIMING, CHANCE, CHANGED = "same", "timing noise", "chance", "changed"


@dataclass(frozen=True)
class RunComparison:
    """What is different between a run and another."""

    cells: pd.DataFrame
    """One row per method and scenario that both have, over the streams that both have: `value`, `utility`, `rank`
    (and the same with `_other`), their `difference` (other minus this) with `lo` and `hi`, and `change`: `same`,
    `timing noise` (the ranges of utilities overlap), `chance` (the interval includes zero) or `changed`."""
    flips: pd.DataFrame
    """Pairs that changed places: `upper` beat `lower` by `margin`, and loses by `margin_other` in the other run.
    `clear`: in both runs beyond timing noise and chance."""
    winners: pd.DataFrame
    """Scenarios that another method wins: `winner` and `winner_other`."""
    notes: list[str]
    """What else differs, in sentences: machines, lambda, configuration, what only one of them has."""
    paired: bool
    """Both runs saw the same batches, so differences are taken batch by batch."""

    @property
    def summary(self) -> dict[str, float]:
        """Agreement in numbers."""
        by_scenario = [cell for _, cell in self.cells.groupby(SCENARIO_NAME, sort=False) if len(cell) > 2]
        correlations = [spearman(cell["utility"], cell["utility_other"]) for cell in by_scenario]
        return {
            "cells": len(self.cells),
            "changed": int((self.cells["change"] == CHANGED).sum()),
            "mean_absolute_difference": float(self.cells["difference"].abs().mean()),
            "rank_correlation": float(np.nanmean(correlations)) if correlations else math.nan,
            "scenarios": self.cells.groupby(SCENARIO_NAME).ngroups,
            "winners_changed": len(self.winners),
        }


def compare_runs(run: Results, other: Results) -> RunComparison:
    """Compare what both runs evaluated: the same methods, shifts and scenarios, and seeds if they share any."""
    rows, others = _rows(run), _rows(other)
    stream = ["shift", "seed"] if set(rows["seed"]) & set(others["seed"]) else ["shift"]
    key = [*_CELL, *stream]
    common = rows[key].merge(others[key]).drop_duplicates()
    if common.empty:
        raise TemporaError(
            "the two runs have no cell in common: they need a method, a shift and a scenario that both evaluated "
            f"({_held(rows)}; the other: {_held(others)})"
        )
    mine, theirs = _Side(run, rows.merge(common)), _Side(other, others.merge(common))
    paired = "seed" in stream and mine.batches() == theirs.batches()
    cells = _with_ranks(pd.DataFrame(_compared(mine, theirs, paired)), run.cards)
    return RunComparison(
        cells=cells,
        flips=_flips(cells, mine, theirs),
        winners=_changed_winners(cells),
        notes=[*_differences(run.manifest, other.manifest), *_only_in_one(rows, others)],
        paired=paired,
    )


def machine_name(manifest: Mapping[str, Any]) -> str:
    """The processor that the times are about, as people call it.

    >>> machine_name({"machine": {"cpu": "Some CPU", "threads": 2, "device": "cpu"}, "clock": "measured"})
    'Some CPU, 2 threads'
    """
    clock, machine = str(manifest.get("clock", "")), manifest.get("machine", {})
    if clock.startswith("recorded"):
        return f"clock {(manifest.get('config') or {}).get('clock', clock)}"
    if machine.get("gpu"):
        return str(machine["gpu"])
    threads = machine.get("threads")
    count = f", {threads} thread{'s' if threads > 1 else ''}" if threads else ""
    return f"{machine.get('cpu', 'unknown machine')}{count}"


# -- cells ---------------------------------------------------------------------------------------------------


def _rows(run: Results) -> pd.DataFrame:
    rows = scored(run.utilities)
    return rows.drop_duplicates([*_CELL, "shift", "seed"])


class _Side:
    """The cells of one run that the other has too."""

    def __init__(self, run: Results, rows: pd.DataFrame) -> None:
        self._run = run
        # A method's cells on one stream mostly share a pass, which is then read once. Sorted, the streams of a cell
        # come in the same order on both sides.
        self.rows = rows.sort_values(["method", "shift", "seed"], kind="stable", ignore_index=True)
        self._worth = [self._of(row) for _, row in self.rows.iterrows()]
        self.cells = dict(self._cells())

    def _of(self, row: pd.Series[Any]) -> FloatArray:
        trace = self._run.trace(row, predictions=False)
        resolved = self._run.resolved(row, trace.num_batches)
        return np.asarray(batch_worth(trace, resolved), dtype=np.float64)

    def batches(self) -> dict[tuple[str, int], tuple[Any, ...]]:
        """What decides the batches of each stream."""
        passes = self._run.folder.passes()
        streams = self.rows.drop_duplicates(["shift", "seed"])
        identities = [passes[key].identity for key in streams["adapting_pass"]]
        return {
            (identity["shift"], identity["seed"]): tuple(
                identity[name] for name in ("data", "batch_size", "num_batches")
            )
            for identity in identities
        }

    def _cells(self) -> Iterator[tuple[tuple[Any, ...], _Cell]]:
        for key, group in self.rows.groupby(_CELL, dropna=False, sort=False):
            worth = np.concatenate([self._worth[place] for place in group.index])
            weights = group["batches"].astype(float)
            lo, hi = (
                float(np.average(group[name], weights=weights)) for name in ("utility_lo", "utility_hi")
            )
            numbers = {"value": float(group["value"].iloc[0]), "utility": float(worth.mean())}
            yield key, _Cell({**numbers, "utility_lo": lo, "utility_hi": hi}, worth)

    def clearly_above(self, scenario: tuple[Any, ...], upper: str, lower: str) -> bool:
        """Beyond timing noise, and beyond chance, batch by batch."""
        above, below = self.cells[(*scenario, upper)], self.cells[(*scenario, lower)]
        if above.numbers["utility_lo"] <= below.numbers["utility_hi"]:
            return False
        return interval(above.worth - below.worth).lo > 0


class _Cell(NamedTuple):
    """A method under a scenario, over all streams."""

    numbers: dict[str, float]
    worth: FloatArray
    """What each batch added to the utility, stream after stream."""


def _compared(mine: _Side, theirs: _Side, paired: bool) -> Iterator[dict[str, Any]]:
    for key, here in mine.cells.items():
        there = theirs.cells[key]
        cell: dict[str, Any] = {**dict(zip(_CELL, key, strict=True)), **here.numbers}
        cell |= {f"{name}_other": number for name, number in there.numbers.items()}
        cell |= _difference(here.worth, there.worth, paired)
        yield {**cell, "change": _change(cell)}


def _difference(mine: FloatArray, theirs: FloatArray, paired: bool) -> dict[str, float]:
    """Other minus this, with a 95 % interval: batch by batch, or between independent means."""
    if paired:
        found = interval(theirs - mine)
        return {"difference": found.mean, "lo": found.lo, "hi": found.hi}
    mean = float(theirs.mean() - mine.mean())
    reach = 1.96 * math.sqrt(mine.var(ddof=1) / len(mine) + theirs.var(ddof=1) / len(theirs))
    return {"difference": mean, "lo": mean - reach, "hi": mean + reach}


def _change(cell: Mapping[str, Any]) -> str:
    if cell["difference"] == 0:
        return SAME
    uncertain = cell["utility_hi"] > cell["utility_lo"] or cell["utility_hi_other"] > cell["utility_lo_other"]
    apart = cell["utility_lo"] > cell["utility_hi_other"] or cell["utility_lo_other"] > cell["utility_hi"]
    if uncertain and not apart:
        return TIMING
    return CHANGED if cell["lo"] > 0 or cell["hi"] < 0 else CHANCE


# -- places --------------------------------------------------------------------------------------------------


def _with_ranks(cells: pd.DataFrame, cards: Cards) -> pd.DataFrame:
    for suffix in _SIDES:
        within = cells.groupby(SCENARIO_NAME, dropna=False)[f"utility{suffix}"]
        cells[f"rank{suffix}"] = within.rank(method="min", ascending=False).astype(int)
    return ordered(cells, cards)


def _changed_winners(cells: pd.DataFrame) -> pd.DataFrame:
    """A winner changes when none of the first methods of one run is first in the other."""
    found = []
    for key, cell in cells.groupby(SCENARIO_NAME, dropna=False, sort=False):
        first, first_other = (list(cell.loc[cell[f"rank{suffix}"] == 1, "method"]) for suffix in _SIDES)
        if not set(first) & set(first_other):
            names = {"winner": ", ".join(first), "winner_other": ", ".join(first_other)}
            found.append({**dict(zip(SCENARIO_NAME, key, strict=True)), **names})
    return pd.DataFrame(found, columns=[*SCENARIO_NAME, "winner", "winner_other"])


def _flips(cells: pd.DataFrame, mine: _Side, theirs: _Side) -> pd.DataFrame:
    found = []
    for key, cell in cells.groupby(SCENARIO_NAME, dropna=False, sort=False):
        for (_, one), (_, two) in combinations(cell.iterrows(), 2):
            upper, lower = (one, two) if one["utility"] > two["utility"] else (two, one)
            margins = [upper[name] - lower[name] for name in ("utility", "utility_other")]
            if not margins[0] > 0 > margins[1]:
                continue
            names = str(upper["method"]), str(lower["method"])
            clear = mine.clearly_above(key, *names) and theirs.clearly_above(key, *reversed(names))
            found.append((*key, *names, *margins, clear))
    columns = [*SCENARIO_NAME, "upper", "lower", "margin", "margin_other", "clear"]
    return pd.DataFrame(found, columns=columns).astype({"clear": bool})


# -- circumstances -------------------------------------------------------------------------------------------


def _differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    said = []
    here, there = machine_name(mine), machine_name(theirs)
    if here != there:
        said.append(f"two machines: {here} here, {there} there; their times differ before anything else does")
    lambdas = [float(manifest["baseline"]["baseline_ms"]) for manifest in (mine, theirs)]
    if not math.isclose(*lambdas, rel_tol=0.01):
        said.append(
            f"λ is {lambdas[0]:.4g} ms here and {lambdas[1]:.4g} ms there ({lambdas[1] / lambdas[0] - 1:+.0%})"
        )
    for name in ("model", "dataset", "severity", "batch_size", "batches"):
        if mine.get(name) != theirs.get(name):
            said.append(f"{name} is {_short(mine.get(name))} here and {_short(theirs.get(name))} there")
    configs = [manifest.get("config") or {} for manifest in (mine, theirs)]
    if configs[0].get("preset") != configs[1].get("preset"):
        said.append(f"preset is {configs[0].get('preset')} here and {configs[1].get('preset')} there")
    said += _versions(mine, theirs)
    for where, manifest in (("here", mine), ("there", theirs)):
        verdict = verdict_of(manifest)
        if verdict.doubtful:
            said.append(f"timing {where} is {verdict.text}")
    return said


def _versions(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    known = [manifest.get("machine", {}).get("versions", {}) for manifest in (mine, theirs)]
    shared = [name for name in known[0] if name in known[1] and known[0][name] != known[1][name]]
    return [f"{name} {known[0][name]} here and {known[1][name]} there" for name in shared]


def _only_in_one(rows: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    said = []
    for column, plural in (
        ("method", "methods"),
        ("shift", "shifts"),
        ("label", "scenarios"),
        ("seed", "seeds"),
    ):
        for where, have, lack in (("here", rows, others), ("there", others, rows)):
            alone = [str(name) for name in have[column].unique() if name not in set(lack[column])]
            if alone:
                said.append(f"{plural} only {where}: {_short(', '.join(alone))}")
    return said


def _held(rows: pd.DataFrame) -> str:
    return "; ".join(
        f"{plural} {_short(', '.join(rows[column].unique()))}"
        for column, plural in (("method", "methods"), ("shift", "shifts"), ("label", "scenarios"))
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
