"""How often a method loses under pressure, and by how much (paper, appendix C: the deficit profile)."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.frames import is_offline, keys, ordered, temporal
from tempora_tta.analysis.outcomes import counted, over_seeds, win_counts
from tempora_tta.analysis.ranks import with_ranks
from tempora_tta.cards import CATALOGUE, OVERALL, Cards


def gaps(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The temporal rows with `gap` to the winner of their cell and `lost`: somebody did strictly better."""
    rows = with_ranks(counted(over_seeds(temporal(frame, cards), cards)))
    best = rows.groupby(keys(rows), dropna=False)["utility"].transform("max")
    return rows.assign(gap=best - rows["utility"], lost=rows["rank"] > 1)


def deficit(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Per method and protocol, and overall: `cells`, `losses` and `mean_gap` over the lost cells only."""
    rows = gaps(frame, cards)
    rows["gap"] = rows["gap"].where(rows["lost"])
    by_protocol = rows.groupby(["method", "protocol"]).agg(
        cells=("utility", "size"), losses=("lost", "sum"), mean_gap=("gap", "mean")
    )
    return with_overall(by_protocol.reset_index().rename(columns={"protocol": "group"}), cards)


def with_overall(by_protocol: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Add the overall row of each method: losses summed, gaps averaged over all lost cells."""
    rows = by_protocol.assign(total_gap=by_protocol["losses"] * by_protocol["mean_gap"])
    overall = rows.groupby("method", sort=False)[["cells", "losses", "total_gap"]].sum().reset_index()
    overall["mean_gap"] = overall["total_gap"] / overall["losses"].where(overall["losses"] > 0)
    both = pd.concat([overall.assign(group=OVERALL), rows], ignore_index=True)
    return ordered(both[["method", "group", "cells", "losses", "mean_gap"]], cards)


def losses(winners: pd.DataFrame, methods: list[str], cards: Cards = CATALOGUE) -> pd.DataFrame:
    """`cells` and `losses` of methods where only the winners are known, as in the published grids."""
    under_pressure = counted(winners[~is_offline(winners, cards)])
    wins = win_counts(under_pressure, cards).set_index(["method", "group"])["wins"]
    sizes = {OVERALL: len(under_pressure), **under_pressure["protocol"].value_counts().to_dict()}
    return pd.DataFrame(
        [
            {
                "method": method,
                "group": group,
                "cells": cells,
                "losses": cells - int(wins.get((method, group), 0)),
            }
            for method in methods
            for group, cells in sizes.items()
        ]
    )
