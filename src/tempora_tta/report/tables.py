"""Every table by name, of a run or of published numbers: its rows, its columns, its caption."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from tempora_tta import analysis, published
from tempora_tta.analysis.cells import ALL, at_strictest, by_shift, cells, keys, one_scenario, over_all
from tempora_tta.analysis.doubt.run import COLUMNS as CERTAINTY
from tempora_tta.analysis.of_run import KEY
from tempora_tta.cards import CATALOGUE, OURS, OVERALL, Cards
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.published.methods import STANDARD
from tempora_tta.report.formats import FORMATS, render, renderable, to_terminal
from tempora_tta.report.table import (
    Column,
    Columns,
    Table,
    TableCell,
    by_measure,
    by_scenario,
    flag_notes,
    flags,
    measured,
    method_cell,
    of_methods,
    of_shifts,
    shifts_by_method,
    shifts_by_scenario,
    slices,
    utility_cells,
    won_by,
)
from tempora_tta.store.cells import is_oracle
from tempora_tta.store.schema import COLLAPSE_BATCHES
from tempora_tta.words import shift_title

__all__ = [
    "FORMATS",
    "NAMES",
    "Column",
    "Table",
    "TableCell",
    "all_tables",
    "build",
    "build_published",
    "names",
    "render",
    "renderable",
    "to_terminal",
]

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
"""Heading and digits of each term. The scenario's card says which explain a utility."""
PARTS = {
    "adapted_fraction": ("stepped_fraction",),
    "covariance": ("within_covariance", "between_covariance"),
}
"""Terms with parts, shown where rows were pooled."""
FACTORS: dict[str, Column] = {
    "availability": Column("availability (%)", "percent", 1),
    "responsiveness": Column("responsiveness (%)", "percent", 1),
    "cutoff": Column("cut-off (batches)", "count", 0),
}
"""The same above columns that stand alone."""
UTILITY, ECE = Column("utility", "percent", 2), Column("ECE", "percent", 1)
COLLAPSED = "↓"
_COLLAPSE = (
    f"within {COLLAPSE_BATCHES} batches or more on end that are worth less than with standard inference"
)


@dataclass(frozen=True)
class Source:
    """The numbers that tables are made of, and the choices of their reader."""

    cells: pd.DataFrame
    utilities: pd.DataFrame
    cards: Cards
    traces: pd.DataFrame | None = None
    segments: pd.DataFrame | None = None
    scenario: str | None = None
    by_shift: bool = False
    against: str | None = None
    """Competitor of `solvency`; None: the best of each cell."""

    @property
    def rows(self) -> pd.DataFrame:
        """Cells shift by shift."""
        return by_shift(self.cells)

    @property
    def pooled(self) -> pd.DataFrame:
        """Cells over all shifts that count; of a single one, its own."""
        rows = analysis.counted(self.rows)
        return rows if rows["shift"].nunique() == 1 else self.cells[self.cells["shift"] == ALL]

    @property
    def where(self) -> str:
        """Shifts that the numbers are about, for captions."""
        shifts = analysis.shift_set(self.rows["shift"])
        if len(shifts) > 1:
            apart = ", clean apart" if len(shifts) < self.rows["shift"].nunique() else ""
            return f"aggregated over {len(shifts)} shifts{apart}"
        return "aggregated over all shifts" if shifts[0] == ALL else f"on {shift_title(shifts[0])}"

    def under_pressure(self, least: int = 1) -> pd.DataFrame:
        """Return the cells, if some are under pressure and enough methods are compared."""
        if self.cells["reference"].all():
            raise TemporaError("this run has offline cells only; choose table offline, or run it with a grid")
        if self.cells["method"].nunique() < least:
            raise TemporaError("this table compares methods under pressure: it needs two methods and a grid")
        return self.cells

    def chosen(self, rows: pd.DataFrame, what: str) -> pd.DataFrame:
        """Return the rows of the scenario that the reader named, or with most pressure; all, where nothing varies."""
        if self.scenario is not None and self.scenario not in set(rows["label"]):
            raise unknown(what, self.scenario, rows["label"].unique())
        if self.scenario is not None:
            return rows.loc[rows["label"] == self.scenario]
        return rows if rows["value"].isna().all() else rows.loc[at_strictest(rows, self.cards)]

    def of_one_stream(self) -> pd.DataFrame:
        """Return the segments of one stream, in the scenario that the reader named, otherwise offline."""
        if self.segments is None or self.segments.empty:
            raise TemporaError(
                "this run has no stream of many shifts (--stream continual); choose another table"
            )
        found = self.segments[self.segments["shift"].isin(self.rows["shift"])]
        if self.scenario is None:
            found = found[analysis.is_offline(found, self.cards)]
        elif self.scenario in set(found["label"]):
            found = found[found["label"] == self.scenario]
        else:
            raise unknown("scenario", self.scenario, found["label"].unique())
        one: pd.DataFrame = found[found["shift"] == found["shift"].iloc[0]]
        return one


