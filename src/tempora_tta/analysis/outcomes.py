"""What counts: cells, shifts, wins, ties and champions. Whoever counts or averages over shifts asks here.

- A *cell* is one shift under one scenario, its seeds taken together. It is *under pressure* unless its scenario is
  the reference (offline).
- The *shifts* of a run leave out the clean images, which stand apart: shown, but part of no mean and no count. A run
  of nothing else has them as its shift.
- A method *wins* a cell with the highest utility, to twelve digits. Methods *tie* that are equal to that; the cell is
  a win of each. Who failed on part of a cell wins nothing there.
- The *champion* of a scenario wins it over all shifts together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from tempora_tta.analysis.frames import CELL, is_offline, keys, ordered, scored
from tempora_tta.analysis.pooling import pool
from tempora_tta.analysis.ranks import with_ranks
from tempora_tta.cards import CATALOGUE, OVERALL, TEMPORAL, Cards
from tempora_tta.errors import counted as number_of
from tempora_tta.published.methods import order
from tempora_tta.store.schema import SCENARIO_NAME

CLEAN = "clean"
"""The shift that is none."""
ALL = "all"
"""The shift of rows that are pooled over shifts."""


# -- shifts --------------------------------------------------------------------------------------------------


def shift_set(shifts: Iterable[str]) -> list[str]:
    """The shifts that count, each once.

    >>> shift_set(["fog", "clean", "snow", "fog"]), shift_set(["clean"])
    (['fog', 'snow'], ['clean'])
    """
    distinct = list(dict.fromkeys(shifts))
    return [shift for shift in distinct if shift != CLEAN] or distinct


def shift_words(shifts: Iterable[str]) -> str:
    """How many they are, as people read it: clean images are no shift beside others.

    >>> shift_words(["fog", "clean", "snow"]), shift_words(["clean"])
    ('2 shifts and clean', '1 shift')
    """
    distinct = set(shifts)
    counting = shift_set(distinct)
    return number_of(len(counting), "shift") + (" and clean" if len(counting) < len(distinct) else "")


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows whose shift counts."""
    if "shift" not in frame or CLEAN not in set(frame["shift"]):
        return frame
    return frame[frame["shift"].isin(shift_set(frame["shift"]))]


