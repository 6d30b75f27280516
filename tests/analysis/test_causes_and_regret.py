"""Costs of a choice, and causes for which a method fell behind."""

from __future__ import annotations

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.runs import frame
from made_runs import BATCHES
from tempora_tta import analysis
from tempora_tta.analysis.diagnoses import (
    Case,
    collapse,
    correlated_classes,
    too_small_batches,
)
from tempora_tta.cards import CATALOGUE


@hypothesis.settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12))
def test_regret_is_what_the_best_of_each_cell_has_more(cells: list[tuple[float, float]]) -> None:
    rows = pd.concat(
        [frame({"standard": one, "tent": two}, shift=f"s{place}") for place, (one, two) in enumerate(cells)]
    )
    table = analysis.cells(rows)
    found = analysis.regret(table).set_index("method")
    values = np.array(cells)
    behind = values.max(axis=1, keepdims=True) - values
    assert found.loc[["standard", "tent"], "mean_regret"].to_numpy() == pytest.approx(behind.mean(axis=0))
    assert (found["within_0"] <= found["within_5"]).all()
    assert (found[["within_0"]].sum() >= 1).all(), "some method is best in every cell"
    profile = analysis.performance_profile(table)
    for method, own in profile.groupby("method"):
        assert own["share"].is_monotonic_increasing
        assert own["share"].iloc[-1] == 1
        assert own["share"].iloc[0] == pytest.approx(found.loc[method, "within_0"])


def test_who_failed_in_a_cell_gives_nothing_there() -> None:
    rows = pd.concat([frame({"standard": 0.4, "tent": 0.6}), frame({"standard": 0.5}, shift="snow")])
    found = analysis.regret(analysis.cells(rows)).set_index("method")
    assert found.loc["tent", ["mean_regret", "worst_regret"]].tolist() == pytest.approx([0.25, 0.5])


# -- causes ----------------------------------------------------------------------------------------------------


def a_case(method: str, batch_size: int = 16, classes: str = "", **offline: float) -> Case:
    nothing = pd.DataFrame(columns=["method", "shift", "seed", "correct", "total"])
    statistics = frozenset({"adabn", "tent"})
    return Case(method, offline, nothing, batch_size, frozenset({"adabn"}), statistics, classes, CATALOGUE)


def test_small_batches_are_named_where_their_statistics_are_worse_than_none() -> None:
    for case, parts in (
        (a_case("tent", standard=0.6, adabn=0.5, tent=0.4), ["16 samples", "AdaBN", "10.0 points", "64"]),
        (a_case("adabn", 1, standard=0.6, adabn=0.1), ["1 sample ", "it loses 50.0 points"]),
        (a_case("tent", standard=0.6, tent=0.4), ["it loses 20.0 points"]),  # no other method shows it
    ):
        found = too_small_batches(case)
        assert found is not None
        assert all(part in found.sentence for part in parts)
    for case, why in (
        (a_case("tent", 64, standard=0.6, adabn=0.5, tent=0.4), "they are not small"),
        (a_case("tent", standard=0.6, adabn=0.7, tent=0.4), "they are good enough"),
        (a_case("lame", standard=0.6, adabn=0.5, lame=0.4), "it uses none"),
        (a_case("tent", standard=0.3, adabn=0.2, tent=0.4), "it does no harm"),
    ):
        assert too_small_batches(case) is None, why


def test_correlated_classes_are_named_with_the_points_that_they_cost() -> None:
    found = correlated_classes(a_case("tent", 64, "Dirichlet 0.1", standard=0.6, tent=0.475))
    assert found is not None
    assert found.mode == "correlated classes"
    assert all(part in found.sentence for part in ("Dirichlet 0.1", "12.5 points"))
    for case, why in (
        (a_case("tent", 64, standard=0.6, tent=0.475), "they are shuffled"),
        (a_case("lame", 64, "sorted", standard=0.6, lame=0.4), "it uses none"),
        (a_case("tent", 64, "sorted", standard=0.4, tent=0.5), "it does no harm"),
    ):
        assert correlated_classes(case) is None, why


@pytest.mark.parametrize(
    ("correct", "begins"),
    [
        ([*[35] * 10, *[20] * (BATCHES - 10)], 10),
        ([20] * BATCHES, None),  # worse from the start is harm, not collapse
        ([*[35] * 10, *[20] * 25, *[35] * (BATCHES - 35)], None),  # it recovers
    ],
)
def test_a_collapse_is_named_with_the_batch_where_it_begins(correct: list[int], begins: int | None) -> None:
    batches = pd.DataFrame(
        [
            {"method": method, "shift": "fog", "seed": 1, "batch": batch, "correct": right, "total": 50}
            for method, rights in (("standard", [30] * BATCHES), ("tent", correct))
            for batch, right in enumerate(rights)
        ]
    )
    found = collapse(Case("tent", {}, batches, 50, frozenset(), frozenset(), "", CATALOGUE))
    assert (found is not None) == (begins is not None)
    if found is not None:
        assert all(part in found.sentence for part in (f"batch {begins} ", "30 batches", "fog, seed 1"))