# -- utility -------------------------------------------------------------------------------------------------


def _winners(given: Source) -> Table:
    return _won(analysis.winners(given.rows, given.cards), given.cards)


def _won(cells: pd.DataFrame, cards: Cards) -> Table:
    signs = dict(zip(cells.index, flags(cells), strict=True))

    def cell(row: pd.Series[Any]) -> TableCell:
        return TableCell(
            won_by(row, cards), flag=signs[row.name], colour=cards.method(str(row["winner"])).colour
        )

    wins = ", ".join(f"{cards.label(name)} {wins}" for name, wins in analysis.wins_of(cells, cards).items())
    counting = analysis.counted(cells)
    several = counting.get("shared_with", pd.Series(dtype=str)) != ""
    shared = "; a cell that methods share counts for each" if several.any() else ""
    apart = "; clean images count in none" if len(counting) < len(cells) else ""
    table = shifts_by_scenario(cells, cell, cards, unit="text", digits=1)
    notes = (f"wins: {wins}{shared}{apart}", *flag_notes(cells))
    return table.called("winners", "Highest utility per shift and scenario", notes)


def _protocol(protocol: str) -> Callable[[Source], Table]:
    """Make the table of one protocol: accuracy where nothing presses, else utility and the terms that explain it."""

    def table(given: Source) -> Table:
        if protocol not in set(given.cells["protocol"]):
            found = ", ".join(given.cells["protocol"].unique())
            raise TemporaError(f"no {protocol} cells in this run (it has {found}); choose another table")
        rows = given.rows if given.by_shift else given.pooled
        rows = rows[rows["protocol"] == protocol]
        if given.cards.scenario(protocol).reference:
            return _offline_by_shift(rows, given) if given.by_shift else _offline(rows, given)
        rows = one_scenario(given.chosen(rows, f"{protocol} scenario"))
        title = f"{given.cards.title(protocol)} utility (%) at {rows['label'].iloc[0]}"
        if given.by_shift:
            return _terms_by_shift(rows, given.cards).called(protocol, f"{title} by shift")
        columns = [
            *measured(rows, _terms(rows, protocol, given.cards), _accuracies(rows, protocol, given.cards)),
            (UTILITY, utility_cells(rows)),
            *_calibration(rows),
            *_responses(rows, protocol, given.cards),
        ]
        laid_out = of_methods(given.cards.in_order(rows["method"]), columns, rows, given.cards)
        return laid_out.called(protocol, f"{title} and its terms, {given.where}", flag_notes(rows))

    return table


def _offline(rows: pd.DataFrame, given: Source) -> Table:
    columns = [
        (replace(column, title="accuracy"), utility_cells(part)) for column, part in slices(rows, given.cards)
    ]
    table = of_methods(
        given.cards.in_order(rows["method"]), [*columns, *_calibration(rows)], rows, given.cards
    )
    return table.called("offline", f"Offline accuracy (%), {given.where}", flag_notes(rows))


def _offline_by_shift(rows: pd.DataFrame, given: Source) -> Table:
    mean = shifts_by_method(given.pooled[given.pooled["reference"]], given.cards)
    table = shifts_by_method(rows, given.cards).with_last((TableCell("Mean"), *mean.rows[0][1:]))
    return table.called("offline", "Offline accuracy (%) by shift")


def _terms(rows: pd.DataFrame, protocol: str, cards: Cards) -> dict[str, Column]:
    """Return the terms on the card, each with its parts."""
    named = [name for name in cards.scenario(protocol).terms if name in TERMS]
    if rows.get("between_covariance", pd.Series(0.0)).abs().max() > 0:
        found = [part for name in named for part in (name, *PARTS.get(name, ()))]
    else:  # of a single stream covariance has no parts
        found = [part for name in named for part in (name, *PARTS.get(name, ())[:1]) if "within" not in part]
    return {name: TERMS[name] for name in keys(rows, found)}


def _accuracies(rows: pd.DataFrame, protocol: str, cards: Cards) -> dict[str, bool]:
    return {name: True for name in _terms(rows, protocol, cards) if name.endswith("accuracy")}


