"""The winners grid: one row per shift, one column per scenario, each cell leading to what is behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from tempora_tta import analysis
from tempora_tta._numbers import percent
from tempora_tta.analysis.answer import certainty
from tempora_tta.analysis.cells import by_shift
from tempora_tta.analysis.doubt import Judgement
from tempora_tta.analysis.of_run import cells_of, judgement_of
from tempora_tta.cards import Cards
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
    utility: float | None
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
    """Who wins where, over all seeds."""
    cells = by_shift(cells_of(results))
    judged = {key: judgement_of(rows) for key, rows in cells.groupby(["shift", "scenario"])}
    best = analysis.winners(cells, results.cards)
    squares = {(row["shift"], int(row["scenario"])): row for _, row in best.iterrows()}
    titles = scenario_titles(results.contenders)
    table = []
    for at, shift in enumerate(names["shifts"]):
        line = []
        for column, number in enumerate(names["scenarios"]):
            won = squares.get((shift, number))
            place = f"{at}-{column}"
            if won is None:
                reasons = _reasons(results.contenders, shift, number)
                line.append(Square(f"{place}-0", None, None, reasons))
            else:
                line.append(_square(place, won, names, titles[number], judged[shift, number], results.cards))
        table.append((shift, line))
    scenarios = results.contenders.drop_duplicates("scenario").set_index("scenario")
    protocols = [str(scenarios["protocol"][number]) for number in names["scenarios"]]
    wins = analysis.wins_of(best, results.cards)
    return Grid(
        rows=table,
        headings=[(name, protocols.count(name)) for name in dict.fromkeys(protocols)],
        columns=[titles[number] for number in names["scenarios"]],
        wins=[(names["methods"].index(method), count) for method, count in wins.items()],
        apart=len(analysis.counted(best)) < len(best),
    )


def _square(
    place: str, won: pd.Series[Any], names: Names, title: str, judged: Judgement | None, cards: Cards
) -> Square:
    method = names["methods"].index(won["winner"])
    where, label = f"{shift_title(won['shift'])}, {title}", won_by(won, cards)
    text = f"{where}: {label} {percent(won['utility'])}. {certainty(judged, cards)}".strip()
    verdict = "" if judged is None else judged.verdict
    return Square(f"{place}-{method}", method, float(won["utility"]), text, label, verdict)


def _reasons(utilities: pd.DataFrame, shift: str, number: int) -> str:
    rows = utilities[(utilities["shift"] == shift) & (utilities["scenario"] == number)]
    return "; ".join(rows["status"].drop_duplicates()) or "not run yet"
