"""What a second of overhead buys: accuracy-budget curves, their Pareto front, and where returns diminish."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.below_standard import beside_standard
from tempora_tta.analysis.frames import keys, ordered
from tempora_tta.cards import CATALOGUE, Cards


def budget_curves(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Each method's rows under a budget, from small budget to large, with what the overhead bought.

    `overhead_ms` is what was spent (the budget itself where the frame does not say), `gain` the utility
    above standard inference, `gain_per_s` the gain per second of overhead, `marginal_per_s` the gain of the
    last step per second that it added. `diminishing` marks the first budget whose step bought less per
    second than all the overhead before it.
    """
    rows = beside_standard(frame, cards)
    rows = ordered(rows[is_budgeted(rows, cards)], cards)
    spent = rows["spent_ms"] if "spent_ms" in rows else pd.Series(float("nan"), index=rows.index)
    rows["overhead_ms"] = spent.fillna(rows["value"])
    rows["gain"] = rows["utility"] - rows["standard_utility"]
    return _returns(
        rows,
        keys(rows, ("run", "hardware", "model", "shift", "seed", "repeat", "protocol", "rule", "method")),
    )


def pareto_front(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The points of `budget_curves` that no other method and budget beats with at most the same overhead.

    Returns are those along the front, so `diminishing` says from which overhead on more budget is worth less,
    whichever method one may choose.
    """
    curves = budget_curves(frame, cards)
    stream = keys(curves, ("run", "hardware", "model", "shift", "seed", "repeat", "protocol", "rule"))
    curves = curves.sort_values(["overhead_ms", "utility"], ascending=[True, False], kind="stable")
    best_before = curves.groupby(stream, dropna=False)["utility"].transform(lambda run: run.cummax().shift())
    front = curves[best_before.isna() | (curves["utility"] > best_before)]
    return _returns(front, stream)


def is_budgeted(rows: pd.DataFrame, cards: Cards) -> pd.Series[bool]:
    """Which rows are of scenarios whose pressure decides how many batches adapt."""
    budgets = [name for name in rows["protocol"].unique() if cards.scenario(name).factor == "cutoff"]
    return rows["protocol"].isin(budgets)


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