def _responses(rows: pd.DataFrame, protocol: str, cards: Cards) -> Columns:
    """Return what the user waits, and the idling that dropped arrivals force, where batches may be lost."""
    if "response_ms" not in rows or "availability" not in cards.scenario(protocol).terms:
        return []
    return [
        (Column("response (ms)"), _waits(rows, "")),
        *measured(
            rows, {"waitspan_ms": Column("waitspan (s)", "s", 1)} if (rows["waitspan_ms"] > 0).any() else {}
        ),
    ]


def _waits(rows: pd.DataFrame, suffix: str) -> dict[str, TableCell]:
    """Mean and standard deviation of the response."""
    means, deviations = rows[f"response_ms{suffix}"], rows[f"response_sd_ms{suffix}"]
    found = zip(rows["method"], means, deviations, strict=True)
    return {
        method: TableCell(None if mean != mean else f"{mean:.1f} ± {sd:.1f}") for method, mean, sd in found
    }


def _calibration(rows: pd.DataFrame) -> Columns:
    """Return how far confidence is from accuracy, where it is known."""
    known = "ece" in rows and not rows["ece"].isna().all()
    return measured(rows, {"ece": ECE}, {"ece": False}) if known else []


def _terms_by_shift(rows: pd.DataFrame, cards: Cards) -> Table:
    """Lay out one row per shift, and for each method the accuracies that explain its utility."""
    terms = [
        name for name in _accuracies(rows, str(rows["protocol"].iloc[0]), cards) if rows[name].notna().any()
    ]
    columns = []
    for method in cards.in_order(rows["method"]):
        own = rows[rows["method"] == method]
        for name in (*terms, "utility"):
            best = own["rank"] == 1 if name == "utility" else own["rank"] < 0
            marked = zip(own["shift"], own[name], best, strict=True)
            cells = {shift: TableCell(value, mark="best" if first else "") for shift, value, first in marked}
            columns.append((Column(name.replace("_", " "), "percent", 1, cards.label(method)), cells))
    return replace(of_shifts(list(rows["shift"].unique()), columns, rows), rules=frozenset())


def _sweep(given: Source) -> Table:
    given.under_pressure()
    rows = given.pooled[~given.pooled["reference"]]
    return by_scenario(rows, given.cards).called("sweep", f"Utility (%), {given.where}", flag_notes(rows))


def _seeds(given: Source) -> Table:
    """Utility seed by seed of the chosen scenario, otherwise of the reference or the first."""
    rows = analysis.counted(analysis.ordered(analysis.scored(given.utilities), given.cards))
    if "seed" not in rows or rows["seed"].nunique() < 2:
        raise TemporaError("this run has one seed (--seeds 1,2,3 makes more); choose another table")
    offline = rows.loc[analysis.is_offline(rows, given.cards), "label"]
    label = given.scenario or next(iter(offline), rows["label"].iloc[0])
    if label not in set(rows["label"]):
        raise unknown("scenario", label, rows["label"].unique())
    rows = one_scenario(rows[rows["label"] == label])
    several = rows["shift"].nunique() > 1
    rows = analysis.pool(rows, cards=given.cards) if several else analysis.with_ranks(rows)
    wide = rows.pivot_table(index="method", columns="seed", values="utility")
    wide = wide.rename(columns={seed: f"seed {seed:g}" for seed in wide.columns})
    names = list(wide.columns)
    summary = {"mean": wide[names].mean(axis=1), "sd": wide[names].std(axis=1, ddof=1)}
    measures = {name: Column(name, "percent", 2) for name in (*names, "mean")}
    measures["sd"] = Column("sd (pp)", "percent", 2)
    if STANDARD in wide.index:  # half of what not adapting gets
        summary["collapsed"] = (wide[names] < wide.loc[STANDARD, names] / 2).sum(axis=1)
        measures["collapsed"] = Column("collapsed", "count")
    wide = wide.assign(**summary).reset_index()
    table = by_measure(wide, measures, given.cards, dict.fromkeys([*names, "mean"], True))
    notes = ("collapsed: seeds with less than half of Standard's",) if "collapsed" in summary else ()
    return replace(table, data=rows).called(
        "seeds", f"Utility (%) seed by seed, {label}, {given.where}", notes
    )


# -- comparisons ---------------------------------------------------------------------------------------------


def _correlation(given: Source) -> Table:
    rows = analysis.correlations(given.under_pressure(2), given.cards)
    return _correlated(rows, analysis.correlation_summary(rows, given.cards), given.cards)


