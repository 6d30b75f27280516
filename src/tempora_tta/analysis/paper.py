"""Everything that the paper reads off the one table: losses, regret, correlations, budgets, causes.

Functions from rows of `cells` to frames. Counts are over the cells that count, under pressure.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tempora_tta.analysis.cells import (
    ALL,
    SCENARIO,
    STREAM,
    at_strictest,
    is_offline,
    keys,
    one_scenario,
    ordered,
    win_counts,
)
from tempora_tta.cards import CATALOGUE, OVERALL, Cards
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios.diagnosis import break_even_accuracy, diagnose

WITHIN = (0.0, 0.01, 0.02, 0.05)
"""Distances from the best that `regret` counts cells within."""
_TERMS = ("availability", "responsiveness", "served_accuracy", "frozen_accuracy", "adapt_accuracy", "cutoff")


def _pressed(cells: pd.DataFrame) -> pd.DataFrame:
    return cells[cells["counts"] & ~cells["reference"]]


def _everywhere(cells: pd.DataFrame) -> pd.DataFrame:
    return cells[cells["shift"] == ALL]


# -- losses --------------------------------------------------------------------------------------------------


def deficit(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return `cells`, `losses` and `mean_gap` over the lost cells, per method and protocol and overall."""
    rows = _pressed(cells)
    lost = rows["rank"] > 1
    by_protocol = (
        rows.assign(lost=lost, gap=rows["gap"].where(lost))
        .groupby(["method", "protocol"])
        .agg(cells=("lost", "size"), losses=("lost", "sum"), mean_gap=("gap", "mean"))
    )
    return with_overall(by_protocol.reset_index().rename(columns={"protocol": "group"}), cards)


