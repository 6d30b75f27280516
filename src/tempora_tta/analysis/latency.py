"""Where a batch's time goes (paper, Table 2)."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.frames import is_offline, keys, ordered
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.errors import TemporaError


def overhead(traces: pd.DataFrame, baseline_ms: float, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Mean latency per batch and method over the offline passes, with standard deviations.

    `service_ms` = `predict_ms` + `adapt_ms` (delta = e + l), `intrinsic_ms` = max(0, predict_ms - lambda), the
    part of the overhead that delays the answer, and `slowdown` = service_ms / lambda.
    """
    rows = traces[is_offline(traces, cards) & traces["served"] & traces["predict_ms"].notna()]
    if rows.empty:
        raise TemporaError("no timed offline batches: latency is read from offline passes; run Offline too")
    rows = rows.assign(service_ms=rows["predict_ms"] + rows["adapt_ms"])
    by_method = rows.groupby([*keys(rows, ("run", "hardware", "model")), "method"], sort=False)
    means = by_method[["service_ms", "predict_ms", "adapt_ms"]].mean()
    deviations = by_method[["service_ms", "predict_ms", "adapt_ms"]].std(ddof=0)
    table = means.join(deviations.rename(columns=lambda name: name.replace("_ms", "_sd_ms")))
    table["intrinsic_ms"] = (table["predict_ms"] - baseline_ms).clip(lower=0.0)
    table["slowdown"] = table["service_ms"] / baseline_ms
    table["baseline_ms"] = baseline_ms
    table["batches"] = by_method.size()
    return ordered(table.reset_index(), cards)


def with_resources(table: pd.DataFrame, rows: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The rows of `overhead` with `energy_j` per batch and `memory_mb`, each where all offline `rows` know it.

    rows: of a utilities table, scored, seeds apart or pooled.
    """
    if not {"energy_j", "memory_mb"} <= set(rows):
        return table
    rows = rows[is_offline(rows, cards)]
    by = [*keys(table, ("run", "hardware", "model")), "method"]
    streams = rows.get("seeds", 1)  # pooled, the energy is that of the mean stream, the batches those of all
    taken = rows[by].assign(
        energy_j=rows["energy_j"].astype(float) * streams / rows["batches"],
        memory_mb=rows["memory_mb"].astype(float),
    )
    known = taken.groupby(by, sort=False).mean().mask(taken.set_index(by).isna().groupby(level=by).any())
    return table.merge(known.reset_index(), on=by, how="left")
