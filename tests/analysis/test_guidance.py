"""The answer in a sentence, what a choice costs, and why a method fell behind."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.runs import frame
from made_runs import BATCHES, METHODS, write_run
from tempora_tta import analysis
from tempora_tta.analysis.certainty import how_sure, how_sure_along
from tempora_tta.analysis.diagnoses import (
    Case,
    collapse,
    correlated_classes,
    diagnoses,
    too_small_batches,
)
from tempora_tta.analysis.doubt import EQUAL, HOLDS, UNDECIDED, Judgement
from tempora_tta.analysis.guidance import Guidance, Setting
from tempora_tta.cards import CATALOGUE
from tempora_tta.report.frames import offline_batches
from tempora_tta.scenarios import Discrete, Offline


def judged(method: str, verdict: str, *others: str) -> Judgement:
    names = (method, *others)
    return Judgement(
        method=method,
        utility=0.5,
        verdict=verdict,
        why="sampling" if verdict == UNDECIDED else "",
        equal_with=others if verdict == EQUAL else (),
        rivals=others if verdict == UNDECIDED else (),
        p_best=dict.fromkeys(names, 0.5),
        rank_lo=dict.fromkeys(names, 1),
        rank_hi=dict.fromkeys(names, 2),
    )


def settings(protocol: str, **winners: Judgement) -> list[Setting]:
    return [
        Setting(protocol, label.replace("_", " "), found.method, found) for label, found in winners.items()
    ]


def test_one_method_and_where_another_is_better() -> None:
    told = Guidance(
        (
            *settings(
                "continuous",
                T_2=judged("adabn", HOLDS),
                T_5=judged("adabn", HOLDS),
                T_9=judged("shot_im", HOLDS),
            ),
            *settings("discrete", y_1=judged("shot_im", HOLDS), y_2=judged("shot_im", HOLDS)),
        )
    )
    assert told.method == "shot_im"
    assert told.sentence() == "Use SHOT-IM, unless T 5 or stricter (AdaBN). All 5 winners behind this hold."
    assert told.recommended == {"shot_im", "adabn"}


def test_a_setting_that_is_open_is_no_exception() -> None:
    """Where the method may be the best, or is equal with it, nobody need change."""
    told = Guidance(
        (
            *settings("discrete", y_1=judged("tent", HOLDS), y_2=judged("tent", HOLDS)),
            *settings("continuous", T_1=judged("eta", UNDECIDED, "tent"), T_2=judged("sar", EQUAL, "tent")),
        )
    )
    assert told.sentence() == (
        "Use Tent: no other method is better for certain in any of the 4 settings. Of the 4 winners behind this "
        "2 hold, 1 is equal with another, 1 is undecided."
    )
    assert told.recommended == {"tent"}


@pytest.mark.parametrize(
    ("winners", "sentence"),
    [
        (
            {"T_1": judged("tent", HOLDS), "T_2": judged("tent", HOLDS)},
            "Use Tent: it is best for certain in all 2 settings.",
        ),
        (
            {"T_1": judged("tent", UNDECIDED, "eta"), "T_2": judged("tent", UNDECIDED, "eta")},
            "Use Tent: no other method is better for certain in any of the 2 settings. All 2 winners behind this "
            "are undecided.",
        ),
        ({"T_1": judged("tent", HOLDS)}, "Use Tent. The winner behind this holds."),
    ],
)
def test_what_is_true_of_all_winners_is_said_of_all(winners: dict[str, Judgement], sentence: str) -> None:
    assert Guidance(tuple(settings("continuous", **winners))).sentence() == sentence


def test_how_sure_a_winner_is_names_it_and_where() -> None:
    """The lead of one method is no comfort about another, nor that in one setting about the next."""
    assert how_sure(judged("tent", HOLDS, "eta")) == "The lead of Tent holds."
    assert how_sure(judged("tent", EQUAL, "eta")) == "Tent is equal with ETA within half a point."
    found = how_sure(judged("tent", UNDECIDED, "eta"), among="among the 2 with an answer")
    assert found == "The lead of Tent among the 2 with an answer is undecided by sampling: ETA may be better."
    sure, open_ = judged("tent", HOLDS, "eta"), judged("tent", UNDECIDED, "eta")
    other = judged("tent", UNDECIDED, "sar")
    along = how_sure_along([("T 1", sure), ("T 2", open_), ("T 3", other)], "{} to {}".format)
    assert along == (
        "T 1 to T 1: The lead of Tent holds. T 2 to T 3: The lead of Tent is undecided by sampling: ETA or SAR "
        "may be better."
    )
    assert how_sure_along([("T 1", sure), ("T 2", sure)], "{} to {}".format) == "The lead of Tent holds."


def test_the_answer_of_a_run_is_who_wins_over_all_shifts(tmp_path: Path) -> None:
    run = write_run(tmp_path, scenarios=(Offline(), Discrete(interval_ms=10.0), Discrete(interval_ms=60.0)))
    told = analysis.guidance(analysis.cells_of(run), None, run.cards)
    assert told is not None
    champions = analysis.champions(analysis.cells_of(run), run.cards).set_index("label")["winner"]
    assert [one.method for one in told.settings] == [champions["γ 10 ms"], champions["γ 60 ms"]]
    offline = run.utilities[run.utilities["protocol"] == "offline"]
    assert analysis.guidance(analysis.cells(offline), None, run.cards) is None


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
    assert (found[["within_0"]].sum() >= 1).all(), "somebody is best in every cell"
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
    found = too_small_batches(a_case("tent", standard=0.6, adabn=0.5, tent=0.4))
    assert found is not None
    assert found.sentence == (
        "the statistics of 16 samples are worse than the network's own: AdaBN, which uses nothing else, loses 10.0 "
        "points without any pressure; use batches of 64"
    )
    alone = too_small_batches(a_case("adabn", 1, standard=0.6, adabn=0.1))
    assert alone is not None
    assert alone.sentence.startswith(
        "the statistics of 1 sample are worse than the network's own: it loses 50.0 points"
    )
    own = too_small_batches(a_case("tent", standard=0.6, tent=0.4))
    assert own is not None
    assert "it loses 20.0 points" in own.sentence, "nobody else shows it"
    assert too_small_batches(a_case("tent", 64, standard=0.6, adabn=0.5, tent=0.4)) is None, (
        "they are not small"
    )
    assert too_small_batches(a_case("tent", standard=0.6, adabn=0.7, tent=0.4)) is None, (
        "they are good enough"
    )
    assert too_small_batches(a_case("lame", standard=0.6, adabn=0.5, lame=0.4)) is None, "it uses none"
    assert too_small_batches(a_case("tent", standard=0.3, adabn=0.2, tent=0.4)) is None, "it does no harm"


def test_correlated_classes_are_named_with_the_points_that_they_cost() -> None:
    found = correlated_classes(a_case("tent", 64, "Dirichlet 0.1", standard=0.6, tent=0.475))
    assert found is not None
    assert found.mode == "correlated classes"
    assert "classes come together (Dirichlet 0.1)" in found.sentence
    assert "loses 12.5 points to standard inference" in found.sentence
    assert correlated_classes(a_case("tent", 64, standard=0.6, tent=0.475)) is None, "they are shuffled"
    assert correlated_classes(a_case("lame", 64, "sorted", standard=0.6, lame=0.4)) is None, "it uses none"
    assert correlated_classes(a_case("tent", 64, "sorted", standard=0.4, tent=0.5)) is None, "it does no harm"


def test_a_collapse_is_named_with_the_batch_where_it_begins(tmp_path: Path) -> None:
    run = write_run(tmp_path, methods={name: METHODS[name] for name in ("standard", "tent")}, shifts=("fog",))
    batches = offline_batches(run)
    batches["correct"] = 30
    of_tent = np.flatnonzero(batches["method"] == "tent")
    batches.iloc[of_tent, batches.columns.get_loc("correct")] = [*[35] * 10, *[20] * (BATCHES - 10)]
    found = diagnoses(run, batches)
    assert [one.mode for one in found["tent"]] == ["collapse"]
    assert (
        found["tent"][0].sentence
        == "below standard inference from batch 10 to the end, 30 batches (fog, seed 1)"
    )
    batches.iloc[of_tent, batches.columns.get_loc("correct")] = 20
    assert diagnoses(run, batches) == {}, "worse from the start is harm, not collapse"
    batches.iloc[of_tent, batches.columns.get_loc("correct")] = [
        *[35] * 10,
        *[20] * 25,
        *[35] * (BATCHES - 35),
    ]
    assert collapse(Case("tent", {}, batches, 50, frozenset(), frozenset(), "", CATALOGUE)) is None, (
        "it recovers"
    )
