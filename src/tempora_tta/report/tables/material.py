"""What the tables of a run are made of, worked out once however many there are."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tempora_tta import analysis
from tempora_tta.analysis.cells import at_strictest, one_scenario
from tempora_tta.analysis.doubt import Doubt
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.report.tables.parts import shift_title


@dataclass(frozen=True)
class Material:
    """What a table is made of: ordered rows with ranks, and the reader's choices."""

    rows: pd.DataFrame
    traces: pd.DataFrame | None
    scenario: str | None
    by_shift: bool
    cards: Cards
    doubt: Doubt | None
    segments: pd.DataFrame | None = None
    by_seed: pd.DataFrame | None = None
    """The rows before seeds were pooled."""

    def of(self, protocol: str) -> pd.DataFrame:
        return self.where(self.rows["protocol"] == protocol, protocol)

    def where(self, wanted: pd.Series[bool], what: str) -> pd.DataFrame:
        """The wanted rows, if there are any."""
        if not wanted.any():
            found = ", ".join(self.rows["protocol"].unique())
            raise TemporaError(f"no {what} cells in this run (it has {found}); choose another table")
        return self.rows.loc[wanted]

    def explained_by(self, term: str) -> pd.Series[bool]:
        """Which rows are of scenarios that name the term on their card."""
        return self.rows["protocol"].map(
            {name: term in self.cards.scenario(name).terms for name in self.rows["protocol"].unique()}
        )

    def under_pressure(self) -> pd.DataFrame:
        """All rows, if they hold what a comparison under pressure needs: two methods and a temporal scenario."""
        if self.rows["method"].nunique() < 2 or analysis.is_offline(self.rows, self.cards).all():
            raise TemporaError("this table compares methods under pressure: it needs two methods and a grid")
        return self.cells()

    def cells(self) -> pd.DataFrame:
        """The one table of these rows."""
        return analysis.cells(self.rows, self.cards)

    def at_one_scenario(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of the chosen scenario, or of the strictest."""
        return one_scenario(self.chosen(rows, f"{rows['protocol'].iloc[0]} scenario"))

    def chosen(self, rows: pd.DataFrame, what: str) -> pd.DataFrame:
        """The rows of the label that the reader named, or with most pressure; all, where nothing varies."""
        if self.scenario is not None and self.scenario not in set(rows["label"]):
            raise unknown(what, self.scenario, rows["label"].unique())
        if self.scenario is not None:
            return rows.loc[rows["label"] == self.scenario]
        return rows if rows["value"].isna().all() else rows.loc[at_strictest(rows, self.cards)]


def material(
    utilities: pd.DataFrame,
    traces: pd.DataFrame | None,
    *,
    shift: str | None = None,
    cards: Cards,
    doubt: Doubt | None,
    segments: pd.DataFrame | None,
) -> Material:
    """What all tables of a run are made of: worked out once, however many there are."""
    rows = analysis.scored(utilities)
    if rows.empty:
        raise TemporaError(
            "no cell of this run has a result yet: finish it, or look at the reasons in `status`"
        )
    if shift is not None:
        if shift not in set(rows["shift"]):
            raise unknown("shift", shift, rows["shift"].unique())
        rows = rows[rows["shift"] == shift]
    by_seed = None
    if "seed" in rows and rows["seed"].nunique() > 1:
        by_seed = analysis.ordered(rows, cards)
        rows = analysis.pool(rows, over="seed", cards=cards)
    return Material(shown(rows, cards, doubt), traces, None, False, cards, doubt, segments, by_seed)


def shown(rows: pd.DataFrame, cards: Cards, doubt: Doubt | None) -> pd.DataFrame:
    ranked = analysis.with_ranks(analysis.ordered(rows, cards))
    return ranked if doubt is None else doubt.about(ranked)


def aggregated(rows: pd.DataFrame, given: Material) -> pd.DataFrame:
    rows = analysis.counted(rows)
    if rows["shift"].nunique() == 1:
        return rows
    return shown(analysis.pool(rows, cards=given.cards), given.cards, given.doubt)


def where(rows: pd.DataFrame) -> str:
    """What the numbers are about, for captions."""
    shifts = analysis.shift_set(rows["shift"])
    if len(shifts) > 1:
        apart = ", clean apart" if len(shifts) < rows["shift"].nunique() else ""
        return f"aggregated over {len(shifts)} shifts{apart}"
    return "aggregated over all shifts" if shifts[0] == "all" else f"on {shift_title(shifts[0])}"
