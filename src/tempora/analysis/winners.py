"""Who wins where, and how often."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from tempora.analysis.frames import keys, ordered
from tempora.analysis.ranks import with_ranks
from tempora.cards import CATALOGUE, OVERALL, TEMPORAL, Cards
from tempora.published.methods import order


def winners(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """One row per cell: `winner`, its `utility`, the `runner_up`, the `margin` to it, and `shared_with`.

    Methods with exactly the winner's utility are named in `shared_with` (text, nearly always empty); the
    first of them in the paper's order is then called the winner. `verdict` and `why` (see `Doubt.about`) are kept.
    """
    rows = ordered(with_ranks(frame), cards).sort_values("rank", kind="stable")
    cell = keys(rows)
    groups = rows.groupby(cell, dropna=False, sort=False)
    first, second = groups.nth(0).set_index(cell), groups.nth(1).set_index(cell)
    others = rows[(rows["rank"] == 1) & (groups.cumcount() > 0)]
    table = first[["method", "utility", *keys(rows, ["verdict", "why", "p_best"])]].rename(
        columns={"method": "winner"}
    )
    table["runner_up"] = second["method"]
    table["margin"] = table["utility"] - second["utility"]
    table["shared_with"] = others.groupby(cell, dropna=False)["method"].agg(", ".join)
    table["shared_with"] = table["shared_with"].fillna("")
    return ordered(table.reset_index(), cards)


def win_counts(winners: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Wins per method from one row per cell: `group`, `method`, `wins`, `cells`, `share`, most wins first.

    `group` is overall (with offline, as the paper's legends count), temporal (without) or a protocol. A cell
    shared by several methods is a win for each of them. Methods without a win do not appear.
    """
    protocols = cards.in_protocol_order(winners["protocol"].unique())
    members = {OVERALL: protocols, TEMPORAL: [name for name in protocols if name not in cards.references]}
    members |= {name: [name] for name in protocols}
    counted: list[dict[str, str | int]] = []
    for group, named in members.items():
        cells = winners[winners["protocol"].isin(named)]
        wins = Counter(_winning_methods(cells))
        counted += [
            {"group": group, "method": method, "wins": wins[method], "cells": len(cells)}
            for method in sorted(wins, key=lambda name: (-wins[name], order(name)))
        ]
    table = pd.DataFrame(counted, columns=["group", "method", "wins", "cells"])
    return table.assign(share=table["wins"] / table["cells"])


def _winning_methods(winners: pd.DataFrame) -> list[str]:
    methods = list(winners["winner"])
    for shared in winners.get("shared_with", ()):
        methods += shared.split(", ") if shared else []
    return methods
