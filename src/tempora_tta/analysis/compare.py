"""Two runs side by side: numbers that changed beyond noise, and scenarios that another method wins."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta._numbers import percent
from tempora_tta.analysis.answer import processor
from tempora_tta.analysis.cells import counted, ordered, scored
from tempora_tta.analysis.doubt import EQUAL, SAMPLING, TIMING, UNDECIDED, Replicates, pooled
from tempora_tta.analysis.doubt.blocks import CONFIDENCE
from tempora_tta.analysis.doubt.judgement import EQUAL_WITHIN, NOTHING
from tempora_tta.analysis.doubt.run import Rescorer, Scored, together
from tempora_tta.errors import TemporaError
from tempora_tta.published.compare import agreement, side_by_side
from tempora_tta.store import Results
from tempora_tta.store.record import SETTINGS_TOO
from tempora_tta.store.schema import SCENARIO_NAME
from tempora_tta.store.verdicts import verdict_of

_CELL = [*SCENARIO_NAME, "method"]
"""Scenarios are the same if their labels are: what the user held fixed, in milliseconds or relative to lambda."""

_OTHER = " there"
"""At the end of a method's name among the replicates of both runs."""

SAME, CHANGED = "same", "changed"

_Streams = dict[tuple[str, int], list[Scored]]
"""Shift and seed -> what each method got."""


@dataclass(frozen=True)
class RunComparison:
    """Differences between a run and another."""

    cells: pd.DataFrame
    """One row per method and scenario that both have, over the streams that both have: `value`, `utility`, `rank`
    (and the same with `_other`), their `difference` (other minus this) with `lo` and `hi`, and `change`: `same`,
    `changed` (the interval leaves out zero), `equal` (it is within half a point) or `undecided`, `why` then says by
    timing or by sampling."""
    winners: pd.DataFrame
    """Scenarios that another method wins: `winner` and `winner_other`."""
    notes: list[str]
    """Other differences, in sentences: machines, lambda, configuration, what only one of them has."""
    paired: bool
    """Both runs saw the same batches, so differences are taken batch by batch."""

    @property
    def summary(self) -> dict[str, float]:
        """Agreement in numbers."""
        return {
            "cells": len(self.cells),
            "changed": int((self.cells["change"] == CHANGED).sum()),
            "undecided": int((self.cells["change"] == UNDECIDED).sum()),
            **agreement(self.cells, SCENARIO_NAME, "utility_other"),
            "scenarios": self.cells.groupby(SCENARIO_NAME).ngroups,
            "winners_changed": len(self.winners),
        }


def compare_runs(run: Results, other: Results, without: Collection[str] = ()) -> RunComparison:
    """Compare what both runs evaluated: the same methods, shifts and scenarios, and seeds if they share any.

    Args:
        without: methods to leave out.
    """
    rows, others = _rows(run, without), _rows(other, without)
    stream = ["shift", "seed"] if set(rows["seed"]) & set(others["seed"]) else ["shift"]
    common = rows[[*_CELL, *stream]].merge(others[[*_CELL, *stream]]).drop_duplicates()
    if common.empty:
        raise TemporaError(
            "the two runs have no cell in common: they need a method, a shift and a scenario that both evaluated "
            f"({_what_it_has(rows)}; the other: {_what_it_has(others)})"
        )
    mine, theirs = rows.merge(common), others.merge(common)
    paired = "seed" in stream and _batches(run, mine) == _batches(other, theirs)
    clocks = {str(one.manifest.get("clock", "")) for one in (run, other)}
    here = _scored(run, mine)
    there = _scored(other, theirs, _OTHER, apart=len(clocks) > 1 or clocks == {"measured"})
    compared = [
        _compared(*_replicates(streams, there[scenario], paired)).assign(
            **dict(zip(SCENARIO_NAME, scenario, strict=True))
        )
        for scenario, streams in here.items()
    ]
    values = mine.drop_duplicates(_CELL)[[*_CELL, "value"]]
    ranks = {"rank": "utility", "rank_other": "utility_other"}
    cells = ordered(side_by_side(values, pd.concat(compared), SCENARIO_NAME, ranks), run.cards)
    return RunComparison(cells, _changed_winners(cells), _circumstances(run, other, rows, others), paired)


