"""Cells scored again: what each batch adds under the times as they were, and the utility under those of every draw.

The drawn times go through the same timeline as the run's own. Batches that were not served, and that other times
would reach, get the mean of those that were.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta.analysis.doubt.blocks import FloatArray
from tempora_tta.analysis.doubt.timing import Factors, Times
from tempora_tta.scenarios import Resolved, Scenario
from tempora_tta.store import Results, Trace
from tempora_tta.store.schema import CELL_COLUMNS

_JUST_BELOW = 1 - 1e-6


class Scored(NamedTuple):
    """Utility of one method in one cell: batch by batch, (batches,), and in each draw of the times, (draws,)."""

    method: str
    worth: FloatArray
    phase: NDArray[np.int8]
    timed: FloatArray | None


class Rescorer:
    """Scores the cells of one stream again. Passes are shared by cells, so what was read of them is kept."""

    def __init__(self, results: Results, times: Times, scenario: Scenario | None = None) -> None:
        """`scenario`: all cells are of this one, which the run need not have evaluated."""
        self._results, self._times, self._scenario = results, times, scenario
        self._read: dict[str, tuple[Trace, Factors | None]] = {}
        self._resolved: dict[tuple[int, int, float], Resolved] = {}

    def worth(self, cell: pd.Series[Any]) -> tuple[FloatArray, NDArray[np.int8]]:
        """What each batch added, as it was (the mean is the utility), and its phase: (batches,) both.

        Kept with the results: doubt asks for it, and so does every run that this one is compared with.
        """
        known = self._results.known.setdefault("worth", {})
        assert isinstance(known, dict)
        key = tuple(cell[name] for name in ("method", *CELL_COLUMNS))
        if key not in known:
            known[key] = self._as_it_was(cell)
        found: tuple[FloatArray, NDArray[np.int8]] = known[key]
        return found

    def _as_it_was(self, cell: pd.Series[Any]) -> tuple[FloatArray, NDArray[np.int8]]:
        placed = self._results.trace(cell, predictions=False)
        return placed.worth(self._results.resolved(cell, placed.num_batches)), placed.phase

    def under_drawn_times(self, cell: pd.Series[Any], num_batches: int) -> FloatArray | None:
        """The utility of the cell in each draw of the times, (draws,); None where times are exact."""
        if not self._times.draws:
            return None
        keys = [cell[name] for name in ("adapting_pass", "frozen_pass", "fallback_pass")]
        passes = [self._pass(key if isinstance(key, str) else keys[0]) for key in keys]
        if all(factors is None for _, factors in passes):
            return None
        found = np.empty(self._times.draws)
        for draw, baseline_x in enumerate(self._times.baseline):
            adapting, frozen, fallback = (
                trace if factors is None else trace.scaled(factors.predict[draw], factors.adapt[draw])
                for trace, factors in passes
            )
            deployment = self._deployment(cell, num_batches, float(baseline_x))
            found[draw] = adapting.score(deployment, frozen, fallback).utility
        return found

    def _pass(self, key: str) -> tuple[Trace, Factors | None]:
        if key not in self._read:
            folder = self._results.folder
            trace = folder.trace(key, predictions=False)
            self._read[key] = trace.filled(), self._times.factors(folder.stored(key), trace)
        return self._read[key]

    def _deployment(self, cell: pd.Series[Any], num_batches: int, baseline_x: float) -> Resolved:
        key = (int(cell["scenario"]), num_batches, float(cell["baseline_ms"]) * baseline_x)
        if key not in self._resolved:
            scenario = self._scenario or self._results.scenarios[key[0]]
            identity = self._results.folder.stored(cell["adapting_pass"]).identity
            self._resolved[key] = scenario.resolve(
                num_batches=num_batches,
                batch_size=int(self._results.manifest["batch_size"]),
                baseline_ms=_applicable(scenario, key[2]),
                seed=int(identity["seed"]),
                shift=str(identity["shift"]),
            )
        return self._resolved[key]


def _applicable(scenario: Scenario, baseline_ms: float) -> float:
    """A drawn lambda may reach a threshold that is given in milliseconds: then the least below it stands for it."""
    if scenario.not_applicable(baseline_ms) is None:
        return baseline_ms
    return scenario.deployment().threshold(baseline_ms) * _JUST_BELOW
