"""Break-even, insolvency and failure modes."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from analysis.runs import frame
from tempora_tta import TemporaError
from tempora_tta.analysis import by_shift, cells, findings
from tempora_tta.scenarios import (
    Amortised,
    Continuous,
    Deployment,
    Discrete,
    Offline,
    break_even_accuracy,
    diagnose,
    is_insolvent,
)


def modes(score, standard_accuracy):
    return [finding.mode for finding in diagnose(score.utility, score.terms, standard_accuracy)]


def test_availability_is_a_ceiling_on_utility():
    assert is_insolvent(competitor_utility=0.5, factor=0.49)
    assert not is_insolvent(competitor_utility=0.5, factor=0.5)
    assert break_even_accuracy(0.5, 0.0) == math.inf
    assert break_even_accuracy(0.0, 0.0) == 0.0


def test_break_even_refuses_percentages():
    with pytest.raises(TemporaError, match="fractions from 0 to 1"):
        break_even_accuracy(0.3, 41)


def test_availability_collapse_shows_what_it_would_take():
    score = Discrete(interval_ms=40).score(accuracy=[0.5] * 100, service_ms=200)
    (finding,) = diagnose(score.utility, score.terms, standard_accuracy=0.3)
    assert finding.mode == "availability collapse"
    assert finding.numbers["break_even_accuracy"] == pytest.approx(0.3 / score.terms["availability"])
    assert "50.0 % against 30.0 %" in finding.sentence


def test_accuracy_erosion():
    score = Continuous(threshold_ms=50).score(accuracy=[0.5] * 20, predict_ms=41, adapt_ms=60, baseline_ms=40)
    assert modes(score, 0.3) == ["accuracy erosion"]


@pytest.mark.parametrize(
    ("frozen", "expected"), [(0.1, ["unripe statistics"]), (0.4, ["durable gain"]), (0.3, [])]
)
def test_what_freezing_leaves_behind(frozen, expected):
    score = Amortised(budget_ms=100).score(
        accuracy=[0.5] * 50, frozen_accuracy=[frozen] * 50, service_ms=100, baseline_ms=40
    )
    assert modes(score, 0.3) == expected


@pytest.mark.parametrize(
    ("budget_ms", "adapting", "expected"),
    [
        (50, 0.5, "never adapted"),  # the first batch costs 60
        (70, 0.5, "unripe statistics"),  # one batch, and 90 % of mean 0, variance 1
        (70, 0.2, "harmful adaptation"),  # it was worse before it froze, too
        (
            60 * 30,
            0.5,
            "harmful adaptation",
        ),  # after thirty batches statistics are ripe: it must be the learning
    ],
)
def test_a_loss_is_blamed_on_statistics_where_they_are_the_cause(budget_ms, adapting, expected):
    score = Amortised(budget_ms=budget_ms).score(
        accuracy=[adapting] * 200, frozen_accuracy=[0.1] * 200, service_ms=100, baseline_ms=40
    )
    # Where statistics began is no drift: only a model that learned something drifts.
    assert modes(score, 0.3) == ([expected, "drift"] if expected == "harmful adaptation" else [expected])


def test_a_method_that_is_simply_worse_is_harmful():
    assert modes(Offline().score(accuracy=[0.2]), 0.3) == ["harmful adaptation"]


def test_a_winner_has_nothing_wrong_with_it():
    assert modes(Offline().score(accuracy=[0.4]), 0.3) == []


@pytest.mark.parametrize("accuracy", [0.3, 0.5])
def test_no_accuracy_above_all_of_it_is_asked_for(accuracy: float) -> None:
    """It once said "breaking even takes 422.9 %"."""
    late = Discrete(interval_ms=40).score(accuracy=[accuracy] * 100, service_ms=800)
    (finding,) = diagnose(late.utility, late.terms, standard_accuracy=0.3)
    assert finding.mode == "availability collapse"
    assert finding.sentence.endswith("no accuracy would break even")
    assert finding.numbers["break_even_accuracy"] > 1


def test_who_is_as_accurate_and_late_loses_by_time_alone() -> None:
    score = Continuous(threshold_ms=100).score(accuracy=[0.3] * 50, predict_ms=60, adapt_ms=0, baseline_ms=40)
    (finding,) = diagnose(score.utility, score.terms, standard_accuracy=0.3)
    assert finding.mode == "accuracy erosion"
    assert finding.sentence.startswith(
        "as accurate as standard inference (30.0 %), but late answers keep only 75.0 %"
    )
    assert diagnose(0.3, Offline().score(accuracy=[0.3] * 50).terms, standard_accuracy=0.3) == []


def test_where_standard_is_late_too_its_accuracy_is_not_its_utility() -> None:
    """It once said "more accurate than standard inference (92.8 % against 77.2 %)" of one as accurate."""
    score = Continuous(threshold_ms=100).score(accuracy=[0.9] * 50, predict_ms=60, adapt_ms=0, baseline_ms=40)
    (finding,) = diagnose(score.utility, score.terms, standard_accuracy=0.9, standard_utility=0.8)
    assert finding.sentence == (
        "as accurate as standard inference (90.0 %), but late answers keep only 75.0 % of their value; no accuracy "
        "would break even"
    )
    assert diagnose(score.utility, score.terms, standard_accuracy=0.9, standard_utility=0.6) == []


def test_breaking_even_takes_all_that_is_lost_into_account() -> None:
    terms = {"availability": 0.8, "responsiveness": 0.5, "served_accuracy": 0.9, "frozen_accuracy": None}
    (found,) = diagnose(0.36, terms, standard_accuracy=0.9, standard_utility=0.38)
    assert found.numbers["break_even_accuracy"] == pytest.approx(0.95)


def terms_of(availability=1.0, responsiveness=1.0, served_accuracy=0.6):
    named = {"availability": availability, "responsiveness": responsiveness}
    return {**named, "served_accuracy": served_accuracy, "frozen_accuracy": None}


@pytest.mark.parametrize(
    ("terms", "covariance", "expected"),
    [
        # AdaBN at full load with a deadline of 1.5 lambda was told "availability collapse".
        (terms_of(0.913, 0.381), 0.0, "accuracy erosion"),
        (terms_of(0.381, 0.913), 0.0, "availability collapse"),
        (terms_of(0.8, 0.9, served_accuracy=0.33), 0.0, "lost accuracy"),
        (terms_of(0.9, 0.95, served_accuracy=0.2), 0.0, "harmful adaptation"),
        (
            terms_of(0.3, 0.95, served_accuracy=0.29),
            0.0,
            "availability collapse",
        ),  # and a little less accurate
        (terms_of(0.9, 0.8, served_accuracy=0.5), -0.2, "late where right"),
    ],
)
def test_the_smallest_factor_is_the_cause(terms, covariance, expected):
    utility = terms["availability"] * (terms["served_accuracy"] * terms["responsiveness"] + covariance)
    (found,) = diagnose(utility, terms, standard_accuracy=0.3, offline_accuracy=0.6)
    assert found.mode == expected


def test_a_method_that_is_harmful_offline_is_not_excused_by_a_little_pressure():
    (found,) = diagnose(0.19, terms_of(0.95, served_accuracy=0.2), 0.3, offline_accuracy=0.2)
    assert found.mode == "harmful adaptation"


def test_the_cause_in_a_deployment_with_a_deadline():
    """At full load, with a queue: nearly all is served, and most of it late."""
    pressed = Deployment(interval_ms=40, queue=1, deadline_ms=60)
    score = pressed.score(accuracy=[0.5] * 200, predict_ms=43, adapt_ms=0, baseline_ms=40)
    assert score.terms["responsiveness"] < score.terms["availability"]
    assert modes(score, 0.3) == ["accuracy erosion"]


def test_findings_of_a_run_know_what_a_method_gets_offline():
    """It serves 80 % of the batches, and of these it gets a third right instead of 60 %: that costs more."""
    terms = {
        "availability": [1.0, 0.8],
        "responsiveness": 1.0,
        "served_accuracy": [0.3, 0.33],
        "frozen_accuracy": math.nan,
        "adapted_fraction": 1.0,
        "adapt_accuracy": [0.3, 0.33],
        "covariance": 0.0,
    }
    pressed = frame({"standard": 0.3, "tent": 0.264}, **terms)
    unhurried = frame(
        {"standard": 0.3, "tent": 0.6}, protocol="offline", parameter="", value=math.nan, label="offline"
    )
    rows = cells(pd.concat([pressed, unhurried], ignore_index=True))
    found = findings(by_shift(rows))
    assert found["mode"].tolist() == ["lost accuracy"]
