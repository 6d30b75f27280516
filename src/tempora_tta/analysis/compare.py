"""Two runs side by side: numbers that changed beyond noise, and scenarios that another method wins."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta.analysis.cells import counted, ordered, scored
from tempora_tta.analysis.circumstances import circumstances, what_it_has
from tempora_tta.analysis.doubt import EQUAL, SAMPLING, TIMING, UNDECIDED, Replicates, pooled, times_of
from tempora_tta.analysis.doubt.blocks import CONFIDENCE
from tempora_tta.analysis.doubt.judgement import EQUAL_WITHIN, NOTHING
from tempora_tta.analysis.doubt.rescoring import Rescorer, Scored
from tempora_tta.analysis.doubt.run import together
from tempora_tta.analysis.doubt.timing import Times
from tempora_tta.analysis.paper import spearman
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError
from tempora_tta.store import Results
from tempora_tta.store.schema import SCENARIO_NAME

_CELL = [*SCENARIO_NAME, "method"]
"""Scenarios are the same if their labels are: what the user held fixed, in milliseconds or relative to lambda."""
_SIDES = ("", "_other")

_OTHER = " there"
"""At the end of a method's name among the replicates of both runs."""

SAME, CHANGED = "same", "changed"


@dataclass(frozen=True)
class RunComparison:
    """What is different between a run and another."""

    cells: pd.DataFrame
    """One row per method and scenario that both have, over the streams that both have: `value`, `utility`, `rank`
    (and the same with `_other`), their `difference` (other minus this) with `lo` and `hi`, and `change`: `same`,
    `changed` (the interval leaves out zero), `equal` (it is within half a point) or `undecided`, `why` then says by
    timing or by sampling."""
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
            "undecided": int((self.cells["change"] == UNDECIDED).sum()),
            "mean_absolute_difference": float(self.cells["difference"].abs().mean()),
            "rank_correlation": float(np.nanmean(correlations)) if correlations else math.nan,
            "scenarios": self.cells.groupby(SCENARIO_NAME).ngroups,
            "winners_changed": len(self.winners),
        }


def compare_runs(run: Results, other: Results, without: Collection[str] = ()) -> RunComparison:
    """Compare what both runs evaluated: the same methods, shifts and scenarios, and seeds if they share any.

    without: methods to leave out.
    """
    rows, others = (
        counted(found[~found["method"].isin(list(without))]) for found in (_rows(run), _rows(other))
    )
    stream = ["shift", "seed"] if set(rows["seed"]) & set(others["seed"]) else ["shift"]
    key = [*_CELL, *stream]
    common = rows[key].merge(others[key]).drop_duplicates()
    if common.empty:
        raise TemporaError(
            "the two runs have no cell in common: they need a method, a shift and a scenario that both evaluated "
            f"({what_it_has(rows)}; the other: {what_it_has(others)})"
        )
    mine, theirs = _Side(run, rows.merge(common)), _Side(other, others.merge(common))
    paired = "seed" in stream and mine.batches() == theirs.batches()
    replicates = dict(_replicates(mine, theirs, paired))
    compared = [row for scenario, both in replicates.items() for row in _compared(mine, scenario, both)]
    cells = _with_ranks(pd.DataFrame(compared), run.cards)
    return RunComparison(
        cells=cells,
        winners=_changed_winners(cells),
        notes=circumstances(run, other, rows, others),
        paired=paired,
    )


# -- cells ---------------------------------------------------------------------------------------------------


def _rows(run: Results) -> pd.DataFrame:
    rows = scored(run.utilities)
    rows = rows.assign(queue=rows["queue"].fillna(1))
    return rows.drop_duplicates([*_CELL, "shift", "seed"])


