"""What each batch of a cell adds to its utility: under the times as they were, and under those of every draw.

The drawn times go through the same timeline as the run's own. Batches that were not served, and that other times
would reach, get the mean of those that were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora.analysis.doubt.blocks import FloatArray
from tempora.analysis.doubt.timing import Factors, Times
from tempora.scenarios import Resolved, Scenario
from tempora.scenarios.budget import Budget
from tempora.store import ADAPTED, Results, Trace
from tempora.store.integrity import damaged
from tempora.store.schema import CELL_COLUMNS

_JUST_BELOW = 1 - 1e-6


class Passes(NamedTuple):
    """The passes of a cell; those that it has none of its own for are its adapting one."""

    adapting: Trace
    frozen: Trace
    fallback: Trace


class Rescorer:
    """Scores the cells of one stream again. Passes are shared by cells, so what was read of them is kept."""

    def __init__(self, results: Results, times: Times, scenario: Scenario | None = None) -> None:
        """`scenario`: all cells are of this one, which the run need not have evaluated."""
        self._results, self._times, self._scenario = results, times, scenario
        self._read: dict[str, tuple[Trace, Factors | None]] = {}
        self._both_ends = {} if scenario else _ends(results)
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

    def timed(self, cell: pd.Series[Any], worth: FloatArray) -> FloatArray | None:
        """(draws, batches), under the drawn times; None where no draw changes anything."""
        keys = [cell[name] for name in ("adapting_pass", "frozen_pass", "fallback_pass")]
        parts = [self._pass(key if isinstance(key, str) else keys[0]) for key in keys]
        if all(factors is None for _, factors in parts) or self._untouched(cell, worth, *parts[0]):
            return None
        rescored = np.empty((self._times.draws, len(worth)))
        nearest = self._nearest(cell, *parts[0])
        for draw, baseline_x in enumerate(self._times.baseline):
            passes = Passes(*(_at(trace, factors, draw) for trace, factors in parts))
            if nearest is not None:
                passes = passes._replace(adapting=replace(passes.adapting, correct=nearest[draw]))
            rescored[draw] = worth_of(passes, self._deployment(cell, len(worth), float(baseline_x)))
        return rescored

    def _nearest(
        self, cell: pd.Series[Any], trace: Trace, factors: Factors | None
    ) -> list[FloatArray] | None:
        """What was right in each draw: by the pass whose times were nearest to the drawn ones, where the method was
        run at both ends of the profile too."""
        ends = self._both_ends.get(_key(cell))
        if not ends or factors is None:
            return None
        right = [trace.correct, *(self._pass(key)[0].correct for _, key in ends)]
        service_ms = (trace.predict_ms + trace.adapt_ms).sum()
        drawn_ms = (factors.predict * trace.predict_ms + factors.adapt * trace.adapt_ms).sum(axis=1)
        pace = drawn_ms / service_ms / self._times.baseline
        places = np.array([1.0, *(times_x for times_x, _ in ends)])
        return [right[place] for place in np.abs(pace[:, None] - places).argmin(axis=1)]

    def _untouched(
        self, cell: pd.Series[Any], worth: FloatArray, adapting: Trace, factors: Factors | None
    ) -> bool:
        """Far from any limit: every batch is served, adapted and in full value even if all that can be slow is slow,
        and lambda, with whatever is relative to it, as short as it can be. Then it is so in every draw."""
        if factors is None or not np.array_equal(worth, adapting.accuracy):
            return False
        slowest = adapting.scaled(factors.predict.max(axis=0), factors.adapt.max(axis=0))
        nothing = replace(
            slowest, correct=np.zeros(len(worth))
        )  # what is frozen, or a fallback's, would show
        shortest = self._deployment(cell, len(worth), float(self._times.baseline.min()))
        return np.array_equal(worth_of(Passes(slowest, nothing, nothing), shortest), worth)

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
                baseline_ms=_applicable(scenario, key[2]),
                seed=int(identity["seed"]),
                shift=str(identity["shift"]),
            )
        return self._resolved[key]


def _key(cell: Mapping[str, Any] | pd.Series[Any]) -> tuple[str, str, str, int, int]:
    return (
        str(cell["method"]),
        str(cell["model"]),
        str(cell["shift"]),
        int(cell["seed"]),
        int(cell["scenario"]),
    )


def _ends(results: Results) -> dict[tuple[str, str, str, int, int], list[tuple[float, str]]]:
    """The passes at both ends of the profile that the run made, by cell."""
    told = results.manifest.get("ends") or []
    there = results.folder.passes() if told else {}
    try:
        found = {_key(cell): [(float(times_x), str(key)) for times_x, key in cell["passes"]] for cell in told}
        return {cell: ends for cell, ends in found.items() if all(key in there for _, key in ends)}
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(results.path / "run.json", f"its ends are none: {error}") from error


def worth_of(passes: Passes, resolved: Resolved) -> FloatArray:
    """What each batch adds under `resolved`: `adapting.score(resolved, frozen, fallback).worth`.

    A stream that waits loses nothing and needs no steps: all that is left of its timeline is what each batch waits.
    """
    adapting, frozen, fallback = passes
    if not resolved.waits:
        return adapting.score(resolved, frozen, fallback).worth
    adapting, frozen = adapting.on_device(resolved), frozen.on_device(resolved)
    undone = ~np.isnan(adapting.attempt_predict_ms)
    predict_ms = np.where(undone, adapting.attempt_predict_ms, adapting.predict_ms)
    adapt_ms = np.where(undone, adapting.attempt_adapt_ms, adapting.adapt_ms)
    willing = (adapting.phase == ADAPTED) | undone
    budget = Budget(resolved.budget_ms, resolved.baseline_ms, resolved.rule)
    afforded = budget.afforded(predict_ms + adapt_ms, willing)
    accuracy = np.where(afforded & willing, adapting.accuracy, frozen.accuracy)
    if not resolved.value.decays:
        return accuracy
    response_ms = np.where(afforded, predict_ms, frozen.predict_ms)
    if resolved.arrivals == "on_prediction":
        response_ms[1:] += np.where(afforded, adapt_ms, 0.0)[:-1]
    return accuracy * resolved.value.kappa(response_ms)


def _at(trace: Trace, factors: Factors | None, draw: int) -> Trace:
    if factors is None:
        return trace
    return trace.scaled(factors.predict[draw], factors.adapt[draw])


def _applicable(scenario: Scenario, baseline_ms: float) -> float:
    """A drawn lambda may reach a threshold that is given in milliseconds: then the least below it stands for it."""
    if scenario.not_applicable(baseline_ms) is None:
        return baseline_ms
    return scenario.deployment().threshold(baseline_ms) * _JUST_BELOW