def _correlated(rows: pd.DataFrame, summary: pd.DataFrame, cards: Cards) -> Table:
    table = shifts_by_scenario(rows, lambda row: TableCell(row["spearman_r"]), cards, unit="number")
    if rows["shift"].nunique() > 1:
        parts = [part.iloc[0] for _, part in slices(summary, cards)]
        lines = [
            (TableCell(title), *(TableCell(part[name]) for part in parts))
            for title, name in (("Mean", "mean"), ("Std", "std"))
        ]
        table = table.with_last(*lines)
    return table.called("correlation", "Spearman correlation of offline and temporal rankings")


def _factors(rows: pd.DataFrame, cards: Cards) -> Table:
    measures = {}
    for protocol, factor, title in (
        rows[["protocol", "factor", "label"]].drop_duplicates().itertuples(index=False)
    ):
        measures[protocol] = replace(FACTORS.get(factor) or TERMS[factor], group=f"at {title}")
    wide = rows.pivot(index="method", columns="protocol", values="factor_value").reset_index()
    table = replace(by_measure(wide, measures, cards), data=rows)
    rules = sorted({rule for rule in rows.get("rule", ()) if rule})
    notes = [f"cut-off by rule {' and '.join(rules)}"] if rules else []
    return table.called("temporal-factors", "Temporal factors under the strictest pressure", notes)


def _deficit(rows: pd.DataFrame, cards: Cards) -> Table:
    wide = rows.pivot(index="method", columns="group", values=["losses", "mean_gap"])
    measures = {}
    for group in cards.in_protocol_order(rows["group"]):
        measures[f"losses {group}"] = Column("losses", "count", 1, cards.title(group))
        measures[f"mean_gap {group}"] = Column("gap (pp)", "percent", 2, cards.title(group))
    wide.columns = [" ".join(names) for names in wide.columns]
    table = replace(by_measure(wide.reset_index(), measures, cards), data=rows)
    return table.called(
        "deficit", f"Losses and mean gap to the winner over {int(rows['cells'].max())} temporal cells"
    )


def _below_standard(rows: pd.DataFrame, cards: Cards) -> Table:
    overall = rows[rows["group"] == OVERALL].set_index("method")
    shares = rows[rows["group"] != OVERALL].pivot(index="method", columns="group", values="share")
    measures = {"count": Column(f"of {int(overall['cells'].max())}", "count")}
    for group in cards.in_protocol_order(shares.columns):
        measures[group] = Column(f"{cards.title(group).lower()} (%)", "percent", 0, "of which")
    wide = shares.assign(count=overall["count"]).reset_index()
    table = replace(by_measure(wide, measures, cards), data=rows)
    return table.called("below-standard", "Cells with less utility than standard inference")


def _solvency(given: Source) -> Table:
    """Show the accuracy that each method would need, also above 100 %: more than that is insolvent."""
    cells = given.rows if given.by_shift else given.pooled
    rows = analysis.break_even(cells, given.against, given.cards)
    rows = rows[rows.groupby("protocol")["factor"].transform("min") < 1]  # elsewhere all answers count whole
    if rows.empty:
        raise TemporaError("nothing is lost or late in this run, so every method can pay for its time")
    if given.scenario is not None or given.by_shift:
        rows = one_scenario(given.chosen(rows, "scenario under pressure of time"))
    else:
        rows = rows[at_strictest(rows, given.cards)]
    named = given.against and given.cards.label(given.against)
    about = f"Accuracy needed to match {named or 'the best'}"
    note = ("above 100 %: insolvent, even predicting everything right would not match it",)
    if given.by_shift:
        needed = rows.assign(utility=rows["break_even_accuracy"], rank=0, incomplete=False)
        table = shifts_by_method(needed, given.cards)
        bare = tuple((line[0], *(TableCell(cell.value) for cell in line[1:])) for line in table.rows)
        label = rows["label"].iloc[0]
        return replace(table, rows=bare).called("solvency", f"{about} (%) at {label} by shift", note)
    columns: list[tuple[Column, Mapping[str, TableCell]]] = []
    for column, part in slices(rows, given.cards):
        part = part.assign(word=part["insolvent"].map({True: "yes", False: "no"}))
        measures = {
            "factor": Column("kept", "percent", 1, column.title),
            "served_accuracy": Column("accuracy", "percent", 1, column.title),
            "break_even_accuracy": Column("needed", "percent", 1, column.title),
            "word": Column("insolvent", group=column.title),
        }
        columns += measured(part, measures)
    table = of_methods(given.cards.in_order(rows["method"]), columns, rows, given.cards)
    return table.called("solvency", f"{about} (%), {given.where}", note)


