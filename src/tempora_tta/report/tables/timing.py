"""Where time goes: what a batch takes, what the user waits, and what a buffer changes."""

from __future__ import annotations

import pandas as pd

from tempora_tta.cards import Cards
from tempora_tta.report.tables.model import Column, Table, TableCell
from tempora_tta.report.tables.parts import (
    Layout,
    family_rules,
    method_cell,
    methods_by_measure,
    scenario_slices,
    table_of,
)


def overhead(rows: pd.DataFrame, cards: Cards) -> Table:
    """Where a batch's time goes."""
    measures = {
        "service_ms": Column("service (ms)", "ms", 1),
        "predict_ms": Column("predict (ms)", "ms", 1),
        "intrinsic_ms": Column("intrinsic (ms)", "ms", 1),
        "adapt_ms": Column("adapt (ms)", "ms", 1),
        "slowdown": Column("slowdown", "times", 2),
        "energy_j": Column("energy (J)", "number", 3),
        "memory_mb": Column("memory (MB)", "number", 0),
    }
    shown = {name: column for name, column in measures.items() if name in rows and rows[name].notna().any()}
    caption = f"Mean latency per batch, baseline λ = {rows['baseline_ms'].iloc[0]:g} ms"
    return table_of("overhead", caption, methods_by_measure(rows, shown, cards), rows)


def buffering(rows: pd.DataFrame, cards: Cards) -> Table:
    """Queue 0 beside a queue: availability, utility, ranks."""
    rows = rows.assign(
        ranks=[f"{a}→{b}" for a, b in zip(rows["rank_unbuffered"], rows["rank_buffered"], strict=True)]
    )
    measures = {}
    for name in ("availability", "utility"):
        for variant in ("unbuffered", "buffered"):
            measures[f"{name}_{variant}"] = Column(variant, "percent", 1, f"{name} (%)")
        measures[f"{name}_delta"] = Column("change (pp)", "points", 1, f"{name} (%)")
    measures["ranks"] = Column("rank")
    best = {"utility_unbuffered": True, "utility_buffered": True}
    layout = methods_by_measure(rows, measures, cards, best)
    return table_of("buffering", f"Effect of the buffer at {rows['label'].iloc[0]}", layout, rows)


def response(rows: pd.DataFrame, cards: Cards) -> Table:
    """What the user waits (mean ± standard deviation), and the idling that dropped arrivals force."""
    methods = cards.in_order(rows["method"])
    headings, columns = [Column("Method")], [[method_cell(method, cards) for method in methods]]
    for title, _, part in scenario_slices(rows, cards):
        by_method = part.set_index("method").reindex(methods)
        pairs = zip(by_method["response_ms"], by_method["response_sd_ms"], strict=True)
        headings.append(Column("response (ms)", "text", 1, title))
        columns.append([TableCell(None if mean != mean else f"{mean:.1f} ± {sd:.1f}") for mean, sd in pairs])
        if (by_method["waitspan_ms"] > 0).any():
            headings.append(Column("waitspan (s)", "s", 1, title))
            columns.append([TableCell(value) for value in by_method["waitspan_ms"]])
    layout = Layout(tuple(headings), tuple(zip(*columns, strict=True)), family_rules(methods, cards))
    return table_of("response", "Time from arrival to prediction", layout, rows)
