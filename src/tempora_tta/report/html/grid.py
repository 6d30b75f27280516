"""The winners grid: one row per shift, one column per scenario, each cell leading to what is behind it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tempora_tta import analysis
from tempora_tta._numbers import percent
from tempora_tta.analysis.answer import certainty
from tempora_tta.analysis.cells import by_shift
from tempora_tta.analysis.of_run import cells_of, judgement_of
from tempora_tta.report.frames import scenario_titles
from tempora_tta.report.table import won_by
from tempora_tta.report.whatif import Names
from tempora_tta.store import Results
from tempora_tta.words import shift_title


@dataclass(frozen=True)
class Square:
    """One cell of the grid."""

    place: str
    """`shift-scenario-method`, as positions: the end of a link to the cell."""
    method: int | None
    text: str
    label: str = ""
    """Who wins it; several, if they are equal."""
    verdict: str = ""
    """holds, equal or undecided."""


@dataclass(frozen=True)
class Grid:
    """The whole table, ready to be filled into the page."""

    rows: list[tuple[str, list[Square]]]
    headings: list[tuple[str, int]]
    """Protocols, and how many columns each has."""
    columns: list[str]
    wins: list[tuple[int, int]]
    """(method, cells won), most first."""
    apart: bool = False
    """Whether it has clean images, which count in no total."""

    def has(self, verdict: str) -> bool:
        return any(square.verdict == verdict for _, line in self.rows for square in line)


def winners_grid(results: Results, names: Names) -> Grid:
    """Return who wins where, over all seeds."""
    cells, cards = by_shift(cells_of(results)), results.cards
    best = analysis.winners(cells, cards)
    scenarios = results.contenders.drop_duplicates("scenario").set_index("scenario").loc[names["scenarios"]]
    titles = scenario_titles(results.contenders)
    judged = {key: judgement_of(rows) for key, rows in cells.groupby(["shift", "scenario"])}
    won = {(row["shift"], int(row["scenario"])): row for _, row in best.iterrows()}
    table = []
    for at, shift in enumerate(names["shifts"]):
        line = []
        for column, number in enumerate(names["scenarios"]):
            row, where = won.get((shift, number)), f"{shift_title(shift)}, {titles[number]}"
            if row is None:
                line.append(Square(f"{at}-{column}-0", None, _reasons(results.contenders, shift, number)))
                continue
            judgement, label = judged[shift, number], won_by(row, cards)
            method = names["methods"].index(row["winner"])
            text = f"{where}: {label} {percent(row['utility'])}. {certainty(judgement, cards)}".strip()
            verdict = "" if judgement is None else judgement.verdict
            line.append(Square(f"{at}-{column}-{method}", method, text, label, verdict))
        table.append((shift, line))
    wins = analysis.wins_of(best, cards)
    return Grid(
        rows=table,
        headings=[(str(name), len(own)) for name, own in scenarios.groupby("protocol", sort=False)],
        columns=[titles[number] for number in names["scenarios"]],
        wins=[(names["methods"].index(method), count) for method, count in wins.items()],
        apart=len(analysis.counted(best)) < len(best),
    )


def _reasons(utilities: pd.DataFrame, shift: str, number: int) -> str:
    rows = utilities[(utilities["shift"] == shift) & (utilities["scenario"] == number)]
    return "; ".join(rows["status"].drop_duplicates()) or "not run yet"
