"""Ranks, winners, correlations, deficits: laws on random cells, stories on small ones, scipy as the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.runs import a_run, frame
from tempora_tta import analysis
from tempora_tta.errors import TemporaError

utilities = st.lists(st.integers(0, 8).map(lambda eighth: eighth / 8), min_size=1, max_size=12)
"""Coarse on purpose: ties must be common."""


def cell(values: list[float], **columns: object) -> pd.DataFrame:
    return frame({f"m{number:02}": value for number, value in enumerate(values)}, **columns)


@settings(max_examples=25)
@given(utilities)
def test_a_rank_is_one_more_than_the_number_of_better_methods(values: list[float]) -> None:
    found = analysis.with_ranks(cell(values))["rank"]
    assert found.tolist() == [1 + sum(other > value for other in values) for value in values]


@settings(max_examples=25)
@given(utilities)
def test_a_cell_has_one_winner_and_names_who_shares_it(values: list[float]) -> None:
    row = analysis.winners(analysis.cells(cell(values))).iloc[0]
    best = [f"m{number:02}" for number, value in enumerate(values) if value == max(values)]
    assert [row["winner"], *filter(None, row["shared_with"].split(", "))] == best
    if len(values) > 1:
        assert row["margin"] == max(values) - sorted(values)[-2]
    else:
        assert np.isnan(row["margin"])


@settings(max_examples=25)
@given(utilities)
def test_losses_gaps_and_wins_fit_together(values: list[float]) -> None:
    rows = cell(values)
    cells = analysis.cells(rows)
    table = analysis.deficit(cells)
    overall = table[table["group"] == "overall"].set_index("method")
    wins = analysis.win_counts(analysis.winners(cells))
    won = set(wins.loc[wins["group"] == "temporal", "method"])
    for method, value in zip(rows["method"], values, strict=True):
        assert overall.loc[method, "losses"] == (method not in won)
        gap = overall.loc[method, "mean_gap"]
        assert gap == pytest.approx(max(values) - value) if method not in won else np.isnan(gap)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=15))
def test_spearman_is_scipy_s(pairs: list[tuple[int, int]]) -> None:
    left, right = zip(*pairs, strict=True)
    ours = analysis.spearman(left, right)
    if len(set(left)) == 1 or len(set(right)) == 1:
        assert np.isnan(ours)
    else:
        assert ours == pytest.approx(stats.spearmanr(left, right).statistic, abs=1e-12)


def test_failed_cells_take_part_in_nothing() -> None:
    rows = pd.concat([a_run(), frame({"tent": np.nan}, protocol="discrete", shift="fog", model="net")])
    columns = ["shift", "label", "queue", "winner", "utility", "runner_up", "margin"]
    found, expected = (analysis.winners(analysis.cells(run))[columns] for run in (rows, a_run()))
    assert found.to_numpy().tolist() == expected.to_numpy().tolist()


def test_wins_are_counted_by_protocol_and_with_offline() -> None:
    rows = pd.concat(
        [
            frame(
                {"tent": 0.6, "adabn": 0.5}, protocol="offline", value=np.nan, label="offline", parameter=""
            ),
            frame({"tent": 0.2, "adabn": 0.5}),
            frame({"tent": 0.5, "adabn": 0.5}, value=20.0, label="γ 20 ms"),
        ]
    )
    counts = analysis.win_counts(analysis.winners(analysis.cells(rows))).set_index(["group", "method"])
    assert counts["wins"].to_dict() == {
        ("overall", "adabn"): 2,
        ("overall", "tent"): 2,
        ("temporal", "adabn"): 2,
        ("temporal", "tent"): 1,
        ("offline", "tent"): 1,
        ("discrete", "adabn"): 2,
        ("discrete", "tent"): 1,
    }
    assert counts.loc[("discrete", "tent"), "share"] == 0.5


def test_correlation_summary_names_the_extremes() -> None:
    rows = pd.DataFrame(
        {"shift": ["fog", "snow"], "protocol": "discrete", "label": "x", "spearman_r": [0.5, -0.5]}
    )
    summary = analysis.correlation_summary(rows).iloc[0]
    assert (summary["mean"], summary["streams"]) == (0.0, 2)
    assert summary["std"] == pytest.approx(np.sqrt(0.5))
    assert (summary["lowest_shift"], summary["highest_shift"]) == ("snow", "fog")


def test_a_method_equal_to_standard_is_not_below_it() -> None:
    rows = frame({"standard": 0.5, "lame": 0.5, "tent": 0.4})
    found = analysis.below_standard(analysis.cells(rows)).set_index(["method", "group"])
    assert found.loc[("lame", "overall"), "count"] == 0
    assert np.isnan(found.loc[("lame", "discrete"), "share"])
    assert found.loc[("tent", "discrete"), ["count", "share"]].tolist() == [1, 1.0]


def test_winner_changes_may_go_back_and_forth() -> None:
    wins = ["adabn", "neo", "eta", "adabn"]
    rows = pd.DataFrame(
        {
            "shift": "fog",
            "protocol": "discrete",
            "value": [1.0, 2, 3, 4],
            "label": list("abcd"),
            "winner": wins,
        }
    )
    found = analysis.winner_changes(rows)
    assert found[["from_label", "to_label", "to_family"]].to_numpy().tolist() == [
        ["b", "c", "gradient-based"],
        ["c", "d", "gradient-free"],
    ]
    assert analysis.winner_changes(rows.iloc[:2]).empty


ONE = analysis.cells(frame({"tent": 0.5}, queue=1))
UNTIMED = pd.DataFrame({"method": ["tent"], "protocol": "discrete", "served": True}).assign(
    predict_ms=9.0, adapt_ms=1.0
)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: analysis.with_ranks(pd.DataFrame({"method": []})), ["protocol, value, utility"]),
        (lambda: analysis.correlations(ONE), ["offline"]),
        (lambda: analysis.below_standard(ONE), ["'standard'"]),
        (lambda: analysis.buffering(ONE), ["queue=0", "queue=1"]),
        (lambda: analysis.across_machines(ONE), ["'hardware'", "two or more"]),
        (lambda: analysis.break_even(ONE, against="tnt"), ["tnt", "tent"]),
        (lambda: analysis.overhead(UNTIMED, baseline_ms=40.0), ["offline"]),
    ],
)
def test_mistakes_say_what_is_missing(call: Callable[[], object], parts: list[str]) -> None:
    with pytest.raises(TemporaError) as caught:
        call()
    assert all(part in str(caught.value) for part in parts), caught.value


def test_what_comes_in_no_order_stays_as_it_was_and_what_is_missing_comes_last() -> None:
    columns = {
        "protocol": "discrete",
        "shift": ["mine", "fog", "yours", "fog"],
        "value": [None, 10.0, 10.0, 25.0],
    }
    rows = pd.DataFrame({**columns, "method": ["tent", "mine:B", "standard", "mine:A"], "place": range(4)})
    assert list(analysis.ordered(rows)["place"]) == [1, 2, 3, 0]
    assert list(analysis.ordered(rows[["shift", "place"]])["place"]) == [1, 3, 0, 2], (
        "paper's first, then as given"
    )
    assert list(analysis.ordered(rows[["place"]])["place"]) == [0, 1, 2, 3]


def test_latency_is_read_from_offline_passes() -> None:
    traces = pd.DataFrame(
        {
            "method": ["standard", "standard", "tent", "tent", "tent"],
            "protocol": ["offline"] * 4 + ["discrete"],
            "served": True,
            "predict_ms": [38.0, 40.0, 41.0, 43.0, 900.0],
            "adapt_ms": [0.0, 0.0, 50.0, 60.0, 900.0],
        }
    )
    found = analysis.overhead(traces, baseline_ms=40.0).set_index("method")
    assert found.loc["tent", ["service_ms", "predict_ms", "adapt_ms"]].tolist() == [97.0, 42.0, 55.0]
    assert found.loc["tent", ["intrinsic_ms", "slowdown", "adapt_sd_ms"]].tolist() == [2.0, 97 / 40, 5.0]
    assert found.loc["standard", "intrinsic_ms"] == 0.0