def _regret(rows: pd.DataFrame, cards: Cards) -> Table:
    shares = [str(name) for name in rows.columns if str(name).startswith("within_")]
    measures = {
        "mean_regret": Column("mean (pp)", "percent", 2, "regret"),
        "worst_regret": Column("worst (pp)", "percent", 2, "regret"),
    }
    for name in shares:
        measures[name] = Column(f"{name.removeprefix('within_')} pp", "percent", 0, "cells (%) within")
    best = {"mean_regret": False, "worst_regret": False, **dict.fromkeys(shares, True)}
    table = by_measure(rows, measures, cards, best)
    return table.called(
        "regret", f"Distance to the best over {int(rows['cells'].max())} cells under pressure"
    )


def _certainty(given: Source) -> Table:
    if "p_best" not in given.cells:
        raise TemporaError("table 'certainty' asks how sure a run is; published tables cannot say")
    rows, cards = given.pooled, given.cards
    if rows["p_best"].isna().all():
        raise TemporaError("these streams are too short to say how sure a rank is; run more batches")
    columns: list[tuple[Column, Mapping[str, TableCell]]] = []
    for column, part in slices(rows, cards):
        spans = zip(part["method"], part["rank_lo"], part["rank_hi"], strict=True)
        cells = {method: TableCell(_span(low, high)) for method, low, high in spans}
        columns.append((Column(column.title, "text", 0, f"{column.group}: rank"), cells))
    for column, part in slices(rows, cards):
        heading = replace(column, digits=0, group=f"{column.group}: P(best) (%)")
        columns += measured(part, {"p_best": heading})
    table = of_methods(cards.in_order(rows["method"]), columns, rows, cards)
    note = "over other batches and times like these; equal methods are all best"
    return table.called("certainty", f"Ranks (95 % interval) and P(best), {given.where}", (note,))


def _span(low: float, high: float) -> str | None:
    """
    >>> _span(1, 3), _span(2, 2)
    ('1–3', '2')
    """
    if low != low or high != high:
        return None
    return f"{low:.0f}" if low == high else f"{low:.0f}–{high:.0f}"


def _settings(given: Source) -> Table:
    """Show what settings chosen by labels would give, next to the best that is ranked."""
    oracles = given.utilities[is_oracle(given.utilities)].drop(columns="oracle", errors="ignore")
    if oracles.empty:
        raise TemporaError("no settings of this run were chosen by labels; choose another table")
    above, cards = over_all(cells(oracles, given.cards)), given.cards
    ranked = given.pooled[given.pooled["rank"] == 1].drop_duplicates("label")
    rows = pd.concat([ranked, above])
    lines = [
        (
            TableCell(label),
            *(TableCell(value) for value in part.set_index("method")["utility"].reindex(methods)),
            *_best_ranked(ranked[ranked["label"] == label], cards),
        )
        for methods in [cards.in_order(above["method"])]
        for label, part in above.groupby("label", sort=False)
    ]
    ceilings = [
        Column(cards.label(name), "percent", 1, "oracle (%)") for name in cards.in_order(above["method"])
    ]
    columns = (Column("Scenario"), *ceilings, Column("best ranked (%)", "percent", 1), Column("with"))
    note = "oracle: settings chosen by labels, which no deployment has; neither ranked nor recommended"
    return Table("", "", columns, tuple(lines), rows).called(
        "settings", "Ceilings of tuned settings", (note,)
    )


def _best_ranked(rows: pd.DataFrame, cards: Cards) -> tuple[TableCell, TableCell]:
    if rows.empty:
        return TableCell(), TableCell()
    return TableCell(rows["utility"].iloc[0]), method_cell(str(rows["method"].iloc[0]), cards)


# -- time ----------------------------------------------------------------------------------------------------


def _overhead(given: Source) -> Table:
    if given.traces is None:
        raise TemporaError("table 'overhead' is read from the traces of a run; give them too")
    rows = analysis.scored(given.utilities)
    rows = rows[rows["shift"].isin(given.rows["shift"])]
    batches = given.traces
    if "shift" in batches:
        batches = batches[batches["shift"].isin(rows["shift"])]
    found = analysis.overhead(batches, float(rows["baseline_ms"].iloc[0]), given.cards)
    return _latency(analysis.with_resources(found, rows, given.cards), given.cards)