class _Side:
    """The cells of one run that the other has too, batch by batch."""

    def __init__(self, run: Results, rows: pd.DataFrame) -> None:
        self._run = run
        # Sorted, methods come in the same order on both sides, and a pass that cells share is read once.
        self.rows = rows.sort_values(["shift", "seed", "method"], kind="stable", ignore_index=True)
        self.clock = str(run.manifest.get("clock", ""))
        self.scored = self._scored(times_of(run))

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

    @cached_property
    def values(self) -> dict[tuple[Any, ...], float]:
        return {key: float(group["value"].iloc[0]) for key, group in self.rows.groupby(_CELL, dropna=False)}

    def _scored(self, times: Times) -> dict[tuple[Any, ...], dict[tuple[str, int], list[Scored]]]:
        """Scenario -> stream -> what each method got."""
        found: dict[tuple[Any, ...], dict[tuple[str, int], list[Scored]]] = {}
        for (shift, seed), rows in self.rows.groupby(["shift", "seed"], sort=False):
            rescorer = Rescorer(self._run, times)
            for _, row in rows.iterrows():
                worth, phase = rescorer.worth(row)
                timed = rescorer.under_drawn_times(row, len(worth))
                of_scenario = found.setdefault(tuple(row[name] for name in SCENARIO_NAME), {})
                of_stream = of_scenario.setdefault((str(shift), int(str(seed))), [])
                of_stream.append(Scored(str(row["method"]), worth, phase, timed))
        return found


def _replicates(mine: _Side, theirs: _Side, paired: bool) -> Iterator[tuple[tuple[Any, ...], Replicates]]:
    """Of every scenario, the methods of this run and then those of the other, as the replicates have them."""
    same_times = mine.clock == theirs.clock != "measured"
    for scenario, streams in mine.scored.items():
        others = {
            stream: [_of_other(one, same_times) for one in cells]
            for stream, cells in theirs.scored[scenario].items()
        }
        if paired:
            cells = [together([*streams[one], *others[one]], f"{one[0]} {one[1]}") for one in streams]
            yield scenario, pooled(cells)
        else:
            here, there = (
                pooled([together(cells, f"{side} {stream}") for stream, cells in of.items()])
                for side, of in (("here", streams), ("there", others))
            )
            yield scenario, _beside(here, there)


def _of_other(one: Scored, same_times: bool) -> Scored:
    """Under another name; draws of times that were not drawn together are put into another order."""
    timed = one.timed
    if timed is not None and not same_times:
        timed = np.roll(timed, len(timed) // 2)
    return one._replace(method=f"{one.method}{_OTHER}", timed=timed)


def _beside(here: Replicates, there: Replicates) -> Replicates:
    """Replicates of two runs that saw different batches."""
    draws = max(len(here.timed), len(there.timed))
    timed = [np.broadcast_to(one.timed, (draws, len(one.methods))) for one in (here, there)]
    return Replicates(
        (*here.methods, *there.methods),
        np.concatenate([here.utility, there.utility]),
        np.concatenate([here.sampled, there.sampled], axis=1),
        np.concatenate(timed, axis=1),
        np.concatenate([here.variance, there.variance]),
        np.concatenate([here.freedom, there.freedom]),
        here.batches,
    )


def _compared(mine: _Side, scenario: tuple[Any, ...], both: Replicates) -> Iterator[dict[str, Any]]:
    for place, method in enumerate(both.methods):
        if method.endswith(_OTHER):
            continue
        other = both.methods.index(f"{method}{_OTHER}")
        yield {
            **dict(zip(SCENARIO_NAME, scenario, strict=True)),
            "method": method,
            "value": mine.values[(*scenario, method)],
            "utility": float(both.utility[place]),
            "utility_other": float(both.utility[other]),
            **_difference(both, place, other),
        }


def _difference(both: Replicates, place: int, other: int) -> dict[str, Any]:
    """Other minus this, with a 95 % interval over other batches and other times, and what that says."""
    difference = float(both.utility[other] - both.utility[place])
    sampled = both.sampled[:, other] - both.sampled[:, place]
    timing = both.timing[:, other] - both.timing[:, place]
    tails = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    lo, hi = (difference + bound for bound in np.quantile(sampled + timing, tails))
    lo, hi = min(float(lo), difference), max(float(hi), difference)
    why = ""
    if abs(difference) < NOTHING:
        change = SAME
    elif lo > 0 or hi < 0:
        change = CHANGED
    elif lo >= -EQUAL_WITHIN and hi <= EQUAL_WITHIN:
        change = EQUAL
    else:
        change = UNDECIDED
        why = TIMING if (timing**2).mean() > (sampled**2).mean() else SAMPLING
    return {"difference": difference, "lo": lo, "hi": hi, "change": change, "why": why}


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
