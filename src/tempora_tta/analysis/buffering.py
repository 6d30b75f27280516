"""What a buffer of one batch changes (paper, appendix B)."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.frames import keys, ordered, scored
from tempora_tta.analysis.outcomes import counted
from tempora_tta.analysis.pooling import pool
from tempora_tta.analysis.ranks import with_ranks
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.errors import TemporaError

_MEASURES = ("availability", "utility", "rank", "waitspan_ms", "response_ms", "response_sd_ms")


def buffering(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Queue 0 beside each longer queue, per interval and method, pooled over shifts.

    Columns end in `_unbuffered`, `_buffered` and, for availability and utility, `_delta` (buffered minus
    unbuffered). Waitspan and response appear where the frame has them.
    """
    rows = counted(scored(frame))
    queues = rows.groupby("protocol")["queue"]
    compared = rows[(queues.transform("min") == 0) & (queues.transform("nunique") > 1)]
    if compared.empty:
        found = ", ".join(f"{queue:g}" for queue in sorted(rows["queue"].dropna().unique())) or "none"
        raise TemporaError(
            f"buffering compares queue 0 with a longer one, found {found}; run queue=0 and queue=1 both"
        )
    rows = pool(compared, cards=cards) if rows["shift"].nunique() > 1 else with_ranks(compared)
    shared = keys(rows, ("run", "hardware", "model", "shift", "seed", "protocol", "parameter", "value"))
    measures = keys(rows, ("label", *_MEASURES))
    unbuffered = rows.loc[rows["queue"] == 0, [*shared, "method", *measures]]
    buffered = rows.loc[rows["queue"] != 0, [*shared, "method", "queue", *measures]]
    table = unbuffered.merge(buffered, on=[*shared, "method"], suffixes=("_unbuffered", "_buffered"))
    if table.empty:
        raise TemporaError(
            "buffering compares queues at one interval: run queue=0 and queue=1 at the same one"
        )
    if "label" in rows:  # names of their own tell the queues apart, and not the interval
        same = table["label_buffered"] == table["label_unbuffered"]
        numbers = [
            cards.scenario(protocol).number(value)
            for protocol, value in zip(table["protocol"], table["value"], strict=True)
        ]
        interval = pd.Series(numbers, index=table.index)
        table["label"] = table["label_buffered"].where(same, interval)
        table = table.drop(columns=["label_buffered", "label_unbuffered"])
    for name in keys(rows, ("availability", "utility")):
        table[f"{name}_delta"] = table[f"{name}_buffered"] - table[f"{name}_unbuffered"]
    return ordered(table, cards)