def _latency(rows: pd.DataFrame, cards: Cards) -> Table:
    measures = {
        "service_ms": Column("service (ms)", "ms", 1),
        "service_sd_ms": Column("± sd", "ms", 1),
        "predict_ms": Column("predict (ms)", "ms", 1),
        "predict_sd_ms": Column("± sd", "ms", 1),
        "intrinsic_ms": Column("intrinsic (ms)", "ms", 1),
        "adapt_ms": Column("adapt (ms)", "ms", 1),
        "adapt_sd_ms": Column("± sd", "ms", 1),
        "slowdown": Column("slowdown", "times", 2),
        "adapt_over_baseline": Column("adapt / λ", "number", 2),
        "energy_j": Column("energy (J)", "number", 3),
        "memory_mb": Column("memory (MB)", "number", 0),
    }
    told = {name for name in measures if name in rows and rows[name].notna().any()}
    told -= {name for name in told if "_sd_" in name and (rows[name] == 0).all()}  # times that were looked up
    shown = {name: column for name, column in measures.items() if name in told}
    caption = f"Mean latency per batch, baseline λ = {rows['baseline_ms'].iloc[0]:g} ms"
    return by_measure(rows, shown, cards).called("overhead", caption)


def _buffering(given: Source) -> Table:
    """Queue 0 next to a longer queue: availability, utility, ranks, responses."""
    rows = analysis.buffering(given.cells, given.cards).assign(shift=given.pooled["shift"].iloc[0])
    rows = given.chosen(rows, "interval").drop_duplicates("method")
    ranks = [f"{a}→{b}" for a, b in zip(rows["rank_unbuffered"], rows["rank_buffered"], strict=True)]
    rows = rows.assign(ranks=ranks)
    measures = {}
    for name in ("availability", "utility"):
        for variant in ("unbuffered", "buffered"):
            measures[f"{name}_{variant}"] = Column(variant, "percent", 1, f"{name} (%)")
        measures[f"{name}_delta"] = Column("change (pp)", "points", 1, f"{name} (%)")
    measures["ranks"] = Column("rank")
    columns = [*measured(rows, measures, {"utility_unbuffered": True, "utility_buffered": True})]
    if "response_ms_buffered" in rows:
        for variant in ("unbuffered", "buffered"):
            columns.append((Column(variant, group="response (ms)"), _waits(rows, f"_{variant}")))
        columns += measured(rows, {"waitspan_ms_unbuffered": Column("unbuffered", "s", 1, "waitspan (s)")})
    table = of_methods(given.cards.in_order(rows["method"]), columns, rows, given.cards)
    return table.called("buffering", f"Effect of the buffer at {rows['label'].iloc[0]}")


# -- streams of many shifts ----------------------------------------------------------------------------------


def _segments(given: Source) -> Table:
    """Utility per segment of a stream, a column per method; a sign where a method lies in a collapse."""
    rows, cards = given.of_one_stream(), given.cards
    pooled = analysis.by_segment(rows)
    whole = rows.assign(part=rows["utility"] * rows["batches"]).groupby("method")[["part", "batches"]].sum()
    total = (whole["part"] / whole["batches"]).rename("utility").reset_index().assign(segment="Stream")
    table, below = (shifts_by_method(_ranked(one), cards, "segment") for one in (pooled, total))
    fallen = pooled[pooled["collapsed_batches"] > 0]
    places, methods = list(pooled["segment"].unique()), cards.in_order(pooled["method"])
    lines = [list(line) for line in table.rows]
    for segment, method in zip(fallen["segment"], fallen["method"], strict=True):
        line, place = lines[places.index(segment)], 1 + methods.index(method)
        line[place] = replace(line[place], flag=line[place].flag + COLLAPSED)
    columns = (Column("Segment"), *table.columns[1:])
    table = replace(table, columns=columns, rows=tuple(map(tuple, lines)), rules=frozenset(), data=pooled)
    table = table.with_last((TableCell("Stream"), *below.rows[0][1:]))
    notes = (f"{COLLAPSED} {_COLLAPSE}",) if len(fallen) else ()
    return table.called("segments", f"Utility (%) per segment of {_which(rows)}", notes)


def _ranked(rows: pd.DataFrame) -> pd.DataFrame:
    ranks = rows["utility"].round(12).groupby(rows["segment"]).rank(method="min", ascending=False)
    return rows.assign(rank=ranks.astype(int), incomplete=False)


