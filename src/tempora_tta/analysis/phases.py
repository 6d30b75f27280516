"""The phase transition: the pressure at which the winner changes family (paper, appendix C)."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.frames import STREAM, is_offline, keys, ordered
from tempora_tta.cards import CATALOGUE, Cards

_SHOWN = ("value", "label", "winner", "family")


def phase_transitions(winners: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Each change of the winner's family as pressure relaxes, from one row per cell.

    One row per change: the stream and protocol, and `from_` and `to_` of value, label, winner and family. A
    stream whose winners are all of one family has none; one that goes back and forth has several.
    """
    rows = ordered(winners[~is_offline(winners, cards)], cards)
    rows["family"] = [cards.family(winner) for winner in rows["winner"]]
    curve = keys(rows, (*STREAM, "protocol", "parameter", "queue", "rule"))
    before = rows.groupby(curve, dropna=False)[list(_SHOWN)].shift().add_prefix("from_")
    changes = rows.join(before)
    changes = changes[changes["from_family"].notna() & (changes["from_family"] != changes["family"])]
    changes = changes.rename(columns={name: f"to_{name}" for name in _SHOWN})
    order = [f"{end}_{name}" for end in ("from", "to") for name in _SHOWN]
    return changes[[*curve, *order]].reset_index(drop=True)
