"""One function per table: from a frame of the analysis, or of the published tables, to cells.

Frames come with one row per method and cell, ordered; nothing is computed here beyond what a reader sees.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from tempora import analysis
from tempora.analysis.frames import keys
from tempora.cards import OVERALL, Cards
from tempora.report.tables.model import Column, Table, TableCell
from tempora.report.tables.parts import (
    Layout,
    family_rules,
    flag_notes,
    flags,
    method_cell,
    methods_by_measure,
    methods_by_scenario,
    scenario_slices,
    shift_title,
    shifts_by_method,
    shifts_by_scenario,
)
from tempora.store.schema import COLLAPSE_BATCHES

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

FACTORS: dict[str, Column] = {
    "availability": Column("availability (%)", "percent", 1),
    "responsiveness": Column("responsiveness (%)", "percent", 1),
    "cutoff": Column("cut-off (batches)", "count", 0),
}
"""The same above columns that stand alone."""

UTILITY = Column("utility", "percent", 2)
ECE = Column("ECE", "percent", 1)


def winners(cells: pd.DataFrame, cards: Cards) -> Table:
    """Who wins where: one row per shift, one column per scenario, wins counted below."""

    def cell(row: pd.Series[Any]) -> TableCell:
        shown = cards.method(str(row["winner"]))
        return TableCell(shown.label, flag=signs[row.name], colour=shown.colour)

    signs = dict(zip(cells.index, flags(cells), strict=True))

    layout = shifts_by_scenario(cells, cell, Column(""), list(cells["shift"].unique()), cards)
    wins = ", ".join(f"{cards.label(name)} {wins}" for name, wins in analysis.wins_of(cells, cards).items())
    shared = cells.get("shared_with", pd.Series("", index=cells.index)) != ""
    apart = len(analysis.counted(cells)) < len(cells)
    notes = (
        f"wins: {wins}"
        + ("; a cell that methods share counts for each" if shared.any() else "")
        + ("; clean images count in none" if apart else ""),
    )
    return _table(
        "winners", "Highest utility per shift and scenario", layout, cells, notes + flag_notes(cells)
    )


def offline(rows: pd.DataFrame, where: str, cards: Cards) -> Table:
    """Offline accuracy and rank of every method."""
    layout = _with_calibration(methods_by_scenario(rows.assign(label="accuracy"), cards), rows, cards)
    return _table("offline", f"Offline accuracy (%), {where}", layout, rows, flag_notes(rows))


def offline_by_shift(rows: pd.DataFrame, mean: pd.DataFrame, cards: Cards) -> Table:
    """Offline accuracy by shift, with the pooled mean in the last row."""
    layout = _with_summary(shifts_by_method(rows, cards), shifts_by_method(mean, cards), "Mean")
    return _table("offline", "Offline accuracy (%) by shift", layout, rows)


def decomposition(rows: pd.DataFrame, where: str, cards: Cards) -> Table:
    """Utility of one scenario and the terms that explain it."""
    protocol, title = rows["protocol"].iloc[0], rows["label"].iloc[0]
    measures = {name: TERMS[name] for name in keys(rows, _terms(protocol, cards))}
    if "stepped_fraction" in measures and rows["stepped_fraction"].isna().all():
        del measures["stepped_fraction"]  # runs of earlier versions do not say
    accuracies = {name: True for name in measures if name.endswith("accuracy")}
    best = {**accuracies, "utility": True}
    layout = methods_by_measure(rows, {**measures, "utility": UTILITY}, cards, best)
    layout = _with_calibration(_with_utility_cells(layout, rows, cards), rows, cards)
    caption = f"{cards.title(protocol)} utility (%) at {title} and its terms, {where}"
    return _table(protocol, caption, layout, rows, flag_notes(rows))


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
    return _table(protocol, f"{cards.title(protocol)} utility (%) at {title} by shift", layout, rows)


def sweep(rows: pd.DataFrame, where: str, cards: Cards) -> Table:
    """Utility across the whole grid, from strict to relaxed."""
    return _table("sweep", f"Utility (%), {where}", methods_by_scenario(rows, cards), rows, flag_notes(rows))


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
    return _table("overhead", caption, methods_by_measure(rows, shown, cards), rows)


def temporal_factors(rows: pd.DataFrame, cards: Cards) -> Table:
    """What time alone decides under the strictest pressure."""
    measures = {}
    for protocol, factor, title in (
        rows[["protocol", "factor", "label"]].drop_duplicates().itertuples(index=False)
    ):
        measures[protocol] = replace(FACTORS.get(factor) or TERMS[factor], group=f"at {title}")
    wide = rows.pivot(index="method", columns="protocol", values="factor_value").reset_index()
    layout = methods_by_measure(wide, measures, cards)
    return _table("temporal-factors", "Temporal factors under the strictest pressure", layout, rows)


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
    return _table("correlation", "Spearman correlation of offline and temporal rankings", layout, rows)


def deficit(rows: pd.DataFrame, cards: Cards) -> Table:
    """How often each method loses, and by how much."""
    columns = {
        "losses": Column("losses", "count"),
        "mean_gap": Column("gap (pp)", "percent", 2),
    }
    cells = int(rows["cells"].max())
    wide, measures = _by_group(rows, columns, cards)
    caption = f"Losses and mean gap to the winner over {cells} temporal cells"
    return _table("deficit", caption, methods_by_measure(wide, measures, cards), rows)


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
    return _table("below-standard", "Cells with less utility than standard inference", layout, rows)


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
    return _table("regret", caption, layout, rows)


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
    return _table("certainty", f"Ranks (95 % interval) and P(best), {where}", layout, rows, (note,))


def _span(lo: float, hi: float) -> str | None:
    """
    >>> _span(1, 3), _span(2, 2)
    ('1–3', '2')
    """
    if lo != lo or hi != hi:
        return None
    return f"{lo:.0f}" if lo == hi else f"{lo:.0f}–{hi:.0f}"


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
    return _table("seeds", caption, layout, rows)


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
    return _table("buffering", f"Effect of the buffer at {rows['label'].iloc[0]}", layout, rows)


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
    return _table("response", "Time from arrival to prediction", layout, rows)


def ablation(rows: pd.DataFrame, cards: Cards) -> Table:
    """Utility of one budget by shift and method."""
    layout = shifts_by_method(rows, cards, digits=1)
    title = cards.title(rows["protocol"].iloc[0])
    return _table("ablation", f"{title} utility (%) at {rows['label'].iloc[0]} by shift", layout, rows)


def hardware(rows: pd.DataFrame, machine: str, cards: Cards) -> Table:
    """The same scenarios on different machines."""
    methods = cards.in_order(rows["method"])
    headings, columns = [Column("Method")], [[method_cell(method, cards) for method in methods]]
    for (_, title), part in rows.groupby(["protocol", "label"], sort=False):
        for name in rows[machine].unique():
            own = part[part[machine] == name]
            best = dict(zip(own["method"], own["rank"] == 1, strict=True))
            values = dict(zip(own["method"], own["utility"], strict=True))
            headings.append(Column(str(name), "percent", 2, str(title)))
            columns.append(
                [TableCell(values.get(method), mark="best" if best.get(method) else "") for method in methods]
            )
    changed = rows.loc[rows["changed"], "label"].unique()
    total = rows[["protocol", "label"]].drop_duplicates().shape[0]
    note = f"the winner changes with the machine in {len(changed)} of {total} scenarios"
    layout = Layout(tuple(headings), tuple(zip(*columns, strict=True)), family_rules(methods, cards))
    return _table("hardware", "Utility (%) by machine", layout, rows, (note,))


def _terms(protocol: str, cards: Cards) -> list[str]:
    """The terms on the card; what was allowed to adapt with what did, covariance with its two parts."""
    parts = {
        "adapted_fraction": ("stepped_fraction",),
        "covariance": ("within_covariance", "between_covariance"),  # where rows were pooled
    }
    terms = [name for name in cards.scenario(protocol).terms if name in TERMS]
    return [part for name in terms for part in (name, *parts.get(name, ()))]


def segments(rows: pd.DataFrame, cards: Cards) -> Table:
    """Utility per segment of a stream, a column per method; where a method lies in a collapse, a sign says so."""
    pooled = analysis.by_segment(rows)
    layout = shifts_by_method(analysis.with_ranks(_as_shifts(pooled, rows)), cards)
    whole = rows.assign(part=rows["utility"] * rows["batches"]).groupby("method")[["part", "batches"]].sum()
    total = pd.DataFrame({"method": whole.index, "utility": (whole["part"] / whole["batches"]).to_numpy()})
    total = analysis.with_ranks(_as_shifts(total.assign(segment="Stream"), rows))
    columns = (Column("Segment"), *layout.columns[1:])
    fallen = set(zip(*_columns(pooled[pooled["collapsed_batches"] > 0], "segment", "method"), strict=True))
    layout = layout._replace(columns=columns, rules=frozenset(), rows=_flagged(layout, pooled, fallen, cards))
    layout = _with_summary(layout, shifts_by_method(total, cards), "Stream")
    notes = (f"{COLLAPSED} {_COLLAPSE}",) if fallen else ()
    return _table("segments", _about_stream("Utility (%) per segment of", rows), layout, pooled, notes)


COLLAPSED = "↓"
_COLLAPSE = (
    f"within {COLLAPSE_BATCHES} batches or more on end that are worth less than with standard inference"
)


def _columns(rows: pd.DataFrame, *names: str) -> list[list[str]]:
    return [list(rows[name]) for name in names]


def _flagged(
    layout: Layout, pooled: pd.DataFrame, fallen: set[tuple[str, str]], cards: Cards
) -> tuple[tuple[TableCell, ...], ...]:
    """The cells, with a sign where the method lies in a collapse in that segment, in any seed."""
    methods, places = cards.in_order(pooled["method"]), list(pooled["segment"].unique())
    return tuple(
        (
            line[0],
            *(
                replace(cell, flag=cell.flag + COLLAPSED * ((place, method) in fallen))
                for method, cell in zip(methods, line[1:], strict=True)
            ),
        )
        for place, line in zip(places, layout.rows, strict=True)
    )


def stream(found: pd.DataFrame, rows: pd.DataFrame, cards: Cards) -> Table:
    """What becomes of each method over a stream: gain, collapse, recovery, and what a shift that returns meets."""
    measures = {
        "utility": Column("Utility", "percent", 2),
        "gain": Column("Over Standard", "points", 1),
        "segments_below": Column("Segments below it", "count"),
        "seeds_collapsed": Column("Seeds", "count", group="Collapsed"),
        "collapsed_batches": Column("Batches", "count", group="Collapsed"),
        "seeds_recovered": Column("Recovered", "count", group="Collapsed"),
        "change": Column("Last visit − first", "points", 1),
    }
    if found["change"].isna().all():
        del measures["change"]
    layout = methods_by_measure(found, measures, cards, {"utility": True})
    notes = (
        f"of {found['segments'].max()} segments and {found['seeds'].max()} seeds; collapsed: {_COLLAPSE}; "
        "recovered: it left them behind before the last segment",
    )
    return _table("stream", _about_stream("What becomes of each method on", rows), layout, found, notes)


def _about_stream(what: str, rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    return f"{what} the {first['shift']} stream, {first['label']}"


def _as_shifts(pooled: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Segments as shifts of one scenario, as they are ranked and drawn."""
    first = rows.iloc[0]
    return pooled.assign(
        shift=pooled["segment"],
        protocol=first["protocol"],
        label=first["label"],
        value=first["value"],
        scenario=0,
    )


def _table(name: str, caption: str, layout: Layout, data: pd.DataFrame, notes: tuple[str, ...] = ()) -> Table:
    return Table(name, caption, layout.columns, layout.rows, data, layout.rules, notes)


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


def _with_summary(layout: Layout, summary: Layout, title: str) -> Layout:
    line = (TableCell(title), *summary.rows[0][1:])
    return Layout(layout.columns, (*layout.rows, line), layout.rules | {len(layout.rows)})


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