def over_seeds(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The scored rows of every cell, one per method."""
    rows = scored(frame)
    if "seed" in rows and rows["seed"].nunique() > 1:
        rows = _with_numbers(pool(rows, over="seed", cards=cards), rows)
    return ordered(rows, cards)


def over_shifts(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """One row per method and scenario over all shifts that count, of methods that were scored on each of them.

    A budget relative to the stream has other milliseconds on every shift and is one scenario all the same: its
    `value` here is their mean.
    """
    return _pooled(_on_every_shift(frame, cards), cards)


def _on_every_shift(frame: pd.DataFrame, cards: Cards) -> pd.DataFrame:
    """The rows of shifts that count, of methods that were scored on each of them."""
    rows = counted(over_seeds(frame, cards))
    if "scenario" in rows:
        rows = rows.assign(value=rows.groupby("scenario")["value"].transform("mean"))
    shifts = rows.groupby([*keys(rows, SCENARIO_NAME), "method"], dropna=False)["shift"].transform("nunique")
    return rows[shifts == rows["shift"].nunique()]


def _pooled(rows: pd.DataFrame, cards: Cards) -> pd.DataFrame:
    return ordered(_with_numbers(pool(rows, cards=cards), rows), cards)


def _with_numbers(pooled: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """With the scenarios' positions in run.json, which pooling leaves out."""
    if "scenario" not in rows:
        return pooled
    return pooled.merge(rows[[*SCENARIO_NAME, "scenario"]].drop_duplicates(SCENARIO_NAME), on=SCENARIO_NAME)


# -- wins ----------------------------------------------------------------------------------------------------


def winners(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """One row per cell: `winner`, its `utility`, the `runner_up`, the `margin` to it, and `shared_with`.

    Methods that tie with the winner are named in `shared_with` (text, nearly always empty); the first of them in the
    paper's order is then called the winner. `verdict` and `why` (see `Doubt.about`) are kept.
    """
    rows = ordered(with_ranks(over_seeds(frame, cards)), cards).sort_values("rank", kind="stable")
    cell = keys(rows)
    number = rows.groupby(cell, dropna=False, sort=False).ngroup()
    place = number.groupby(number).cumcount()
    about = keys(rows, ["verdict", "why", "p_best", "scenario", "sample_lo", "sample_hi"])
    columns = [*cell, "method", "utility", *about]
    first, second = (rows.loc[place == nth, columns].set_axis(number[place == nth], axis=0) for nth in (0, 1))
    others = (rows["rank"] == 1) & (place > 0)
    table = first.rename(columns={"method": "winner"})
    table["runner_up"] = second["method"]
    table["margin"] = table["utility"] - second["utility"]
    table["shared_with"] = rows.loc[others, "method"].groupby(number[others]).agg(", ".join)
    table["shared_with"] = table["shared_with"].fillna("")
    return ordered(table.reset_index(drop=True), cards)


def win_counts(winners: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Wins per method from one row per cell: `group`, `method`, `wins`, `cells`, `share`, most wins first.

    `group` is overall (with offline, as the paper's legends count), temporal (under pressure) or a protocol. Methods
    without a win do not appear.
    """
    winners = counted(winners)
    protocols = cards.in_protocol_order(winners["protocol"].unique())
    members = {OVERALL: protocols, TEMPORAL: [name for name in protocols if name not in cards.references]}
    members |= {name: [name] for name in protocols}
    found: list[dict[str, str | int]] = []
    for group, named in members.items():
        cells = winners[winners["protocol"].isin(named)]
        wins = Counter(method for _, row in cells.iterrows() for method in winning_methods(row))
        found += [
            {"group": group, "method": method, "wins": wins[method], "cells": len(cells)}
            for method in sorted(wins, key=lambda name: (-wins[name], order(name)))
        ]
    table = pd.DataFrame(found, columns=["group", "method", "wins", "cells"])
    return table.assign(share=table["wins"] / table["cells"])


def wins_of(winners: pd.DataFrame, cards: Cards = CATALOGUE, group: str = OVERALL) -> dict[str, int]:
    """Method -> how many cells it wins, most first: the number that stands beside a method anywhere."""
    counts = win_counts(winners, cards)
    counts = counts[counts["group"] == group]
    return {str(name): int(wins) for name, wins in zip(counts["method"], counts["wins"], strict=True)}


def champions(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """`winners` of every scenario over all shifts together."""
    return winners(over_shifts(frame, cards), cards)


def offline_champion(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> str | None:
    """The method that offline evaluation recommends: the champion where nothing presses."""
    rows = _on_every_shift(frame, cards)
    rows = rows.loc[is_offline(rows, cards), keys(rows, (*CELL, "method", "utility", "batches"))]
    if rows.empty:
        return None
    pooled = pool(rows, cards=cards)
    return str(pooled.loc[pooled["rank"] == 1, "method"].iloc[0])


def winning_methods(row: Mapping[str, Any] | pd.Series[Any]) -> list[str]:
    """Everybody whose win a row of `winners` is, the one that is called the winner first."""
    shared = row.get("shared_with", "")
    return [str(row["winner"]), *(shared.split(", ") if shared else [])]


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
    """Who failed, why and in how many cells (seed by seed); a scenario that does not apply is no failure."""
    if "status" not in frame:
        return []
    found = []
    failed = frame[frame["status"].astype(str).str.startswith("failed")]
    for (method, status), rows in failed.groupby(["method", "status"], sort=False):
        reason = str(status).removeprefix("failed").removeprefix(": ") or "no reason was kept"
        found.append(Failure(str(method), reason, len(rows), int((frame["method"] == method).sum())))
    return found
