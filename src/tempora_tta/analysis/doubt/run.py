"""Doubt about a run: the replicates of all its cells, and what they say about its winners."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta.analysis.cells import ALL, keys, scored, shift_set
from tempora_tta.analysis.doubt.judgement import (
    Judgement,
    Replicates,
    judge,
    pooled,
)
from tempora_tta.analysis.doubt.resampling import DRAWS, replicate
from tempora_tta.analysis.doubt.rescoring import Rescorer, Scored
from tempora_tta.analysis.doubt.timing import Exact, Measured, Steady, Times, rounds_of
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import order
from tempora_tta.store import Results
from tempora_tta.store.files import damaged, warn
from tempora_tta.store.schema import ABOUT_WINNERS, SCENARIO_NAME, STREAM_COLUMNS

_OF_WINNER = ("verdict", "why", "equal_with", "rivals")
COLUMNS = ("sample_lo", "sample_hi", *_OF_WINNER, "p_best", "rank_lo", "rank_hi")
"""What `Doubt.about` adds to a frame."""

Stream = tuple[str, str, int]
"""Model, shift, seed."""


class Doubt:
    """The replicates of a run's cells. Whatever is pooled, marked or counted asks here."""

    def __init__(self, rows: pd.DataFrame, cells: Mapping[tuple[Stream, int], Replicates]) -> None:
        self._rows = rows
        self._cells = cells
        self._judged: dict[tuple[tuple[Stream, int], ...], tuple[Replicates, Judgement]] = {}

    def about(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A utilities frame of this run, pooled over seeds or shifts or not, with `COLUMNS`.

        `verdict`, `why`, `equal_with` and `rivals` are those of the cell's winner, on all rows of the cell; the rest
        is about each row.
        Rows of methods that failed somewhere, and of cells without batches to look at, have none.
        """
        found: dict[str, list[Any]] = {column: [None] * len(frame) for column in COLUMNS}
        numbers = frame.groupby(keys(frame), dropna=False, sort=False).ngroup().to_numpy()
        methods = frame["method"].tolist()
        for number in np.unique(numbers):
            places = np.flatnonzero(numbers == number).tolist()
            cells = self._behind(frame.iloc[places[0]])
            if not cells:
                continue
            replicates, judged = self._judgement(cells)
            lo, hi = replicates.sample_interval
            for place in places:
                method = methods[place]
                found["verdict"][place], found["why"][place] = judged.verdict, judged.why
                found["equal_with"][place] = ", ".join(judged.equal_with)
                found["rivals"][place] = ", ".join(judged.rivals)
                if method in replicates.methods:
                    column = replicates.methods.index(method)
                    found["sample_lo"][place], found["sample_hi"][place] = lo[column], hi[column]
                    for name in ("p_best", "rank_lo", "rank_hi"):
                        found[name][place] = getattr(judged, name)[method]
        return frame.assign(
            **{
                name: pd.Series(values, frame.index, dtype=object if name in _OF_WINNER else float)
                for name, values in found.items()
            }
        )

    def _behind(self, row: pd.Series[Any]) -> tuple[tuple[Stream, int], ...]:
        """The cells of the run that a row, pooled or not, stands for."""
        scenario = self._scenario(row)
        model, shift, seed = (row.get(name) for name in STREAM_COLUMNS)
        cells = tuple(
            key
            for key in self._of_scenario.get(scenario, ())
            if model in (None, key[0][0])
            and (key[0][1] in self._shifts if shift in (None, ALL) else key[0][1] == shift)
            and (seed is None or pd.isna(seed) or int(seed) == key[0][2])
        )
        common = [set(self._cells[key].methods) for key in cells]
        return cells if common and set.intersection(*common) else ()

    @cached_property
    def _shifts(self) -> frozenset[str]:
        """Those that count where shifts are pooled."""
        return frozenset(shift_set(self._rows["shift"]))

    @cached_property
    def _of_scenario(self) -> dict[int, list[tuple[Stream, int]]]:
        found: dict[int, list[tuple[Stream, int]]] = {}
        for key in self._cells:
            found.setdefault(key[1], []).append(key)
        return found

    def _scenario(self, row: pd.Series[Any]) -> int:
        if "scenario" in row.index:
            return int(row["scenario"])
        return self._scenarios.get(_names(row), -1)

    @cached_property
    def _scenarios(self) -> dict[tuple[str, ...], int]:
        first = self._rows.drop_duplicates("scenario")
        return {_names(row): int(row["scenario"]) for _, row in first.iterrows()}

    def _judgement(self, cells: tuple[tuple[Stream, int], ...]) -> tuple[Replicates, Judgement]:
        if cells not in self._judged:
            together = pooled([self._cells[key] for key in cells])
            self._judged[cells] = together, judge(together)
        return self._judged[cells]


def doubt(results: Results) -> Doubt:
    """The doubt about a run, worked out once for each time that it is opened."""
    if "doubt" not in results.known:
        rows = scored(results.utilities)
        results.known["doubt"] = Doubt(rows, dict(_cells(results, rows)))
    found = results.known["doubt"]
    assert isinstance(found, Doubt)
    return found


def _cells(results: Results, rows: pd.DataFrame) -> Iterable[tuple[tuple[Stream, int], Replicates]]:
    times = times_of(results)
    for _, stream in rows.groupby(STREAM_COLUMNS, sort=False):
        first = stream.iloc[0]
        name = (str(first["model"]), str(first["shift"]), int(first["seed"]))
        rescorer = Rescorer(results, times)
        found: dict[int, list[Scored]] = {}
        unknown = set()
        in_order = stream.sort_values("method", key=lambda names: names.map(order), kind="stable")
        for _, cell in in_order.iterrows():
            scenario = int(cell["scenario"])
            try:
                worth, phase = rescorer.worth(cell)
                timed = rescorer.under_drawn_times(cell, len(worth))
                found.setdefault(scenario, []).append(Scored(cell["method"], worth, phase, timed))
            except TemporaError as error:
                if _is_there(results, cell):  # a pack may come without its batches, which is no damage
                    warn(f"{error}. How sure {cell['label']} on {cell['shift']} is cannot be said", "")
                unknown.add(scenario)
        for scenario, methods in found.items():
            # Logs of different length cannot be paired batch by batch either.
            if scenario not in unknown and len({len(one.worth) for one in methods}) == 1:
                yield (name, scenario), together(methods, " ".join(map(str, name)))


def _is_there(results: Results, cell: pd.Series[Any]) -> bool:
    with suppress(TemporaError):
        return cell["adapting_pass"] in results.folder.passes()
    return True


def together(methods: Sequence[Scored], stream: str) -> Replicates:
    """The replicates of one cell."""
    names = [one.method for one in methods]
    worth, phases = (
        np.stack(columns, axis=1) for columns in zip(*(one[1:3] for one in methods), strict=True)
    )
    draws = [len(one.timed) for one in methods if one.timed is not None]
    if not draws:
        return replicate(names, worth, phases=phases, stream=stream)
    timed = [np.full(draws[0], one.worth.mean()) if one.timed is None else one.timed for one in methods]
    return replicate(names, worth, np.stack(timed, axis=1), phases=phases, stream=stream)


def times_of(results: Results) -> Times:
    """How the times of a run may be drawn again."""
    path = results.path / "profile.json"
    clock = str(results.manifest["clock"])
    if clock.startswith("steady") and path.exists():
        try:
            rounds = rounds_of(json.loads(path.read_text(encoding="utf-8")))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise damaged(path, "it is no profile") from error
        return Exact() if rounds is None else Steady(rounds, DRAWS)
    return Measured(DRAWS) if clock == "measured" else Exact()


def with_doubt(results: Results) -> pd.DataFrame:
    """The utilities of a run with what is stored about them, seed by seed: `sample_lo`, `sample_hi`, `verdict`."""
    utilities = results.utilities
    contending = results.contenders
    known = doubt(results).about(contending[contending["utility"].notna()])
    return utilities.assign(**{name: known[name].reindex(utilities.index) for name in ABOUT_WINNERS})


def _names(row: pd.Series[Any]) -> tuple[str, ...]:
    """What a scenario is called, whether its empty fields are empty or missing."""
    values = [row.get(name) for name in SCENARIO_NAME]
    return tuple(
        "" if value is None or pd.isna(value) else value if isinstance(value, str) else f"{float(value):g}"
        for value in values
    )
