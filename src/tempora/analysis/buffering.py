"""What a buffer of one batch changes (paper, appendix B)."""

from __future__ import annotations

import pandas as pd

from tempora.analysis.frames import keys, ordered, scored
from tempora.analysis.pooling import pool
from tempora.analysis.ranks import with_ranks
from tempora.errors import TemporaError

_MEASURES = ("availability", "utility", "rank", "waitspan_ms", "response_ms", "response_sd_ms")


def buffering(frame: pd.DataFrame) -> pd.DataFrame:
    """Queue 0 beside each longer queue, per interval and method, pooled over shifts.

    Columns end in `_unbuffered`, `_buffered` and, for availability and utility, `_delta` (buffered minus
    unbuffered). Waitspan and response appear where the frame has them.
    """
    rows = scored(frame)
    rows = rows[rows["protocol"] == "discrete"]
    queues = sorted(rows["queue"].dropna().unique())
    if len(queues) < 2 or queues[0] != 0:
        found = ", ".join(f"{queue:g}" for queue in queues) or "none"
        raise TemporaError(
            f"buffering compares queue 0 with a longer one, found {found}; run queue=0 and queue=1 both"
        )
    rows = pool(rows) if rows["shift"].nunique() > 1 else with_ranks(rows)
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
        interval = "γ " + table["value"].map("{:g}".format) + " ms"
        table["label"] = table["label_buffered"].where(same, interval)
        table = table.drop(columns=["label_buffered", "label_unbuffered"])
    for name in keys(rows, ("availability", "utility")):
        table[f"{name}_delta"] = table[f"{name}_buffered"] - table[f"{name}_unbuffered"]
    return ordered(table)
