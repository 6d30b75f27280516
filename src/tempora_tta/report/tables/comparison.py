"""How methods compare under pressure: correlations, losses, regret, ranks and what time alone decides."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tempora_tta.cards import OVERALL, Cards
from tempora_tta.report.tables.model import Column, Table, TableCell
from tempora_tta.report.tables.parts import (
    Layout,
    family_rules,
    method_cell,
    methods_by_measure,
    scenario_slices,
    shifts_by_scenario,
    table_of,
)
from tempora_tta.report.tables.utility import TERMS

FACTORS: dict[str, Column] = {
    "availability": Column("availability (%)", "percent", 1),
    "responsiveness": Column("responsiveness (%)", "percent", 1),
    "cutoff": Column("cut-off (batches)", "count", 0),
}
"""The same above columns that stand alone."""


def temporal_factors(rows: pd.DataFrame, cards: Cards) -> Table:
    """What time alone decides under the strictest pressure."""
    measures = {}
    for protocol, factor, title in (
        rows[["protocol", "factor", "label"]].drop_duplicates().itertuples(index=False)
    ):
        measures[protocol] = replace(FACTORS.get(factor) or TERMS[factor], group=f"at {title}")
    wide = rows.pivot(index="method", columns="protocol", values="factor_value").reset_index()
    layout = methods_by_measure(wide, measures, cards)
    return table_of("temporal-factors", "Temporal factors under the strictest pressure", layout, rows)


def correlation(rows: pd.DataFrame, summary: pd.DataFrame, cards: Cards) -> Table:
    """Spearman correlation with the offline ranking, by shift, with mean and standard deviation below."""
    number = Column("", "number", 2)
    shifts = list(rows["shift"].unique())
    layout = shifts_by_scenario(rows, lambda row: TableCell(row["spearman_r"]), number, shifts, cards)
    slices = scenario_slices(summary, cards)
    lines = tuple(
        (TableCell(title), *(TableCell(part.rows[name].iloc[0]) for part in slices))
        for title, name in (("Mean", "mean"), ("Std", "std"))
    )
    if len(shifts) > 1:
        rules = layout.rules | {len(layout.rows)}
        layout = Layout(layout.columns, (*layout.rows, *lines), frozenset(rules))
    return table_of("correlation", "Spearman correlation of offline and temporal rankings", layout, rows)


def deficit(rows: pd.DataFrame, cards: Cards) -> Table:
    """How often each method loses, and by how much."""
    columns = {
        "losses": Column("losses", "count"),
        "mean_gap": Column("gap (pp)", "percent", 2),
    }
    cells = int(rows["cells"].max())
    wide, measures = _by_group(rows, columns, cards)
    caption = f"Losses and mean gap to the winner over {cells} temporal cells"
    return table_of("deficit", caption, methods_by_measure(wide, measures, cards), rows)


def below_standard(rows: pd.DataFrame, cards: Cards) -> Table:
    """How often a method is worse than not adapting, and where."""
    overall = rows[rows["group"] == OVERALL].set_index("method")
    shares = rows[rows["group"] != OVERALL].pivot(index="method", columns="group", values="share")
    wide = shares.assign(count=overall["count"]).reset_index()
    groups = cards.in_protocol_order(shares.columns)
    measures = {
        "count": Column(f"of {int(overall['cells'].max())}", "count"),
        **{group: Column(f"{cards.title(group).lower()} (%)", "percent", 0, "of which") for group in groups},
    }
    layout = methods_by_measure(wide, measures, cards)
    return table_of("below-standard", "Cells with less utility than standard inference", layout, rows)


def regret(rows: pd.DataFrame, cards: Cards) -> Table:
    """What choosing each method everywhere would cost, and how often it is close to the best."""
    shares = [str(name) for name in rows.columns if str(name).startswith("within_")]
    measures = {
        "mean_regret": Column("mean (pp)", "percent", 2, "regret"),
        "worst_regret": Column("worst (pp)", "percent", 2, "regret"),
        **{
            name: Column(f"{name.removeprefix('within_')} pp", "percent", 0, "cells (%) within")
            for name in shares
        },
    }
    best = {"mean_regret": False, "worst_regret": False, **dict.fromkeys(shares, True)}
    layout = methods_by_measure(rows, measures, cards, best)
    caption = f"Distance to the best over {int(rows['cells'].max())} cells under pressure"
    return table_of("regret", caption, layout, rows)


def certainty(rows: pd.DataFrame, where: str, cards: Cards) -> Table:
    """The 95 % interval of every rank, and the probability of being best."""
    methods = cards.in_order(rows["method"])
    headings, columns = [Column("Method")], [[method_cell(method, cards) for method in methods]]
    for title, group, part in scenario_slices(rows, cards):
        by_method = part.set_index("method").reindex(methods)
        spans = zip(by_method["rank_lo"], by_method["rank_hi"], strict=True)
        headings.append(Column(title, "text", 0, f"{group}: rank"))
        columns.append([TableCell(_span(lo, hi)) for lo, hi in spans])
    for title, group, part in scenario_slices(rows, cards):
        by_method = part.set_index("method").reindex(methods)
        headings.append(Column(title, "percent", 0, f"{group}: P(best) (%)"))
        columns.append([TableCell(value) for value in by_method["p_best"]])
    layout = Layout(tuple(headings), tuple(zip(*columns, strict=True)), family_rules(methods, cards))
    note = "over other batches and times like these; equal methods are all best"
    return table_of("certainty", f"Ranks (95 % interval) and P(best), {where}", layout, rows, (note,))


def _span(lo: float, hi: float) -> str | None:
    """
    >>> _span(1, 3), _span(2, 2)
    ('1–3', '2')
    """
    if lo != lo or hi != hi:
        return None
    return f"{lo:.0f}" if lo == hi else f"{lo:.0f}–{hi:.0f}"


def _by_group(
    rows: pd.DataFrame, columns: dict[str, Column], cards: Cards
) -> tuple[pd.DataFrame, dict[str, Column]]:
    """Long rows (method, group, values) as one row per method, with the groups as headings."""
    wide = rows.pivot(index="method", columns="group", values=list(columns))
    groups = cards.in_protocol_order(rows["group"])
    measures = {
        f"{name} {group}": Column(column.title, column.unit, column.digits, cards.title(group))
        for group in groups
        for name, column in columns.items()
    }
    flat = pd.DataFrame({f"{name} {group}": wide[name][group] for group in groups for name in columns})
    return flat.reset_index(), measures
