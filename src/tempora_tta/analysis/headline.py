"""The headline of a run: what the offline winner loses under pressure."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tempora_tta._numbers import points
from tempora_tta.analysis.cells import offline_champion, win_counts, winners
from tempora_tta.analysis.paper import below_standard, deficit
from tempora_tta.cards import CATALOGUE, OVERALL, TEMPORAL, Cards
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import STANDARD


@dataclass(frozen=True)
class Headline:
    """What happens to the method that offline evaluation recommends."""

    offline_winner: str
    offline_wins: int
    offline_cells: int
    temporal_cells: int
    losses: int
    mean_gap: float
    """Mean utility the offline winner gives away in the cells that it loses."""
    below_standard: int
    temporal_winner: str
    temporal_wins: int
    offline_rivalled: bool = False
    """Another wins as many cells offline or more: it is best by its mean over them."""

    def sentence(self, cards: Cards = CATALOGUE) -> str:
        """For people: `CMF, best offline (10 of 15 wins), loses 211 of 240 under pressure ...`."""
        champion = cards.label(self.offline_winner)
        by = " on average" if self.offline_rivalled else ""
        who = f"{champion}, best offline{by} ({self.offline_wins} of {self.offline_cells} wins),"
        if not self.losses:
            return f"{who} stays best in all {self.temporal_cells} cells under pressure."
        loses = f"loses {self.losses} of {self.temporal_cells} under pressure"
        loses += f", by {points(self.mean_gap)} on average"
        if self.offline_winner != STANDARD:
            times = {0: "never", 1: "once"}.get(self.below_standard, f"{self.below_standard} times")
            loses += f", {times} below Standard"
        most = cards.label(self.temporal_winner)
        others = f"{most} wins most there" if most != champion else "it still wins most there"
        return f"{who} {loses}; {others}, {self.temporal_wins}."


def headline(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> Headline:
    """The headline of a run that has offline rows, Standard and at least one temporal scenario."""
    found = winners(cells, cards)
    if found["protocol"].nunique() < 2 or not cards.references & set(found["protocol"]):
        raise TemporaError("a headline sets offline beside temporal scenarios; the run needs cells of both")
    champion = offline_champion(cells)
    return compose(found, deficit(cells, cards), below_standard(cells, cards), cards, champion)


def compose(
    winners: pd.DataFrame,
    deficits: pd.DataFrame,
    below: pd.DataFrame,
    cards: Cards = CATALOGUE,
    champion: str | None = None,
) -> Headline:
    """The headline from its parts: a run's own, or the published tables, which print no more than these.

    Without the offline `champion`, as in the published tables, the method with most wins there stands for it.
    """
    counts = win_counts(winners, cards)
    offline = counts[counts["group"].isin(list(cards.references))]
    temporal = counts[counts["group"] == TEMPORAL]
    best_temporal = temporal.iloc[0]
    method = champion or str(offline.iloc[0]["method"])
    lost = deficits[(deficits["group"] == OVERALL) & (deficits["method"] == method)].iloc[0]
    wins = offline.set_index("method")["wins"]
    offline_wins = int(wins.get(method, 0))
    misses = below[(below["group"] == OVERALL) & (below["method"] == method)]["count"]
    return Headline(
        offline_winner=method,
        offline_wins=offline_wins,
        offline_cells=int(offline.iloc[0]["cells"]),
        temporal_cells=int(lost["cells"]),
        losses=int(lost["losses"]),
        mean_gap=float(lost["mean_gap"]),
        below_standard=int(misses.sum()),
        temporal_winner=str(best_temporal["method"]),
        temporal_wins=int(best_temporal["wins"]),
        offline_rivalled=bool((wins.drop(method, errors="ignore") >= offline_wins).any()),
    )
