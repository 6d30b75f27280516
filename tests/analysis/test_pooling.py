"""Aggregates over shifts keep the identity, and mean what pooling all batches would mean."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.runs import a_run, frame
from tempora_tta import analysis
from tempora_tta.scenarios import SIX_TERMS


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_pooled_terms_recompose_the_pooled_utility(seed: int) -> None:
    pooled = analysis.pool(a_run(seed, batches=15))
    terms = pooled[list(SIX_TERMS)].fillna(0.0)
    accuracy = (
        terms["adapted_fraction"] * terms["adapt_accuracy"]
        + (1 - terms["adapted_fraction"]) * terms["frozen_accuracy"]
    )
    again = terms["availability"] * (accuracy * terms["responsiveness"] + terms["covariance"])
    assert again.to_numpy() == pytest.approx(pooled["utility"].to_numpy(), abs=1e-12)
    assert accuracy.to_numpy() == pytest.approx(pooled["served_accuracy"].to_numpy(), abs=1e-12)


def test_streams_weigh_by_their_batches() -> None:
    short, long = (
        frame({"tent": 0.2}, shift="fog", batches=10),
        frame({"tent": 0.5}, shift="snow", batches=30),
    )
    pooled = analysis.pool(pd.concat([short, long])).iloc[0]
    assert pooled["utility"] == pytest.approx(0.425)
    assert (pooled["shift"], pooled["shifts"], pooled["batches"]) == ("all", 2, 40)


def test_served_accuracy_is_pooled_over_served_batches() -> None:
    terms = {"adapted_fraction": 1.0, "frozen_accuracy": np.nan, "responsiveness": 1.0, "covariance": 0.0}
    rows = pd.concat(
        [
            frame({"sar": a * u}, shift=s, availability=a, served_accuracy=u, adapt_accuracy=u, **terms)
            for s, a, u in [("fog", 0.25, 0.8), ("snow", 0.75, 0.4)]
        ]
    )
    pooled = analysis.pool(rows).iloc[0]
    assert pooled["availability"] == 0.5
    assert pooled["served_accuracy"] == pytest.approx(0.5), "not the mean of means, 0.6"
    assert np.isnan(pooled["frozen_accuracy"])


def test_an_easy_and_fast_shift_makes_covariance_between_shifts() -> None:
    terms = {"availability": 1.0, "adapted_fraction": 1.0, "frozen_accuracy": np.nan, "covariance": 0.01}
    rows = [
        frame({"lame": a * k + 0.01}, shift=s, served_accuracy=a, adapt_accuracy=a, responsiveness=k, **terms)
        for s, a, k in [("fog", 0.8, 0.9), ("snow", 0.2, 0.5)]
    ]
    pooled = analysis.pool(pd.concat(rows)).iloc[0]
    assert pooled["within_covariance"] == pytest.approx(0.01)
    assert pooled["between_covariance"] == pytest.approx(0.3 * 0.2)


def test_a_term_that_was_not_printed_stays_unknown() -> None:
    terms = {"adapted_fraction": 1.0, "frozen_accuracy": np.nan, "responsiveness": 1.0, "covariance": 0.0}
    known, unknown = (
        frame({"sar": 0.2}, shift=s, availability=a, served_accuracy=0.4, adapt_accuracy=0.4, **terms)
        for s, a in [("fog", 0.5), ("snow", np.nan)]
    )
    pooled = analysis.pool(pd.concat([known, unknown])).iloc[0]
    assert np.isnan(pooled["availability"])
    assert np.isnan(pooled["served_accuracy"])
    assert pooled["utility"] == pytest.approx(0.2)


def test_what_is_known_of_one_shift_stays_known() -> None:
    """A printed table may leave out the weights of a mean; of a shift alone the terms are its own."""
    terms = {
        "adapted_fraction": np.nan,
        "frozen_accuracy": np.nan,
        "adapt_accuracy": np.nan,
        "covariance": 0.01,
    }
    rows = frame({"sar": 0.2}, availability=np.nan, served_accuracy=0.4, responsiveness=0.5, **terms)
    pooled = analysis.pool(rows).iloc[0]
    assert pooled[["served_accuracy", "responsiveness", "covariance"]].tolist() == [0.4, 0.5, 0.01]
    assert np.isnan(pooled["availability"])


def test_seeds_pool_like_shifts() -> None:
    rows = pd.concat([a_run(seed=1), a_run(seed=2)])
    pooled = analysis.pool(rows, over="seed")
    assert (pooled["seeds"] == 2).all()
    assert len(pooled) == len(a_run())
    one = rows[(rows["method"] == "tent") & (rows["protocol"] == "offline") & (rows["shift"] == "fog")]
    found = pooled[
        (pooled["method"] == "tent") & (pooled["protocol"] == "offline") & (pooled["shift"] == "fog")
    ]
    assert found["utility"].item() == pytest.approx(one["utility"].mean())


def test_returns_diminish_where_a_step_buys_less_than_before() -> None:
    budgets = [1000.0, 2000.0, 4000.0, 8000.0]
    rows = pd.concat(
        [
            frame({"standard": 0.2, "tent": utility}, protocol="amortised", value=budget, label=f"B {budget}")
            for budget, utility in zip(budgets, [0.25, 0.4, 0.7, 0.72], strict=True)
        ]
    )
    curve = analysis.budget_curves(analysis.over_all(analysis.cells(rows)))
    tent = curve[curve["method"] == "tent"]
    assert tent["gain_per_s"].tolist() == pytest.approx([0.05, 0.1, 0.125, 0.065])
    assert tent["marginal_per_s"].tolist()[1:] == pytest.approx([0.15, 0.15, 0.005])
    assert tent.loc[tent["diminishing"], "value"].tolist() == [8000.0]


def test_no_method_on_the_front_is_beaten_with_less_overhead() -> None:
    cells = analysis.by_shift(analysis.cells(a_run()))
    curves, front = analysis.budget_curves(cells), analysis.pareto_front(cells)
    for shift, points in curves.groupby("shift"):
        kept = front[front["shift"] == shift]
        for _, point in points.iterrows():
            cheaper = points[points["overhead_ms"] <= point["overhead_ms"]]
            beaten = (cheaper["utility"] > point["utility"]).any()
            same = (kept["utility"] == point["utility"]) & (kept["overhead_ms"] <= point["overhead_ms"])
            assert same.any() != beaten


def test_spent_overhead_counts_and_not_the_budget() -> None:
    rows = frame({"standard": 0.2, "tent": 0.4}, protocol="amortised", value=5000.0, spent_ms=[0.0, 1000.0])
    front = analysis.pareto_front(analysis.over_all(analysis.cells(rows)))
    assert front["overhead_ms"].tolist() == [0.0, 1000.0]
    assert front["gain_per_s"].iloc[1] == pytest.approx(0.2)


def test_a_pooled_verdict_is_the_worst_and_responses_keep_their_spread() -> None:
    terms = {"adapted_fraction": 1.0, "frozen_accuracy": np.nan, "responsiveness": 1.0, "covariance": 0.0}
    terms |= {"availability": 1.0, "served_accuracy": 0.5, "adapt_accuracy": 0.5}
    rows = pd.concat(
        [
            frame({"sar": 0.5}, shift="fog", response_ms=10.0, response_sd_ms=0.0, timing="WARN", **terms),
            frame({"sar": 0.5}, shift="snow", response_ms=30.0, response_sd_ms=0.0, timing="VALID", **terms),
        ]
    )
    pooled = analysis.pool(rows).iloc[0]
    assert pooled["timing"] == "WARN"
    assert (pooled["response_ms"], pooled["response_sd_ms"]) == (20.0, 10.0)
