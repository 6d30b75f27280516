"""The one table of the analysis: a row per method, scenario and shift, from which every other answer follows.

- A *cell* is one shift under one scenario, its seeds taken together; its methods are ranked against each other. The
  shift `all` holds the shifts that count, pooled.
- A cell is *under pressure* unless its scenario is the reference (offline).
- Clean images are shown apart: they are part of no mean and no count, unless a run has nothing else.
- A method *wins* a cell with the highest utility, to twelve digits. Methods that are equal to that *tie*: the cell is
  a win of each. A method that failed on part of a cell ranks last there.
- The *champion* of a scenario wins it over all shifts together.

Runs and published tables go through the same code: `cells` takes a *utilities* frame (columns of
`utilities.parquet`). `cards` say how scenarios and methods are ordered and called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from tempora_tta.cards import CATALOGUE, OVERALL, TEMPORAL, Cards
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import STANDARD, order
from tempora_tta.published.setups import CORRUPTIONS
from tempora_tta.scenarios.course import SIX_TERMS
from tempora_tta.store.cells import is_oracle
from tempora_tta.store.schema import SCENARIO_COLUMNS, SCENARIO_NAME, STREAM_COLUMNS
from tempora_tta.store.verdicts import VERDICTS

CLEAN = "clean"
"""Name of the uncorrupted images."""
ALL = "all"
"""The shift of rows that are pooled over shifts."""

STREAM = ("run", "hardware", *STREAM_COLUMNS)
"""Columns that decide the batches and the machine. A frame has those that it needs."""
SCENARIO = tuple(SCENARIO_COLUMNS)
"""Columns that decide the deployment."""
CELL = (*STREAM, *SCENARIO)
"""Rows that agree in these columns differ by method only: they are ranked against each other."""

_CERTAINTY = ("verdict", "why", "equal_with", "rivals", "p_best", "sample_lo", "sample_hi")
_REQUIRED = ("method", "protocol", "value", "utility")
_GRID = ("run", "hardware", "model")


def cells(utilities: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return one row per method, scenario and shift, `all` included, with seeds pooled; ordered as people read it.

    Besides utility and terms a row has its `rank` in the cell and the `gap` to the best; `incomplete`, if the method
    failed on part of the cell; `counts`, if the cell is part of means and counts; `reference`, if nothing presses;
    and what standard inference gets in the cell, `standard_utility` and `standard_accuracy`.
    """
    rows = scored(utilities)
    if "seed" in rows:
        rows = _numbered(pool(rows, over="seed", cards=cards), rows)
    rows = rows.assign(incomplete=incomplete(rows), counts=rows["shift"].isin(shift_set(rows["shift"])))
    if ALL not in set(rows["shift"]):
        counting = rows[rows["counts"]]
        together = _numbered(pool(counting, cards=cards), rows)
        parts = [*keys(counting, SCENARIO_NAME), *keys(counting, _GRID), "method"]
        kept = {name: how for name, how in (("incomplete", "any"), ("seeds", "max")) if name in counting}
        of_parts = counting.groupby(parts, dropna=False).agg(kept).reset_index()
        together = together.merge(of_parts, on=parts).assign(counts=False)
        together["incomplete"] |= incomplete(together)
        rows = pd.concat([together, rows], ignore_index=True)
    rows = ordered(_ranked(rows, rows["incomplete"]), cards)
    best = rows.groupby(keys(rows), dropna=False)["utility"].transform("max")
    rows = rows.assign(gap=best - rows["utility"], reference=is_offline(rows, cards))
    return _beside_standard(rows)


