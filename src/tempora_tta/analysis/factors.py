"""The terms that time alone decides: availability, responsiveness, cut-off, at the strictest settings."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.frames import keys, ordered, strictest
from tempora_tta.analysis.outcomes import counted
from tempora_tta.analysis.pooling import pool
from tempora_tta.cards import CATALOGUE, Cards


def temporal_factors(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """`factor` and `factor_value` per method at the strictest point of each protocol, pooled over shifts.

    Of several queues the longest counts. The cut-off is the mean number of batches adapted before the budget
    ran out; missing if it never did.
    """
    rows = strictest(counted(frame), cards)
    if "shift" in rows and rows["shift"].nunique() > 1:
        rows = pool(rows, cards=cards)
    rows = rows.assign(factor=[cards.scenario(protocol).factor for protocol in rows["protocol"]])
    rows["factor_value"] = [row[row["factor"]] for _, row in rows.iterrows()]
    never_exhausted = (rows["factor"] == "cutoff") & (rows["adapted_fraction"] == 1)
    rows["factor_value"] = rows["factor_value"].where(~never_exhausted)
    shown = keys(
        rows, ("run", "hardware", "model", "seed", "protocol", "parameter", "value", "label", "queue")
    )
    return ordered(rows[[*shown, "method", "factor", "factor_value"]], cards)
