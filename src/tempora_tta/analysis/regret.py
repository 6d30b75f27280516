"""What a choice costs over all cells: regret, and how often a method is within reach of the best."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tempora_tta.analysis.frames import keys, ordered, temporal
from tempora_tta.analysis.outcomes import counted, over_seeds
from tempora_tta.cards import CATALOGUE, Cards

WITHIN = (0.0, 0.01, 0.02, 0.05)
"""The columns of `regret`: shares of the cells in which a method is so close to the best."""


def cell_regrets(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Best utility minus own, one row per cell under pressure, one column per method.

    Where a method has no number and another has, it gives nothing: its regret is all that the best gets.
    """
    rows = counted(over_seeds(temporal(frame, cards), cards))
    wide = rows.pivot_table(index=keys(rows), columns="method", values="utility", dropna=False)
    wide = wide[wide.notna().any(axis=1)].fillna(0.0)
    return wide.rsub(wide.max(axis=1), axis=0)


def regret(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Per method, over the cells under pressure: `mean_regret`, `worst_regret`, `cells`, and `within_0`, `within_1`,
    `within_2`, `within_5`: in which share of them it is at most so many points behind the best."""
    found = cell_regrets(frame, cards)
    table = pd.DataFrame(
        {
            "mean_regret": found.mean(),
            "worst_regret": found.max(),
            "cells": len(found),
            **{f"within_{100 * reach:g}": (found <= reach + 1e-12).mean() for reach in WITHIN},
        }
    )
    return ordered(table.rename_axis("method").reset_index(), cards)


def performance_profile(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The share of the cells under pressure in which a method is within `points` of the best: `method`, `points`,
    `share`, at every value where some share changes."""
    found = cell_regrets(frame, cards)
    reaches = np.unique(np.round(found.to_numpy(), 12))
    shares = {method: np.searchsorted(np.sort(found[method]), reaches + 1e-12, "right") for method in found}
    rows = [
        pd.DataFrame({"method": method, "points": 100 * reaches, "share": counts / max(1, len(found))})
        for method, counts in shares.items()
    ]
    return ordered(pd.concat(rows, ignore_index=True), cards)