def _numbered(pooled: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Add the scenarios' positions in run.json, which pooling leaves out."""
    if "scenario" not in rows:
        return pooled
    return pooled.merge(rows[[*SCENARIO_NAME, "scenario"]].drop_duplicates(SCENARIO_NAME), on=SCENARIO_NAME)


def _beside_standard(rows: pd.DataFrame) -> pd.DataFrame:
    columns = {"utility": "standard_utility", "served_accuracy": "standard_accuracy"}
    cell = keys(rows)
    standard = rows.loc[rows["method"] == STANDARD, [*cell, *keys(rows, columns)]]
    return rows.merge(standard.rename(columns=columns), on=cell, how="left")


def over_all(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `cells` over all shifts, of methods and scenarios that were scored on each of them."""
    rows = table[(table["shift"] == ALL) & ~table["incomplete"]]
    if "shifts" in rows:
        rows = rows[rows["shifts"].isna() | (rows["shifts"] == table["shifts"].max())]
    return rows.reset_index(drop=True)


def by_shift(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `cells` shift by shift; those of `all` where there are no others."""
    apart = table["shift"] != ALL
    return table[apart].reset_index(drop=True) if apart.any() else table


# -- rows ----------------------------------------------------------------------------------------------------


def keys(frame: pd.DataFrame, names: Iterable[str] = CELL, without: Iterable[str] = ()) -> list[str]:
    """Return those of `names` that the frame has."""
    left_out = set(without)
    return [name for name in names if name in frame.columns and name not in left_out]


def scored(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that have a utility, numbered from 0.

    Failed and inapplicable cells take part in nothing, nor do oracles, whose settings were chosen by labels.
    """
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
    """Give each scenario its mean `value`: on shifts of different length a relative budget has several."""
    same = keys(rows, (*_GRID, *SCENARIO_NAME))
    values = rows["value"].astype(float).groupby([rows[name] for name in same], dropna=False)
    differ = values.transform("max") != values.transform("min")
    return rows.assign(value=rows["value"].where(~differ, values.transform("mean")))


def is_offline(rows: pd.DataFrame, cards: Cards) -> pd.Series[bool]:
    """Tell which rows are of the reference, without pressure."""
    return rows["protocol"].isin(list(cards.references))


def at_strictest(rows: pd.DataFrame, cards: Cards) -> pd.Series[bool]:
    """Tell which rows are at the point with most pressure of their protocol, machine and model."""
    ease = rows["value"] * ease_sign(rows["protocol"], cards)
    return ease == ease.groupby([rows[name] for name in _grids(rows)], dropna=False).transform("min")


def ease_sign(protocols: pd.Series[str], cards: Cards) -> pd.Series[float]:
    """Return 1 where a larger value is less pressure, -1 where it is more."""
    signs = {name: -1.0 if cards.scenario(name).rising else 1.0 for name in protocols.unique()}
    return protocols.map(signs).astype(float)


def one_scenario(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one scenario per protocol, machine and model: of the longest queue, then of the first."""
    first = rows.sort_values("queue", ascending=False, kind="stable") if "queue" in rows else rows
    first = first.drop_duplicates(_grids(rows))
    return rows.merge(first[keys(rows, (*_GRID, *SCENARIO))])


def _grids(rows: pd.DataFrame) -> list[str]:
    return keys(rows, ("protocol", *_GRID))


def stack(runs: Mapping[Any, pd.DataFrame], by: str = "run") -> pd.DataFrame:
    """Put several runs into one frame, told apart by a column of this name."""
    return pd.concat([frame.assign(**{by: name}) for name, frame in runs.items()], ignore_index=True)


def ordered(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Sort rows as they are read: protocol, strict to relaxed, then shift and method in the paper's order."""
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
    """Return positions under `key`; equal values stay in the order of the frame, missing ones come last."""
    codes, found = pd.factorize(column)
    values = found.tolist()
    places = np.full(len(values) + 1, len(values))  # the last is for what is missing, whose code is -1
    places[sorted(range(len(values)), key=lambda code: key(values[code]))] = np.arange(len(values))
    return places[codes]


# -- ranks ---------------------------------------------------------------------------------------------------


def with_ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the scored rows with their `rank` in the cell: 1 is best, ties share the better rank.

    Utilities that agree in twelve digits differ by rounding. Methods that failed on part of the cell come last.
    """
    rows = scored(frame)
    return _ranked(rows, incomplete(rows))


def _ranked(rows: pd.DataFrame, last: pd.Series[bool]) -> pd.DataFrame:
    rows = rows.assign(rank=rows["utility"].round(12).where(~last, -1.0))
    within_cell = rows.groupby(keys(rows), dropna=False)["rank"]
    return rows.assign(rank=within_cell.rank(method="min", ascending=False).astype(int))


def incomplete(rows: pd.DataFrame) -> pd.Series[bool]:
    """Tell which pooled rows are over fewer shifts or seeds than other methods of their cell have."""
    found = pd.Series(False, index=rows.index)
    for count in keys(rows, ("shifts", "seeds")):
        if rows[count].nunique() > 1:
            found |= rows[count] < rows.groupby(keys(rows), dropna=False)[count].transform("max")
    return found


# -- shifts --------------------------------------------------------------------------------------------------


def shift_set(shifts: Iterable[str]) -> list[str]:
    """Return the shifts that count, each once.

    >>> shift_set(["fog", "clean", "snow", "fog"]), shift_set(["clean"])
    (['fog', 'snow'], ['clean'])
    """
    distinct = list(dict.fromkeys(shifts))
    return [shift for shift in distinct if shift != CLEAN] or distinct


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose shift counts."""
    if "shift" not in frame or CLEAN not in set(frame["shift"]):
        return frame
    return frame[frame["shift"].isin(shift_set(frame["shift"]))]


# -- pooling -------------------------------------------------------------------------------------------------


def pool(frame: pd.DataFrame, over: str = "shift", cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return one row per method and scenario, pooled over `over` (shift or seed).

    A mean of means is not what the paper prints: served accuracy is pooled over served batches, adapt accuracy over
    adapted ones. The six-term identity then holds for the aggregate, if covariance is the sum of two parts,
    `within_covariance` and `between_covariance` (a shift that is both easy and fast).

    Streams weigh by their `batches` where the frame has that column, equally otherwise. A column `shifts` (`seeds`)
    counts what was pooled. `timing` is the worst of them.
    """
    rows = scored(frame)
    by = [*keys(rows, without=[over]), "method"]
    group = rows.groupby(by, dropna=False, sort=False).ngroup()
    table = rows.loc[~group.duplicated(), by].set_axis(group[~group.duplicated()])
    table[f"{over}s"] = rows.groupby(group)[over].nunique()
    if over == "shift":
        table["shift"] = ALL
    batches = rows["batches"].astype(float) if "batches" in rows else pd.Series(1.0, index=rows.index)
    table = table.join(_whole_streams(rows, batches, group))
    if "availability" in rows:
        table = table.join(_terms(rows, batches, group))
    return ordered(with_ranks(table), cards)


def _whole_streams(rows: pd.DataFrame, batches: pd.Series[float], group: pd.Series[int]) -> pd.DataFrame:
    """Pool what is averaged over all batches, added up, or a total of the mean stream."""
    averaged = keys(rows, ("utility", "utility_lo", "utility_hi", "baseline_ms"))
    totals = keys(rows, ("cutoff", "spent_ms", "waitspan_ms", "energy_j", "overhead_j", "memory_mb"))
    parts = [
        batches.groupby(group).sum().to_frame("batches"),
        _means({name: (rows[name], batches) for name in averaged}, group),
        rows[totals].astype(float).groupby(group).mean(),
    ]
    if "served_batches" in rows:
        parts.append(rows["served_batches"].groupby(group).sum(min_count=1).to_frame())
    if "timing" in rows:
        places = rows["timing"].map(VERDICTS.index).groupby(group).max()
        parts.append(places.map(dict(enumerate(VERDICTS))).to_frame("timing"))
    return pd.concat(parts, axis=1)


def _terms(rows: pd.DataFrame, batches: pd.Series[float], group: pd.Series[int]) -> pd.DataFrame:
    """Pool what is averaged over the served, the adapted or the frozen batches."""
    served = batches * rows["availability"]
    adapted = served * rows["adapted_fraction"]
    over_served = ("adapted_fraction", "responsiveness", "served_accuracy", "covariance")
    also = keys(rows, ("stepped_fraction", "ece", "response_ms"))
    found = _means(
        {
            "availability": (rows["availability"], batches),
            "adapt_accuracy": (rows["adapt_accuracy"], adapted),
            "frozen_accuracy": (rows["frozen_accuracy"], served - adapted),
            **{name: (rows[name], served) for name in (*over_served, *also)},
        },
        group,
    )

    def apart(name: str) -> pd.Series[float]:
        """Return how far each stream is from the mean of its group."""
        away: pd.Series[float] = rows[name] - group.map(found[name])
        return away

    spread = {"between_covariance": (apart("served_accuracy") * apart("responsiveness"), served)}
    if "response_sd_ms" in rows:
        spread["response_sd_ms"] = (rows["response_sd_ms"] ** 2 + apart("response_ms") ** 2, served)
    found = found.rename(columns={"covariance": "within_covariance"}).join(_means(spread, group))
    found["covariance"] = found["within_covariance"] + found["between_covariance"]
    found["accuracy"] = found["served_accuracy"]
    if "response_sd_ms" in rows:
        found["response_sd_ms"] **= 0.5
    columns = (
        *SIX_TERMS,
        *("within_covariance", "between_covariance", "accuracy", "served_accuracy"),
        *("stepped_fraction", "ece", "response_ms", "response_sd_ms"),
    )
    found = found[keys(found, columns)]
    # A stream that is alone in its group is its own mean, even if a printed table leaves out its weights.
    alone = ~group.duplicated(keep=False)
    own = rows.loc[alone, keys(rows, found.columns)].set_axis(group[alone]).astype(float)
    return found.fillna(own)


def _means(
    weighed: Mapping[str, tuple[pd.Series[Any], pd.Series[float]]], group: pd.Series[int]
) -> pd.DataFrame:
    """Return weighted means per group of columns with their weights.

    A missing value that carries weight makes the mean unknown; others do not.
    """
    weights = pd.DataFrame({name: weight.to_numpy(float) for name, (_, weight) in weighed.items()})
    values = pd.DataFrame(
        {name: value.to_numpy(float, na_value=np.nan) for name, (value, _) in weighed.items()}
    )
    weighted, of_row = (values * weights).where(weights != 0, 0.0), group.to_numpy()
    unknown = weighted.isna().groupby(of_row).any()
    total = weights.groupby(of_row).sum()
    return (weighted.groupby(of_row).sum() / total.where(total > 0)).where(~unknown)


# -- wins ----------------------------------------------------------------------------------------------------


def winners(table: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return one row per cell: `winner`, its `utility`, the `runner_up`, the `margin` to it, and `shared_with`.

    Methods that tie with the winner are named in `shared_with` (text, nearly always empty); the first of them in the
    paper's order is then called the winner. Columns on how sure that is (see `Doubt.about`) are kept.

    Args:
        table: rows of `cells`, of one shift or many.
    """
    rows = ordered(table, cards).sort_values("rank", kind="stable")
    cell = keys(rows)
    number = rows.groupby(cell, dropna=False, sort=False).ngroup()
    place = number.groupby(number).cumcount()
    about = keys(rows, ["scenario", "counts", *_CERTAINTY])
    columns = [*cell, "method", "utility", *about]
    first, second = (rows.loc[place == nth, columns].set_axis(number[place == nth], axis=0) for nth in (0, 1))
    others = (rows["rank"] == 1) & (place > 0)
    found = first.rename(columns={"method": "winner"})
    found["runner_up"] = second["method"]
    found["margin"] = found["utility"] - second["utility"]
    found["shared_with"] = rows.loc[others, "method"].groupby(number[others]).agg(", ".join)
    found["shared_with"] = found["shared_with"].fillna("")
    return ordered(found.reset_index(drop=True), cards)


def winning_methods(row: Mapping[str, Any] | pd.Series[Any]) -> list[str]:
    """Return every method whose win a row of `winners` is, the one that is called the winner first."""
    shared = row.get("shared_with", "")
    return [str(row["winner"]), *(shared.split(", ") if shared else [])]


def win_counts(winners: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Count wins per method in one row per cell: `group`, `method`, `wins`, `cells`, `share`, most wins first.

    `group` is overall (with offline, as the paper's legends count), temporal (under pressure) or a protocol. Methods
    without a win do not appear.
    """
    winners = winners[winners["counts"]] if "counts" in winners else counted(winners)
    protocols = cards.in_protocol_order(winners["protocol"].unique())
    members = {OVERALL: protocols, TEMPORAL: [name for name in protocols if name not in cards.references]}
    members |= {name: [name] for name in protocols}
    found: list[dict[str, str | int]] = []
    for group, named in members.items():
        rows = winners[winners["protocol"].isin(named)]
        wins = Counter(method for _, row in rows.iterrows() for method in winning_methods(row))
        found += [
            {"group": group, "method": method, "wins": wins[method], "cells": len(rows)}
            for method in sorted(wins, key=lambda name: (-wins[name], order(name)))
        ]
    table = pd.DataFrame(found, columns=["group", "method", "wins", "cells"])
    return table.assign(share=table["wins"] / table["cells"])


def wins_of(winners: pd.DataFrame, cards: Cards = CATALOGUE, group: str = OVERALL) -> dict[str, int]:
    """Return method -> how many cells it wins, most first."""
    counts = win_counts(winners, cards)
    counts = counts[counts["group"] == group]
    return {str(name): int(wins) for name, wins in zip(counts["method"], counts["wins"], strict=True)}


def offline_champion(table: pd.DataFrame) -> str | None:
    """Return the method that offline evaluation recommends: the best where nothing presses."""
    rows = over_all(table)
    rows = rows[rows["reference"] & (rows["rank"] == 1)]
    return None if rows.empty else str(rows["method"].iloc[0])


# -- failures ------------------------------------------------------------------------------------------------


class Failure(NamedTuple):
    """Cells of a method that have no number although they were tried."""

    method: str
    reason: str
    cells: int
    of: int

    def sentence(self, cards: Cards = CATALOGUE) -> str:
        """
        >>> Failure("tent", "RuntimeError: no BatchNorm layer", 3, 9).sentence()
        'Tent failed in 3 of 9 cells: RuntimeError: no BatchNorm layer'
        """
        where = "everywhere" if self.cells == self.of else f"in {self.cells} of {self.of} cells"
        return f"{cards.label(self.method)} failed {where}: {self.reason}"


def failures(frame: pd.DataFrame) -> list[Failure]:
    """List which methods failed, why and in how many cells (seed by seed).

    A scenario that does not apply is no failure.
    """
    if "status" not in frame:
        return []
    found = []
    failed = frame[frame["status"].astype(str).str.startswith("failed")]
    for (method, status), rows in failed.groupby(["method", "status"], sort=False):
        reason = str(status).removeprefix("failed").removeprefix(": ") or "no reason was kept"
        found.append(Failure(str(method), reason, len(rows), int((frame["method"] == method).sum())))
    return found