def _stream(given: Source) -> Table:
    """Show what becomes of each method over a stream: gain, collapse, recovery, and change between visits."""
    rows = given.of_one_stream()
    found = analysis.over_the_stream(rows)
    measures = {
        "utility": Column("Utility", "percent", 2),
        "gain": Column("Over Standard", "points", 1),
        "segments_below": Column("Segments below it", "count"),
        "seeds_collapsed": Column("Seeds", "count", group="Collapsed"),
        "collapsed_batches": Column("Batches", "count", group="Collapsed"),
        "seeds_recovered": Column("Recovered", "count", group="Collapsed"),
    }
    if found["change"].notna().any():
        measures["change"] = Column("Last visit − first", "points", 1)
    note = (
        f"of {found['segments'].max()} segments and {found['seeds'].max()} seeds; collapsed: {_COLLAPSE}; "
        "recovered: it left them behind before the last segment"
    )
    table = by_measure(found, measures, given.cards, {"utility": True})
    return table.called("stream", f"What becomes of each method on {_which(rows)}", (note,))


def _which(rows: pd.DataFrame) -> str:
    return f"the {rows['shift'].iloc[0]} stream, {rows['label'].iloc[0]}"


# -- by name -------------------------------------------------------------------------------------------------

Frames = tuple[Callable[..., pd.DataFrame], Callable[[pd.DataFrame, Cards], Table]]
"""A function from `cells` to rows, and the one that lays them out; published rows go straight to the second."""
COMPARED: dict[str, Frames] = {
    "temporal-factors": (analysis.temporal_factors, _factors),
    "deficit": (analysis.deficit, _deficit),
    "below-standard": (analysis.below_standard, _below_standard),
    "regret": (analysis.regret, _regret),
}


def _compared(name: str) -> Callable[[Source], Table]:
    rows_of, lay_out = COMPARED[name]
    least = 1 if name == "temporal-factors" else 2
    return lambda given: lay_out(rows_of(given.under_pressure(least), given.cards), given.cards)


BY_SHIFT = tuple(name for name, card in OURS.items() if card.parameter or card.reference)
"""The protocols of the paper; those of a run that are none of them have a table too."""

TABLES: dict[str, Callable[[Source], Table]] = {
    "winners": _winners,
    **{protocol: _protocol(protocol) for protocol in BY_SHIFT},
    "sweep": _sweep,
    "overhead": _overhead,
    "temporal-factors": _compared("temporal-factors"),
    "correlation": _correlation,
    "deficit": _compared("deficit"),
    "below-standard": _compared("below-standard"),
    "solvency": _solvency,
    "buffering": _buffering,
    "segments": _segments,
    "stream": _stream,
    "regret": _compared("regret"),
    "certainty": _certainty,
    "seeds": _seeds,
    "settings": _settings,
}
NAMES = tuple(TABLES)


def names(utilities: pd.DataFrame) -> list[str]:
    """Return the tables that a run could have: every one of ours, and those of the protocols of the user's own."""
    own = [protocol for protocol in utilities["protocol"].unique() if protocol not in TABLES]
    after = NAMES.index(BY_SHIFT[-1]) + 1
    return [*NAMES[:after], *own, *NAMES[after:]]


def build(
    name: str,
    utilities: pd.DataFrame,
    traces: pd.DataFrame | None = None,
    *,
    shift: str | None = None,
    scenario: str | None = None,
    by_shift: bool = False,
    against: str | None = None,
    family: str | None = None,
    cards: Cards = CATALOGUE,
    certainty: pd.DataFrame | None = None,
    segments: pd.DataFrame | None = None,
) -> Table:
    """Return a table of a run by name; that of a protocol explains its utility.

    Args:
        utilities: of a run (`results.utilities`), or published (`published.as_utilities(setup)`).
        traces: of the offline passes, for `overhead`.
        shift: the only one; otherwise numbers are pooled over shifts.
        scenario: label of the point that a protocol's table explains, otherwise its strictest.
        by_shift: a row for each shift, of the protocols' tables and of `solvency`.
        against: the method that `solvency` compares with, otherwise the best of each cell.
        family: the only one, `gradient-free` or `gradient-based`; methods are ranked within it.
        cards: of the run.
        certainty: `cells` of the run, with how sure each is.
        segments: of the run, for `segments` and `stream`.
    """
    if name not in names(utilities):
        raise unknown("table", name, names(utilities))
    if by_shift and name in TABLES and name not in (*BY_SHIFT, "solvency"):
        raise TemporaError(
            f"table {name!r} has no rows by shift: use --shift NAME, or one of {', '.join(BY_SHIFT)}, solvency"
        )
    if against is not None and name != "solvency":
        raise TemporaError(f"--against {against}: only table solvency compares with a method")
    if family is not None:
        families = utilities["method"].map(cards.family)
        if family not in set(families):
            raise unknown("family of methods", family, families.unique())
        utilities = utilities[families == family]
    given = _source(utilities, traces, shift, cards, certainty, segments)
    return _built(name, replace(given, scenario=scenario, by_shift=by_shift, against=against))


