"""What each method got: tables of utility, and of the terms that explain it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tempora_tta import analysis
from tempora_tta.analysis.cells import keys
from tempora_tta.cards import Cards
from tempora_tta.report.tables.model import Column, Table, TableCell
from tempora_tta.report.tables.parts import (
    Layout,
    flag_notes,
    flags,
    methods_by_measure,
    methods_by_scenario,
    shift_title,
    shifts_by_method,
    shifts_by_scenario,
    table_of,
    with_summary,
    won_by,
)

TERMS: dict[str, Column] = {
    "availability": Column("availability", "percent", 1),
    "served_batches": Column("served batches", "count"),
    "served_accuracy": Column("served accuracy", "percent", 1),
    "accuracy": Column("accuracy", "percent", 2),
    "responsiveness": Column("responsiveness", "percent", 1),
    "covariance": Column("covariance", "number", 4),
    "within_covariance": Column("within shifts", "number", 4, "of which"),
    "between_covariance": Column("between", "number", 4, "of which"),
    "adapted_fraction": Column("adapted fraction", "percent", 1),
    "stepped_fraction": Column("stepped", "percent", 1, "of which"),
    "adapt_accuracy": Column("adapt accuracy", "percent", 2),
    "frozen_accuracy": Column("frozen accuracy", "percent", 2),
    "cutoff": Column("cut-off", "count"),
    "spent_ms": Column("spent (s)", "s", 2),
}
"""How each term is written. Which of them explain a utility is on the scenario's card."""

UTILITY = Column("utility", "percent", 2)
ECE = Column("ECE", "percent", 1)


def winners(cells: pd.DataFrame, cards: Cards) -> Table:
    """Who wins where: one row per shift, one column per scenario, wins counted below."""

    def cell(row: pd.Series[Any]) -> TableCell:
        colour = cards.method(str(row["winner"])).colour
        return TableCell(won_by(row, cards), flag=signs[row.name], colour=colour)

    signs = dict(zip(cells.index, flags(cells), strict=True))

    layout = shifts_by_scenario(cells, cell, Column(""), list(cells["shift"].unique()), cards)
    wins = ", ".join(f"{cards.label(name)} {wins}" for name, wins in analysis.wins_of(cells, cards).items())
    counting = analysis.counted(cells)
    shared = counting.get("shared_with", pd.Series("", index=counting.index)) != ""
    apart = len(counting) < len(cells)
    notes = (
        f"wins: {wins}"
        + ("; a cell that methods share counts for each" if shared.any() else "")
        + ("; clean images count in none" if apart else ""),
    )
    return table_of(
        "winners", "Highest utility per shift and scenario", layout, cells, notes + flag_notes(cells)
    )


def offline(rows: pd.DataFrame, where: str, cards: Cards) -> Table:
    """Offline accuracy and rank of every method."""
    layout = _with_calibration(methods_by_scenario(rows.assign(label="accuracy"), cards), rows, cards)
    return table_of("offline", f"Offline accuracy (%), {where}", layout, rows, flag_notes(rows))


def offline_by_shift(rows: pd.DataFrame, mean: pd.DataFrame, cards: Cards) -> Table:
    """Offline accuracy by shift, with the pooled mean in the last row."""
    layout = with_summary(shifts_by_method(rows, cards), shifts_by_method(mean, cards), "Mean")
    return table_of("offline", "Offline accuracy (%) by shift", layout, rows)


def decomposition(rows: pd.DataFrame, where: str, cards: Cards) -> Table:
    """Utility of one scenario and the terms that explain it."""
    protocol, title = rows["protocol"].iloc[0], rows["label"].iloc[0]
    measures = {name: TERMS[name] for name in keys(rows, _terms(protocol, cards))}
    accuracies = {name: True for name in measures if name.endswith("accuracy")}
    best = {**accuracies, "utility": True}
    layout = methods_by_measure(rows, {**measures, "utility": UTILITY}, cards, best)
    layout = _with_calibration(_with_utility_cells(layout, rows, cards), rows, cards)
    caption = f"{cards.title(protocol)} utility (%) at {title} and its terms, {where}"
    return table_of(protocol, caption, layout, rows, flag_notes(rows))