def _rows(run: Results, without: Collection[str]) -> pd.DataFrame:
    """Return the rows to compare, sorted: methods then come in one order in both runs, and a pass is read once."""
    rows = scored(run.utilities)
    rows = counted(rows[~rows["method"].isin(list(without))])
    rows = rows.assign(queue=rows["queue"].fillna(1)).drop_duplicates([*_CELL, "shift", "seed"])
    return rows.sort_values(["shift", "seed", "method"], kind="stable")


def _batches(run: Results, rows: pd.DataFrame) -> set[tuple[Any, ...]]:
    """Facts that decide the batches of each stream."""
    passes = run.folder.passes()
    identities = [passes[key].identity for key in rows.drop_duplicates(["shift", "seed"])["adapting_pass"]]
    names = ("shift", "seed", "data", "batch_size", "num_batches")
    return {tuple(identity[name] for name in names) for identity in identities}


def _scored(
    run: Results, rows: pd.DataFrame, suffix: str = "", apart: bool = False
) -> dict[tuple[Any, ...], _Streams]:
    """Score the cells of each scenario batch by batch.

    apart: draws of these times are not those of the other run, so they are put into another order.
    """
    found: dict[tuple[Any, ...], _Streams] = {}
    for (shift, seed), stream in rows.groupby(["shift", "seed"], sort=False):
        rescorer = Rescorer(run)
        for _, row in stream.iterrows():
            one = rescorer.scored(row)
            timed = np.roll(one.timed, len(one.timed) // 2) if apart and one.timed is not None else one.timed
            streams = found.setdefault(tuple(row[name] for name in SCENARIO_NAME), {})
            named = one._replace(method=f"{row['method']}{suffix}", timed=timed)
            streams.setdefault((str(shift), int(str(seed))), []).append(named)
    return found


def _replicates(here: _Streams, there: _Streams, paired: bool) -> tuple[Replicates, Replicates]:
    """Return the methods of one scenario in this run, and the same methods in the other."""
    if paired:
        both = [together([*here[one], *there[one]], f"{one[0]} {one[1]}") for one in here]
        mine = theirs = pooled(both)
    else:
        mine, theirs = (
            pooled([together(cells, f"{side} {stream}") for stream, cells in of.items()])
            for side, of in (("here", here), ("there", there))
        )
    methods = [method for method in mine.methods if f"{method}{_OTHER}" in theirs.methods]
    return mine.of(methods), theirs.of([f"{method}{_OTHER}" for method in methods])


def _compared(here: Replicates, there: Replicates) -> pd.DataFrame:
    """Other minus this, with a 95 % interval over other batches and other times, and what that says."""
    difference = there.utility - here.utility
    sampled, timing = there.sampled - here.sampled, there.timing - here.timing
    tails = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    lo, hi = difference + np.quantile(sampled + timing, tails, axis=0)
    lo, hi = np.minimum(lo, difference), np.maximum(hi, difference)
    same, near = np.abs(difference) < NOTHING, (lo >= -EQUAL_WITHIN) & (hi <= EQUAL_WITHIN)
    change = np.select([same, (lo > 0) | (hi < 0), near], [SAME, CHANGED, EQUAL], UNDECIDED)
    why = np.where((timing**2).mean(axis=0) > (sampled**2).mean(axis=0), TIMING, SAMPLING)
    return pd.DataFrame(
        {
            "method": here.methods,
            "utility": here.utility,
            "utility_other": there.utility,
            "difference": difference,
            "lo": lo,
            "hi": hi,
            "change": change,
            "why": np.where(change == UNDECIDED, why, ""),
        }
    )


def _changed_winners(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the scenarios in which none of the first methods of one run is first in the other."""
    found = []
    for key, cell in cells.groupby(SCENARIO_NAME, dropna=False, sort=False):
        first, other = (list(cell.loc[cell[rank] == 1, "method"]) for rank in ("rank", "rank_other"))
        if not set(first) & set(other):
            found.append((*key, ", ".join(first), ", ".join(other)))
    return pd.DataFrame(found, columns=[*SCENARIO_NAME, "winner", "winner_other"])


# -- what else differs ---------------------------------------------------------------------------------------

_KEYS = {"method": "methods", "shift": "shifts", "label": "scenarios"}


def _circumstances(run: Results, other: Results, rows: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """Say everything that differs between two runs, of which these rows are compared."""
    sides = {"here": run.manifest, "there": other.manifest}
    return [
        *manifest_differences(run.manifest, other.manifest),
        *(
            f"timing {where} is {told.text}"
            for where, one in sides.items()
            if (told := verdict_of(one)).doubtful
        ),
        *(
            f"{run.cards.label(method)} has other settings: {_difference(mine, theirs)}"
            for method, mine in run.manifest["method_settings"].items()
            if mine != (theirs := other.manifest["method_settings"].get(method, mine))
        ),
        *(
            f"{plural} only {where}: {_short(', '.join(map(str, alone)))}"
            for column, plural in (*_KEYS.items(), ("seed", "seeds"))
            for where, have, lack in (("here", rows, others), ("there", others, rows))
            if len(alone := have.loc[~have[column].isin(lack[column]), column].unique())
        ),
    ]


def _difference(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Say how the settings of one method differ between two runs.

    >>> tent = {"name": "tent", "settings": {"lr": 0.1, "every": 2}}
    >>> _difference(tent, {"name": "tent", "settings": {"lr": 10, "every": 2}})
    'lr 0.1 here and 10 there'
    """
    flat = [
        {**one["settings"], **{name: one.get(name) for name in ("name", *SETTINGS_TOO)}}
        for one in (here, there)
    ]
    names = [name for name in dict.fromkeys([*flat[0], *flat[1]]) if flat[0].get(name) != flat[1].get(name)]
    return "; ".join(
        f"{name} {flat[0].get(name, 'as usual')} here and {flat[1].get(name, 'as usual')} there"
        for name in names
    )


def manifest_differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Say what two run.json hold different values of; what one of them does not know is no difference."""
    here, there = _told(mine), _told(theirs)
    said = [
        f"{what} {_short(here[what])} here and {_short(there[what])} there"
        for what in here
        if here[what] != there.get(what) and None not in (here[what], there.get(what))
    ]
    lambdas = [float(one["baseline"]["baseline_ms"]) for one in (mine, theirs)]
    if not math.isclose(*lambdas, rel_tol=0.01):
        change = percent(lambdas[1] / lambdas[0] - 1, 0, signed=True)
        said.append(f"λ is {lambdas[0]:.4g} ms here and {lambdas[1]:.4g} ms there ({change})")
    batches = [pd.Series(one.get("batches") or {}, dtype=float) for one in (mine, theirs)]
    lengths = pd.concat(batches, axis=1, join="inner", sort=False)
    return said + [
        f"{first:g} batches of {_short(', '.join(shifts.index))} here and {second:g} there"
        for (first, second), shifts in lengths.groupby([0, 1], sort=False)
        if first != second
    ]


def _told(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Facts that two runs may differ in: the beginning of a sentence, and the value from run.json."""
    machine, clock = manifest.get("machine", {}), str(manifest.get("clock", ""))
    return {
        "machine is": processor(machine),
        # A clock's name may be that of two profiles; those of a steady clock are the machine's own.
        "times are those of": f"profile {clock}" if clock.startswith("recorded") else "its own machine",
        "model is": manifest.get("model"),
        "dataset is": manifest.get("dataset"),
        "severity is": str(manifest.get("severity")),
        "batch_size is": manifest.get("batch_size"),
        "preset is": str((manifest.get("config") or {}).get("preset")),
        "weights are": manifest.get("weights"),
        **machine.get("versions", {}),
    }


def _what_it_has(rows: pd.DataFrame) -> str:
    """Name the methods, shifts and scenarios of a run."""
    return "; ".join(
        f"{plural} {_short(', '.join(rows[column].unique()))}" for column, plural in _KEYS.items()
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
