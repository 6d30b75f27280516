"""Doubt about a run: the replicates of all its cells, and what they say about its winners.

Cells are scored again under the times of every draw, which go through the same timeline as the run's own. Batches
that were not served, and that other times would reach, get the mean of those that were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta.analysis.cells import ALL, keys, scored, shift_set
from tempora_tta.analysis.doubt.blocks import FloatArray
from tempora_tta.analysis.doubt.judgement import DRAWS, Judgement, Replicates, judge, pooled, replicate
from tempora_tta.analysis.doubt.timing import Factors, Measured, Steady, Times, rounds_of
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import order
from tempora_tta.scenarios import Resolved, Scenario
from tempora_tta.store import Results, Trace
from tempora_tta.store.files import damaged, warn
from tempora_tta.store.schema import ABOUT_WINNERS, CELL_COLUMNS, STREAM_COLUMNS

_OF_WINNER = ("verdict", "why", "equal_with", "rivals")
COLUMNS = ("sample_lo", "sample_hi", *_OF_WINNER, "p_best", "rank_lo", "rank_hi")
"""Columns that `Doubt.about` adds to a frame."""

_JUST_BELOW = 1 - 1e-6

Stream = tuple[str, str, int]
"""Model, shift, seed."""
Cells = tuple[tuple[Stream, int], ...]
"""Streams, each with the number of a scenario."""


class Doubt:
    """The replicates of a run's cells, and what they say about rows of its tables."""

    def __init__(self, rows: pd.DataFrame, cells: Mapping[tuple[Stream, int], Replicates]) -> None:
        self._cells = cells
        self._counted = frozenset(shift_set(rows["shift"]))
        self._judged: dict[Cells, tuple[Replicates, Judgement]] = {}

    def about(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add `COLUMNS` to a frame with the scenarios of this run, pooled over seeds or shifts or not.

        `verdict`, `why`, `equal_with` and `rivals` are those of the cell's winner, on all rows of the cell; the rest
        is about each row. Rows of methods that failed somewhere, and of cells without batches to look at, have none.
        """
        parts = [pd.DataFrame(columns=COLUMNS, dtype=object)]
        for _, rows in frame.groupby(keys(frame), dropna=False, sort=False):
            if cells := self._behind(rows.iloc[0]):
                parts.append(self._columns(cells, rows))
        known = pd.concat(parts).reindex(frame.index)
        words = list(_OF_WINNER)
        known[words] = known[words].astype(object).where(known[words].notna(), None)
        return frame.assign(**known.astype({name: float for name in COLUMNS if name not in words}))

    def _columns(self, cells: Cells, rows: pd.DataFrame) -> pd.DataFrame:
        if cells not in self._judged:
            together = pooled([self._cells[key] for key in cells])
            self._judged[cells] = together, judge(together)
        replicates, judged = self._judged[cells]
        lo, hi = replicates.sample_interval
        known: dict[str, Any] = {"sample_lo": lo, "sample_hi": hi}
        known |= {name: list(getattr(judged, name).values()) for name in ("p_best", "rank_lo", "rank_hi")}
        table = pd.DataFrame(known, index=list(replicates.methods), dtype=object).reindex(rows["method"])
        return table.set_axis(rows.index).assign(
            verdict=judged.verdict,
            why=judged.why,
            equal_with=", ".join(judged.equal_with),
            rivals=", ".join(judged.rivals),
        )

    def _behind(self, row: pd.Series[Any]) -> Cells:
        """Return the cells of the run that a row, pooled or not, stands for."""
        model, shift, seed = (row.get(name) for name in STREAM_COLUMNS)
        cells = tuple(
            (stream, scenario)
            for stream, scenario in self._cells
            if scenario == row["scenario"]
            and model in (None, stream[0])
            and (stream[1] in self._counted if shift in (None, ALL) else stream[1] == shift)
            and (seed is None or pd.isna(seed) or int(seed) == stream[2])
        )
        common = [set(self._cells[key].methods) for key in cells]
        return cells if common and set.intersection(*common) else ()


def doubt(results: Results) -> Doubt:
    """Return the doubt about a run, worked out once for each time that it is opened."""
    if "doubt" not in results.known:
        rows = scored(results.utilities)
        results.known["doubt"] = Doubt(rows, dict(_cells(results, rows)))
    found = results.known["doubt"]
    assert isinstance(found, Doubt)
    return found


def with_doubt(results: Results) -> pd.DataFrame:
    """Return the utilities of a run with `ABOUT_WINNERS`, which are stored with them, seed by seed."""
    utilities, contending = results.utilities, results.contenders
    known = doubt(results).about(contending[contending["utility"].notna()])
    return utilities.assign(**{name: known[name].reindex(utilities.index) for name in ABOUT_WINNERS})


def _cells(results: Results, rows: pd.DataFrame) -> Iterable[tuple[tuple[Stream, int], Replicates]]:
    for _, stream in rows.groupby(STREAM_COLUMNS, sort=False):
        model, shift, seed = stream[STREAM_COLUMNS].iloc[0]
        rescorer = Rescorer(results)
        found: dict[int, list[Scored]] = {}
        unknown = set()
        in_order = stream.sort_values("method", key=lambda names: names.map(order), kind="stable")
        for _, cell in in_order.iterrows():
            scenario = int(cell["scenario"])
            try:
                found.setdefault(scenario, []).append(rescorer.scored(cell))
            except TemporaError as error:
                if _is_there(results, cell):  # a pack may come without its batches, which is no damage
                    warn(f"{error}. How sure {cell['label']} on {cell['shift']} is cannot be said", "")
                unknown.add(scenario)
        for scenario, methods in found.items():
            # Logs of different length cannot be paired batch by batch either.
            if scenario not in unknown and len({len(one.worth) for one in methods}) == 1:
                yield ((model, shift, int(seed)), scenario), together(methods, f"{model} {shift} {seed}")


def _is_there(results: Results, cell: pd.Series[Any]) -> bool:
    with suppress(TemporaError):
        return cell["adapting_pass"] in results.folder.passes()
    return True


# -- scoring again -------------------------------------------------------------------------------------------


class Scored(NamedTuple):
    """Utility of one method in one cell: batch by batch, (batches,), and in each draw of the times, (draws,)."""

    method: str
    worth: FloatArray
    phase: NDArray[np.int8]
    timed: FloatArray | None


def together(methods: Sequence[Scored], stream: str) -> Replicates:
    """Return the replicates of one cell."""
    names = [one.method for one in methods]
    worth, phases = (
        np.stack(columns, axis=1) for columns in zip(*(one[1:3] for one in methods), strict=True)
    )
    draws = [len(one.timed) for one in methods if one.timed is not None]
    if not draws:
        return replicate(names, worth, phases=phases, stream=stream)
    timed = [np.full(draws[0], one.worth.mean()) if one.timed is None else one.timed for one in methods]
    return replicate(names, worth, np.stack(timed, axis=1), phases=phases, stream=stream)


class Rescorer:
    """Scores the cells of one stream again. Cells share passes, so what was read of them is kept."""

    def __init__(self, results: Results, scenario: Scenario | None = None) -> None:
        """`scenario`: all cells are of this one, which the run need not have evaluated."""
        self._results, self._times, self._scenario = results, _times_of(results), scenario
        self._read: dict[str, tuple[Trace, Factors | None]] = {}
        self._resolved: dict[tuple[int, int, float], Resolved] = {}

    def scored(self, cell: pd.Series[Any]) -> Scored:
        """Score a cell of the run; what each batch added is kept with the results, as other runs ask for it too."""
        known = self._results.known.setdefault("worth", {})
        assert isinstance(known, dict)
        key = tuple(cell[name] for name in ("method", *CELL_COLUMNS))
        if key not in known:
            placed = self._results.trace(cell, predictions=False)
            known[key] = placed.worth(self._results.resolved(cell, placed.num_batches)), placed.phase
        worth, phase = known[key]
        return Scored(str(cell["method"]), worth, phase, self.under_drawn_times(cell, len(worth)))

    def under_drawn_times(self, cell: pd.Series[Any], num_batches: int) -> FloatArray | None:
        """Return the utility of the cell in each draw of the times, (draws,); None where times are exact."""
        if self._times is None:
            return None
        keys = [cell[name] for name in ("adapting_pass", "frozen_pass", "fallback_pass")]
        passes = [self._pass(self._times, key if isinstance(key, str) else keys[0]) for key in keys]
        if all(factors is None for _, factors in passes):
            return None
        found = np.empty(DRAWS)
        for draw, baseline_x in enumerate(self._times.baseline):
            adapting, frozen, fallback = (
                trace if factors is None else trace.scaled(factors.predict[draw], factors.adapt[draw])
                for trace, factors in passes
            )
            deployment = self._deployment(cell, num_batches, float(baseline_x))
            found[draw] = adapting.score(deployment, frozen, fallback).utility
        return found

    def _pass(self, times: Times, key: str) -> tuple[Trace, Factors | None]:
        if key not in self._read:
            folder = self._results.folder
            trace = folder.trace(key, predictions=False)
            self._read[key] = trace.filled(), times.factors(folder.stored(key), trace)
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
    """Return a drawn lambda; where it reaches a threshold that is given in milliseconds, the least below that."""
    if scenario.not_applicable(baseline_ms) is None:
        return baseline_ms
    return scenario.deployment().threshold(baseline_ms) * _JUST_BELOW


def _times_of(results: Results) -> Times | None:
    """Return how the times of a run may be drawn again; None where they are exact."""
    if "times" not in results.known:
        results.known["times"] = _drawn_times(results)
    found = results.known["times"]
    assert found is None or isinstance(found, (Measured, Steady))
    return found


def _drawn_times(results: Results) -> Times | None:
    path = results.path / "profile.json"
    clock = str(results.manifest["clock"])
    if clock.startswith("steady") and path.exists():
        try:
            rounds = rounds_of(json.loads(path.read_text(encoding="utf-8")))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise damaged(path, "it is no profile") from error
        return None if rounds is None else Steady(rounds, DRAWS)
    return Measured(DRAWS) if clock == "measured" else None
