"""The vocabulary of the analysis: what a cell is, in which order things are shown, what can be scored.

Every function of this package takes a *utilities* frame (the columns of `utilities.parquet`, one row per
method and cell) and gives a frame back. Runs and published tables go through the same code. `cards` say how scenarios
and methods are ordered and called: those of a run are `results.cards`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import order
from tempora_tta.published.setups import CORRUPTIONS
from tempora_tta.store.cells import is_oracle
from tempora_tta.store.schema import SCENARIO_COLUMNS, SCENARIO_NAME, STREAM_COLUMNS

STREAM = ("run", "hardware", *STREAM_COLUMNS, "repeat")
"""What decides the batches and the machine. A frame has those of these columns that it needs."""

SCENARIO = tuple(SCENARIO_COLUMNS)
"""What decides the deployment."""

CELL = (*STREAM, *SCENARIO)
"""Rows that agree in these columns differ by method only: they are ranked against each other."""

_REQUIRED = ("method", "protocol", "value", "utility")
_GRID = ("run", "hardware", "model")


def keys(frame: pd.DataFrame, names: Iterable[str] = CELL, without: Iterable[str] = ()) -> list[str]:
    """Those of `names` that the frame has."""
    left_out = set(without)
    return [name for name in names if name in frame.columns and name not in left_out]


def scored(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a utility, numbered from 0: failed and inapplicable cells take part in nothing, nor do
    oracles, whose settings were chosen by labels that no deployment has."""
    missing = [column for column in _REQUIRED if column not in frame.columns]
    if missing:
        raise TemporaError(
            f"not a utilities frame: {', '.join(missing)} missing; give the utilities of a run "
            "(tempora.open_run(RUN).utilities) or published.as_utilities(setup)"
        )
    known = frame["utility"].notna() & ~is_oracle(frame)
    rows = frame.copy(deep=False) if known.all() else frame[known]
    rows = rows.reset_index(drop=True)
    # Empty is "" to some writers and a missing value to others; both mean the same cell.
    empty = [name for name in keys(rows, ("parameter", "rule")) if rows[name].hasnans]
    if empty:
        rows = rows.assign(**{name: rows[name].fillna("") for name in empty})
    return _with_one_value(rows) if "label" in rows else rows


def _with_one_value(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean `value` of each scenario: on shifts of different length a relative budget has several."""
    if not _has_several_values(rows):
        return rows  # nearly always
    same = keys(rows, (*_GRID, *SCENARIO_NAME))
    values = rows.groupby(same, dropna=False)["value"]
    differ = values.transform("max") != values.transform("min")
    return rows.assign(value=rows["value"].where(~differ, values.transform("mean")))


def _has_several_values(rows: pd.DataFrame) -> bool:
    """Whether a scenario, by protocol and label, has more than one value. Asked by everybody: quick."""
    codes = [pd.factorize(rows[name])[0] for name in ("protocol", "label")]
    scenario = (
        np.ravel_multi_index(codes, [len(rows) + 1] * 2, mode="wrap") if len(rows) else np.array([], int)
    )
    _, number = np.unique(scenario, return_inverse=True)
    values = rows["value"].to_numpy(np.float64, na_value=np.nan)
    known = ~np.isnan(values)
    first = np.full(len(rows), np.nan)
    first[number[known][::-1]] = values[known][::-1]
    return bool((first[number[known]] != values[known]).any())


def offline(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The scored rows without temporal pressure."""
    rows = scored(frame)
    return rows[is_offline(rows, cards)]


def temporal(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The scored rows under temporal pressure."""
    rows = scored(frame)
    return rows[~is_offline(rows, cards)]


def is_offline(rows: pd.DataFrame, cards: Cards) -> pd.Series[bool]:
    """Which rows are of the reference, without pressure."""
    return rows["protocol"].isin(list(cards.references))


def strictest(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The temporal rows at the strictest point of each protocol, machine and model."""
    rows = temporal(frame, cards)
    return one_scenario(rows[at_strictest(rows, cards)])


def at_strictest(rows: pd.DataFrame, cards: Cards) -> pd.Series[bool]:
    """Which rows are at the point with most pressure of their protocol, machine and model."""
    ease = rows["value"] * ease_sign(rows["protocol"], cards)
    return ease == ease.groupby([rows[name] for name in _grids(rows)], dropna=False).transform("min")


def ease_sign(protocols: pd.Series[str], cards: Cards) -> pd.Series[float]:
    """1 where a larger value is less pressure, -1 where it is more."""
    signs = {name: -1.0 if cards.scenario(name).rising else 1.0 for name in protocols.unique()}
    return protocols.map(signs).astype(float)


def one_scenario(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one scenario for each protocol, machine and model: of the longest queue, then of the first."""
    first = rows.sort_values("queue", ascending=False, kind="stable") if "queue" in rows else rows
    first = first.drop_duplicates(_grids(rows))
    return rows.merge(first[keys(rows, (*_GRID, *SCENARIO))])


def _grids(rows: pd.DataFrame) -> list[str]:
    return keys(rows, ("protocol", *_GRID))


def stack(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Several runs as one frame, told apart by a `run` column."""
    return pd.concat([frame.assign(run=name) for name, frame in runs.items()], ignore_index=True)


def ordered(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Rows as they are read: protocol, strict to relaxed, then shift and method in the paper's order."""
    sort_keys: dict[str, Callable[[Any], Any]] = {
        "protocol": cards.protocol_order,
        "value": float,
        "queue": float,
        "shift": _shift_order,
        "method": order,
        "group": cards.protocol_order,
    }
    present = keys(frame, sort_keys)
    columns = {name: frame[name] for name in present}
    if "protocol" in columns and "value" in columns:
        columns["value"] = frame["value"].astype(float) * ease_sign(frame["protocol"], cards)
    places = [_places(column, sort_keys[name]) for name, column in columns.items()]
    rows = np.lexsort(places[::-1]) if places else np.arange(len(frame))
    return frame.iloc[rows].reset_index(drop=True)


def _shift_order(shift: str) -> int:
    return CORRUPTIONS.index(shift) if shift in CORRUPTIONS else len(CORRUPTIONS)


def _places(column: pd.Series[Any], key: Callable[[Any], Any]) -> npt.NDArray[np.intp]:
    """Positions under `key`; what it leaves equal stays in the order of the frame, missing comes last."""
    codes, found = pd.factorize(column)
    values = found.tolist()
    places = np.full(len(values) + 1, len(values))  # the last is for what is missing, whose code is -1
    places[sorted(range(len(values)), key=lambda code: key(values[code]))] = np.arange(len(values))
    return places[codes]