def all_tables(
    utilities: pd.DataFrame,
    traces: pd.DataFrame,
    cards: Cards,
    certainty: pd.DataFrame,
    segments: pd.DataFrame,
) -> list[Table]:
    """Return every table that a run has data for but its winners; rows by shift come after their summaries."""
    if analysis.scored(utilities).empty:
        return []
    given = _source(utilities, traces, None, cards, certainty, segments)
    several, found = utilities["shift"].nunique() > 1, []
    for name in dict.fromkeys(["sweep", *names(utilities)[1:]]):
        for rows in (False, True) if several and (name in BY_SHIFT or name not in TABLES) else (False,):
            try:
                found.append(_built(name, replace(given, by_shift=rows)))
            except TemporaError:  # the run lacks what this table is about: a second queue, a second seed
                continue
    return found


def _source(
    utilities: pd.DataFrame,
    traces: pd.DataFrame | None,
    shift: str | None,
    cards: Cards,
    certainty: pd.DataFrame | None,
    segments: pd.DataFrame | None,
) -> Source:
    rows = analysis.scored(utilities)
    if rows.empty:
        raise TemporaError(
            "no cell of this run has a result yet: finish it, or look at the reasons in `status`"
        )
    if shift is not None:
        if shift not in set(rows["shift"]):
            raise unknown("shift", shift, rows["shift"].unique())
        utilities = utilities[utilities["shift"] == shift]
    found = cells(utilities, cards)
    if certainty is not None:
        found = _with_certainty(found, certainty, shift)
    return Source(found, utilities, cards, traces, segments)


def _with_certainty(rows: pd.DataFrame, certainty: pd.DataFrame, shift: str | None) -> pd.DataFrame:
    """Add how sure rows are; of one shift, what is taken together is that shift."""
    known = certainty[[*KEY, *CERTAINTY]]
    if shift is not None:
        known = known[known["shift"] == shift]
        known = pd.concat([known, known.assign(shift=ALL)])
    return rows.merge(known, on=KEY, how="left")


def _built(name: str, given: Source) -> Table:
    """Return a table with notes on seeds and failed methods; those without any number have a row of dashes."""
    table = (TABLES.get(name) or _protocol(name))(given)
    failed = analysis.failures(given.utilities)
    if failed and "method" in table.data:
        if table.columns[0].title == "Method":
            gone = list(
                dict.fromkeys(one.method for one in failed if one.method not in set(table.data["method"]))
            )
            blank = (TableCell(),) * (len(table.columns) - 1)
            rows = (*table.rows, *((method_cell(method, given.cards), *blank) for method in gone))
            table = replace(table, rows=rows)
        table = replace(table, notes=(*table.notes, *(one.sentence(given.cards) for one in failed)))
    seeds = given.utilities["seed"].nunique() if "seed" in given.utilities else 1
    if seeds > 1 and name != "seeds":
        table = replace(table, notes=(*table.notes, f"mean over {seeds} seeds"))
    return table


def build_published(name: str, setup: str) -> Table:
    """Return the same table from the paper's printed numbers, where it prints them."""
    if name not in TABLES:
        raise unknown("table", name, NAMES)
    printed: Mapping[str, Callable[[pd.DataFrame, Cards], Table]] = {
        "winners": lambda rows, cards: _won(analysis.ordered(rows), cards),
        "overhead": _latency,
        "correlation": _printed_correlation,
        **{table: lay_out for table, (_, lay_out) in COMPARED.items() if table != "regret"},
    }
    if name in printed:
        rows = published.table(name.replace("-", "_"), setup)
        if rows.empty:
            raise TemporaError(f"the paper prints no table {name!r} of {setup!r}")
        return printed[name](rows, CATALOGUE)
    return build(name, published.as_utilities(setup, "buffering" if name == "buffering" else "aggregate"))


def _printed_correlation(rows: pd.DataFrame, cards: Cards) -> Table:
    rows = analysis.ordered(rows)
    means, deviations = (rows[rows["shift"] == name].reset_index(drop=True) for name in ("mean", "std"))
    summary = means.assign(mean=means["spearman_r"], std=deviations["spearman_r"])
    return _correlated(rows[~rows["shift"].isin(["mean", "std"])], summary, cards)