def decomposition_by_shift(rows: pd.DataFrame, cards: Cards) -> Table:
    """One row per shift, and for each method the accuracies that explain its utility."""
    protocol, title = rows["protocol"].iloc[0], rows["label"].iloc[0]
    terms = [name for name in keys(rows, _terms(protocol, cards)) if name.endswith("accuracy")]
    shifts, methods = list(rows["shift"].unique()), cards.in_order(rows["method"])
    headings = [Column("Shift")]
    for method in methods:
        for name in (*terms, "utility"):
            headings.append(Column(name.replace("_", " "), "percent", 1, cards.label(method)))
    by_cell = rows.set_index(["shift", "method"])
    lines = []
    for shift in shifts:
        line = [TableCell(shift_title(shift))]
        for method in methods:
            row = by_cell.loc[(shift, method)] if (shift, method) in by_cell.index else None
            line += [TableCell() if row is None else TableCell(row[name]) for name in terms]
            line.append(
                TableCell()
                if row is None
                else TableCell(row["utility"], mark="best" if row["rank"] == 1 else "")
            )
        lines.append(tuple(line))
    layout = Layout(tuple(headings), tuple(lines), frozenset())
    return table_of(protocol, f"{cards.title(protocol)} utility (%) at {title} by shift", layout, rows)


def sweep(rows: pd.DataFrame, where: str, cards: Cards) -> Table:
    """Utility across the whole grid, from strict to relaxed."""
    return table_of(
        "sweep", f"Utility (%), {where}", methods_by_scenario(rows, cards), rows, flag_notes(rows)
    )


def seeds(rows: pd.DataFrame, where: str, cards: Cards) -> Table:
    """Utility seed by seed, with mean and standard deviation."""
    wide = rows.pivot_table(index="method", columns="seed", values="utility")
    names = {seed: f"seed {seed:g}" for seed in wide.columns}
    wide = wide.rename(columns=names)
    spread = wide[list(names.values())]
    wide = wide.assign(mean=spread.mean(axis=1), sd=spread.std(axis=1, ddof=1)).reset_index()
    measures = {name: Column(name, "percent", 2) for name in names.values()}
    measures |= {"mean": Column("mean", "percent", 2), "sd": Column("sd (pp)", "percent", 2)}
    layout = methods_by_measure(wide, measures, cards, dict.fromkeys([*names.values(), "mean"], True))
    caption = f"Utility (%) seed by seed, {rows['label'].iloc[0]}, {where}"
    return table_of("seeds", caption, layout, rows)


def ablation(rows: pd.DataFrame, cards: Cards) -> Table:
    """Utility of one budget by shift and method."""
    layout = shifts_by_method(rows, cards, digits=1)
    title = cards.title(rows["protocol"].iloc[0])
    return table_of("ablation", f"{title} utility (%) at {rows['label'].iloc[0]} by shift", layout, rows)


def _terms(protocol: str, cards: Cards) -> list[str]:
    """The terms on the card; what was allowed to adapt with what did, covariance with its two parts."""
    parts = {
        "adapted_fraction": ("stepped_fraction",),
        "covariance": ("within_covariance", "between_covariance"),  # where rows were pooled
    }
    terms = [name for name in cards.scenario(protocol).terms if name in TERMS]
    return [part for name in terms for part in (name, *parts.get(name, ()))]


def _with_utility_cells(layout: Layout, rows: pd.DataFrame, cards: Cards) -> Layout:
    """The last column with ranks and flags, as utilities are always shown."""
    utilities = methods_by_scenario(rows, cards)
    lines = tuple((*line[:-1], other[-1]) for line, other in zip(layout.rows, utilities.rows, strict=True))
    return layout._replace(rows=lines)


def _with_calibration(layout: Layout, rows: pd.DataFrame, cards: Cards) -> Layout:
    """How far confidence is from accuracy, in a last column, where it is known."""
    if "ece" not in rows or rows["ece"].isna().all():
        return layout
    own = methods_by_measure(rows, {"ece": ECE}, cards, {"ece": False})
    lines = tuple((*line, other[-1]) for line, other in zip(layout.rows, own.rows, strict=True))
    return layout._replace(columns=(*layout.columns, ECE), rows=lines)