def with_overall(by_protocol: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Add the overall row of each method: losses summed, gaps averaged over all lost cells."""
    rows = by_protocol.assign(total_gap=by_protocol["losses"] * by_protocol["mean_gap"])
    overall = rows.groupby("method", sort=False)[["cells", "losses", "total_gap"]].sum().reset_index()
    overall["mean_gap"] = overall["total_gap"] / overall["losses"].where(overall["losses"] > 0)
    both = pd.concat([overall.assign(group=OVERALL), rows], ignore_index=True)
    return ordered(both[["method", "group", "cells", "losses", "mean_gap"]], cards)


def losses(winners: pd.DataFrame, methods: list[str], cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Count `cells` and `losses` of methods where only the winners are known, as in the published grids."""
    under_pressure = winners[~is_offline(winners, cards)]
    wins = win_counts(under_pressure, cards).set_index(["method", "group"])["wins"]
    sizes = {OVERALL: len(under_pressure), **under_pressure["protocol"].value_counts().to_dict()}
    return pd.DataFrame(
        [
            {
                "method": method,
                "group": group,
                "cells": cells,
                "losses": cells - int(wins.get((method, group), 0)),
            }
            for method in methods
            for group, cells in sizes.items()
        ]
    )


def below_standard(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Count where a method's utility is below Standard's: `cells`, `count`, and `share` of the method's count.

    As the paper prints it, `share` says where the misses happen: the protocol rows of a method sum to 1.
    """
    rows = beside_standard(_pressed(cells))
    rows = rows[rows["method"] != STANDARD]
    below = rows.assign(below=rows["utility"] < rows["standard_utility"])
    by_protocol = below.groupby(["method", "protocol"])["below"].agg(cells="size", count="sum").reset_index()
    totals = by_protocol.groupby("method")[["cells", "count"]].sum().reset_index()
    table = pd.concat(
        [totals.assign(group=OVERALL), by_protocol.rename(columns={"protocol": "group"})], ignore_index=True
    )
    total = table["method"].map(totals.set_index("method")["count"]).astype(float)
    table["share"] = table["count"] / total.where(total > 0)
    return ordered(table[["method", "group", "cells", "count", "share"]], cards)


def beside_standard(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the rows under pressure whose cell standard inference has a number in."""
    rows = cells[~cells["reference"] & cells["standard_utility"].notna()]
    if rows.empty:
        raise TemporaError("no row of method 'standard': the comparison needs standard inference; run it too")
    return rows


def regret(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return `mean_regret`, `worst_regret` and `cells` per method, and in which share of the cells it is at most 0,
    1, 2 or 5 points behind the best: `within_0`, `within_1`, `within_2`, `within_5`."""
    found = _regrets(cells)
    table = pd.DataFrame(
        {
            "mean_regret": found.mean(),
            "worst_regret": found.max(),
            "cells": len(found),
            **{f"within_{100 * reach:g}": (found <= reach + 1e-12).mean() for reach in WITHIN},
        }
    )
    return ordered(table.rename_axis("method").reset_index(), cards)


def performance_profile(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return the `share` of the cells where a `method` is within `points` of the best, wherever one changes."""
    found = _regrets(cells)
    reaches = np.unique(np.round(found.to_numpy(), 12))
    shares = {method: np.searchsorted(np.sort(found[method]), reaches + 1e-12, "right") for method in found}
    rows = [
        pd.DataFrame({"method": method, "points": 100 * reaches, "share": counts / max(1, len(found))})
        for method, counts in shares.items()
    ]
    return ordered(pd.concat(rows, ignore_index=True), cards)


def _regrets(cells: pd.DataFrame) -> pd.DataFrame:
    """Return best utility minus own, a column per method.

    A method without a number where another has one gets nothing: its regret is all that the best gets.
    """
    rows = _pressed(cells)
    wide = rows.pivot_table(index=keys(rows), columns="method", values="utility", dropna=False)
    wide = wide[wide.notna().any(axis=1)].fillna(0.0)
    return wide.rsub(wide.max(axis=1), axis=0)


# -- rankings ------------------------------------------------------------------------------------------------


def spearman(left: ArrayLike, right: ArrayLike) -> float:
    """Return Spearman's rank correlation, ties at their mean rank; NaN if one side does not vary.

    >>> spearman([0.1, 0.2, 0.3], [5, 6, 9])
    1.0
    """
    return float(pd.Series(np.asarray(left)).rank().corr(pd.Series(np.asarray(right)).rank()))


def correlations(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Correlate offline accuracy and utility over all methods (Spearman), one row per cell under pressure.

    `methods` is how many were ranked: those with both an offline and a temporal utility.
    """
    counting = cells[cells["counts"]]
    reference = counting[counting["reference"]]
    if reference.empty:
        raise TemporaError("no offline rows: correlation compares every scenario with offline; run it too")
    stream = keys(reference, STREAM)
    reference = reference[[*stream, "method", "utility"]].rename(columns={"utility": "offline_utility"})
    rows = counting[~counting["reference"]].merge(reference, on=[*stream, "method"])
    groups = rows.groupby(keys(rows), dropna=False, sort=False)
    table = groups.size().rename("methods").reset_index()
    table["spearman_r"] = [spearman(group["offline_utility"], group["utility"]) for _, group in groups]
    return ordered(table, cards)


def correlation_summary(correlations: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return mean and sample standard deviation (n - 1) over shifts per scenario, and the extreme shifts.

    Takes `correlations(...)` or the shift rows of the published table.
    """
    scenario = keys(correlations, ("run", "hardware", "model", *SCENARIO))
    groups = correlations.groupby(scenario, dropna=False, sort=False)["spearman_r"]
    table = groups.agg(["mean", "std", "min", "max", "count"])
    by_shift = correlations.set_index("shift").groupby(scenario, dropna=False, sort=False)["spearman_r"]
    # Where all methods tie there is no correlation, and no shift where it is lowest.
    table["lowest_shift"] = by_shift.apply(lambda values: None if values.isna().all() else values.idxmin())
    table["highest_shift"] = by_shift.apply(lambda values: None if values.isna().all() else values.idxmax())
    return ordered(table.rename(columns={"count": "streams"}).reset_index(), cards)


def winner_changes(winners: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return each change of the winner's family as pressure relaxes, from one row per cell (paper, appendix C).

    One row per change: the stream and protocol, and `from_` and `to_` of value, label, winner and family. A stream
    whose winners are all of one family has none; one that goes back and forth has several.
    """
    shown = ("value", "label", "winner", "family")
    rows = ordered(winners[~is_offline(winners, cards)], cards)
    rows["family"] = [cards.family(winner) for winner in rows["winner"]]
    curve = keys(rows, (*STREAM, "protocol", "parameter", "queue", "rule"))
    before = rows.groupby(curve, dropna=False)[list(shown)].shift().add_prefix("from_")
    changes = rows.join(before)
    changes = changes[changes["from_family"].notna() & (changes["from_family"] != changes["family"])]
    changes = changes.rename(columns={name: f"to_{name}" for name in shown})
    order = [f"{end}_{name}" for end in ("from", "to") for name in shown]
    return changes[[*curve, *order]].reset_index(drop=True)


def across_machines(cells: pd.DataFrame, machine: str = "hardware", cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return utility and rank of every method and scenario on every machine, over all shifts.

    Scenarios are the same if their labels are: what the user held fixed. `machine` names the column that tells
    machines apart (`run` for stacked runs). `changed` marks the scenarios whose winner is not the same everywhere.
    """
    rows = _everywhere(cells)
    if machine not in rows or rows[machine].nunique() < 2:
        raise TemporaError(
            f"comparing machines needs a column {machine!r} with two or more of them; stack their runs: "
            "analysis.stack({'gpu': ..., 'pi': ...}) and machine='run'"
        )
    scenario = keys(rows, ("protocol", "label", "queue", "rule"))
    first = rows[rows["rank"] == 1].drop_duplicates([machine, *scenario])
    best = first.groupby(scenario, dropna=False)["method"].nunique()
    changed = best[best > 1].reset_index()[scenario].assign(changed=True)
    table = rows[[machine, *keys(rows, ("model",)), *scenario, "value", "method", "utility", "rank"]]
    table = table.merge(changed, on=scenario, how="left")
    return ordered(table.assign(changed=table["changed"].notna()), cards)


# -- time ----------------------------------------------------------------------------------------------------


def temporal_factors(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return `factor` and `factor_value` per method at the strictest point of each protocol, over all shifts.

    Of several queues the longest counts. The cut-off is the mean number of batches adapted before the budget ran out;
    missing if it never did.
    """
    rows = _everywhere(cells)
    rows = rows[~rows["reference"]]
    rows = one_scenario(rows[at_strictest(rows, cards)])
    rows = rows.assign(factor=[cards.scenario(protocol).factor for protocol in rows["protocol"]])
    rows["factor_value"] = [row.get(row["factor"], math.nan) for _, row in rows.iterrows()]
    never_exhausted = (rows["factor"] == "cutoff") & (rows["adapted_fraction"] == 1)
    rows["factor_value"] = rows["factor_value"].where(~never_exhausted)
    scenario = ("protocol", "parameter", "value", "label", "queue", "rule")
    shown = keys(rows, ("run", "hardware", "model", *scenario))
    return ordered(rows[[*shown, "method", "factor", "factor_value"]], cards)


def buffering(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Compare queue 0 with each longer queue, per interval and method, over all shifts (paper, appendix B).

    Columns end in `_unbuffered`, `_buffered` and, for availability and utility, `_delta` (buffered minus unbuffered).
    Waitspan and response appear where the table has them.
    """
    rows = _everywhere(cells)
    queues = rows.groupby("protocol")["queue"]
    compared = rows[(queues.transform("min") == 0) & (queues.transform("nunique") > 1)]
    if compared.empty:
        found = ", ".join(f"{queue:g}" for queue in sorted(rows["queue"].dropna().unique())) or "none"
        raise TemporaError(
            f"buffering compares queue 0 with a longer one, found {found}; run queue=0 and queue=1 both"
        )
    measured = ("availability", "utility", "rank", "waitspan_ms", "response_ms", "response_sd_ms")
    shared = keys(compared, ("run", "hardware", "model", "shift", "protocol", "parameter", "value"))
    measures = keys(compared, ("label", *measured))
    without = compared.loc[compared["queue"] == 0, [*shared, "method", *measures]]
    buffered = compared.loc[compared["queue"] != 0, [*shared, "method", "queue", *measures]]
    table = without.merge(buffered, on=[*shared, "method"], suffixes=("_unbuffered", "_buffered"))
    if table.empty:
        raise TemporaError(
            "buffering compares queues at one interval: run queue=0 and queue=1 at the same one"
        )
    # Names of their own tell the queues apart, and not the interval.
    same = table["label_buffered"] == table["label_unbuffered"]
    interval = [
        cards.scenario(protocol).number(value)
        for protocol, value in zip(table["protocol"], table["value"], strict=True)
    ]
    table["label"] = table["label_buffered"].where(same, pd.Series(interval, index=table.index))
    table = table.drop(columns=["label_buffered", "label_unbuffered"])
    for name in keys(compared, ("availability", "utility")):
        table[f"{name}_delta"] = table[f"{name}_buffered"] - table[f"{name}_unbuffered"]
    return ordered(table, cards)


def overhead(traces: pd.DataFrame, baseline_ms: float, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return the mean latency per batch and method over the offline passes, with standard deviations.

    `service_ms` = `predict_ms` + `adapt_ms` (delta = e + l), `intrinsic_ms` = max(0, predict_ms - lambda), the part
    of the overhead that delays the answer, `slowdown` = service_ms / lambda, and
    `adapt_over_baseline` = adapt_ms / lambda.
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
    table["adapt_over_baseline"] = table["adapt_ms"] / baseline_ms
    table["baseline_ms"] = baseline_ms
    table["batches"] = by_method.size()
    return ordered(table.reset_index(), cards)


def with_resources(table: pd.DataFrame, rows: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Add `energy_j` per batch and `memory_mb` to the rows of `overhead`, where all offline `rows` know them.

    Args:
        table: rows of `overhead`.
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


# -- budgets -------------------------------------------------------------------------------------------------


def is_budgeted(rows: pd.DataFrame, cards: Cards) -> pd.Series[bool]:
    """Tell which rows are of scenarios whose pressure decides how many batches adapt."""
    budgets = [name for name in rows["protocol"].unique() if cards.scenario(name).factor == "cutoff"]
    return rows["protocol"].isin(budgets)


def budget_curves(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return each method's rows under a budget, from small budget to large, with what the overhead bought.

    `overhead_ms` is what was spent (the budget itself where the table does not say), `gain` the utility above
    standard inference, `gain_per_s` the gain per second of overhead, `marginal_per_s` the gain of the last step per
    second that it added. `diminishing` marks the first budget whose step bought less per second than all the overhead
    before it.
    """
    rows = beside_standard(cells)
    rows = ordered(rows[is_budgeted(rows, cards)], cards)
    spent = rows["spent_ms"] if "spent_ms" in rows else pd.Series(float("nan"), index=rows.index)
    rows["overhead_ms"] = spent.fillna(rows["value"])
    rows["gain"] = rows["utility"] - rows["standard_utility"]
    return _returns(rows, [*keys(rows, (*STREAM, "protocol", "rule")), "method"])


def pareto_front(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return the points of `budget_curves` that no other method and budget beats with at most the same overhead.

    Returns are those along the front, so `diminishing` says from which overhead on more budget is worth less,
    whichever method one may choose.
    """
    curves = budget_curves(cells, cards)
    stream = keys(curves, (*STREAM, "protocol", "rule"))
    curves = curves.sort_values(["overhead_ms", "utility"], ascending=[True, False], kind="stable")
    best_before = curves.groupby(stream, dropna=False)["utility"].transform(lambda run: run.cummax().shift())
    front = curves[best_before.isna() | (curves["utility"] > best_before)]
    return _returns(front, stream)


def _returns(rows: pd.DataFrame, curve: list[str]) -> pd.DataFrame:
    groups = rows.groupby(curve, dropna=False, sort=False)
    seconds = rows["overhead_ms"] / 1000
    step_s = seconds - seconds.groupby([rows[name] for name in curve], dropna=False).shift()
    rows = rows.assign(
        gain_per_s=rows["gain"] / seconds.where(seconds > 0),
        marginal_per_s=(rows["gain"] - groups["gain"].shift()) / step_s.where(step_s > 0),
    )
    less = rows["marginal_per_s"] < rows.groupby(curve, dropna=False)["gain_per_s"].shift()
    first = less & (less.groupby([rows[name] for name in curve], dropna=False).cumsum() == 1)
    return rows.assign(diminishing=first).reset_index(drop=True)


# -- causes --------------------------------------------------------------------------------------------------


def break_even(cells: pd.DataFrame, against: str | None = None, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Return the accuracy each method would need to match its cell's winner, or the method `against`.

    `factor` is what the deployment leaves of accuracy (availability * responsiveness), `break_even_accuracy` the
    competitor's utility divided by it, at zero covariance. Above 1 the method is `insolvent`: even predicting
    everything right it would lose. The competitor's own rows are left out.
    """
    rows = cells[~cells["reference"]]
    cell = keys(rows)
    if against is None:
        best = rows.sort_values("utility", kind="stable").groupby(cell, dropna=False).tail(1)
    elif (rows["method"] == against).any():
        best = rows[rows["method"] == against]
    else:
        raise unknown("method to compare with", against, rows["method"].unique())
    best = best[[*cell, "method", "utility"]]
    best = best.rename(columns={"method": "competitor", "utility": "competitor_utility"})
    rows = rows.merge(best, on=cell)
    rows = rows[(rows["method"] != rows["competitor"]) & rows["availability"].notna()]
    rows = rows[rows["responsiveness"].notna()]
    rows["factor"] = rows["availability"] * rows["responsiveness"]
    rows["break_even_accuracy"] = [
        break_even_accuracy(utility, factor)
        for utility, factor in zip(rows["competitor_utility"], rows["factor"], strict=True)
    ]
    rows["insolvent"] = rows["break_even_accuracy"] > 1
    shown = [
        *("utility", "served_accuracy", "competitor", "competitor_utility", "factor"),
        "break_even_accuracy",
    ]
    return ordered(rows[[*cell, "method", *shown, "insolvent"]], cards)


def findings(cells: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Say what adaptation did to each cell, compared with standard inference: `mode` and a `sentence`."""
    rows = beside_standard(cells)
    rows = rows[rows["method"] != STANDARD]
    cell, stream = keys(rows), [*keys(rows, STREAM), "method"]
    own = cells.loc[cells["reference"], [*stream, "utility"]].rename(columns={"utility": "offline_accuracy"})
    rows = rows.merge(own.drop_duplicates(stream), on=stream, how="left")
    found = []
    for index, row in rows.iterrows():
        if any(math.isnan(row[term]) for term in _TERMS[:3]):
            continue
        terms = {term: None if pd.isna(row.get(term)) else float(row[term]) for term in _TERMS}
        utility = float(row["standard_utility"])
        known = row.get("standard_accuracy")
        accuracy = utility if known is None or math.isnan(known) else float(known)
        offline_accuracy = None if pd.isna(row["offline_accuracy"]) else float(row["offline_accuracy"])
        for finding in diagnose(float(row["utility"]), terms, accuracy, utility, offline_accuracy):
            found.append({"index": index, "mode": finding.mode, "sentence": finding.sentence})
    modes = pd.DataFrame(found, columns=["index", "mode", "sentence"]).set_index("index")
    shown = [*cell, *keys(rows, ["scenario"]), "method", "utility", "standard_utility"]
    return ordered(rows[shown].join(modes, how="inner"), cards)
