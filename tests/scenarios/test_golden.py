"""Worked timing examples (periodic and bursty arrivals, queues, thresholds, both budget rules) to 1e-9."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tempora_tta.scenarios import (
    Amortised,
    Continuous,
    Deployment,
    Discrete,
    Recorded,
    budget_cutoff,
    decay,
    serve,
)

CASES = json.loads((Path(__file__).parent / "protocols.json").read_text())["cases"]
close = pytest.approx


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['shape']}-{case['n']}")
def test_which_batches_are_served_and_when(case):
    for expected in case["discrete"]:
        course = serve(case["delta"], case["arrivals"][expected["arrivals"]], queue=expected["capacity"])
        assert course.served.tolist() == expected["served"]
        assert sorted(course.evicted.tolist()) == sorted(expected["evicted"])
        np.testing.assert_allclose(course.start_ms, expected["start"], atol=1e-9, rtol=0)
        np.testing.assert_allclose(course.finish_ms, expected["finish"], atol=1e-9, rtol=0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['shape']}-{case['n']}")
def test_discrete_utility(case):
    for expected in case["discrete"]:
        queue = expected["capacity"]
        if expected["arrivals"] == "periodic":
            score = Discrete(interval_ms=case["gamma"], queue=queue).score(
                accuracy=case["accuracy"], service_ms=case["delta"]
            )
        else:
            score = Deployment(arrivals=case["arrivals"]["bursty"], queue=queue).score(
                accuracy=case["accuracy"], predict_ms=case["e"], adapt_ms=case["l"]
            )
        assert score.utility == close(expected["utility"], abs=1e-9)
        assert score.terms["availability"] == close(expected["availability"], abs=1e-9)
        assert score.terms["served_accuracy"] == close(expected["served_accuracy"], abs=1e-9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['shape']}-{case['n']}")
def test_continuous_utility(case):
    expected = case["continuous"]
    score = Continuous(threshold_ms=expected["T"]).score(
        accuracy=case["accuracy"], predict_ms=case["e"], adapt_ms=case["l"], baseline_ms=case["lam"]
    )
    kappa = decay(score.course.response_ms, expected["T"], case["lam"])
    np.testing.assert_allclose(kappa, expected["kappa"], atol=1e-9, rtol=0)
    assert score.utility == close(expected["utility"], abs=1e-9)
    for term in ("accuracy", "responsiveness", "covariance"):
        assert score.terms[term] == close(expected[term], abs=1e-9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['shape']}-{case['n']}")
def test_budget_cutoffs(case):
    expected = case["amortised"]
    for rule in ("strict", "overshoot"):
        assert budget_cutoff(case["delta"], case["lam"], expected["B"], rule=rule) == expected[rule]
        score = Amortised(budget_ms=expected["B"], rule=rule).score(
            accuracy=case["accuracy"],
            frozen_accuracy=case["accuracy"],
            service_ms=case["delta"],
            baseline_ms=case["lam"],
        )
        assert score.terms["cutoff"] == expected[rule]


DEPLOYMENTS = json.loads((Path(__file__).parent / "deployments.json").read_text())["cases"]
KNOBS = ("queue", "threshold_ms", "deadline_ms", "budget_ms", "fallback", "fallback_cost")
STREAM = (
    *("accuracy", "predict_ms", "adapt_ms", "frozen_accuracy", "frozen_ms"),
    *("fallback_accuracy", "fallback_ms", "baseline_ms"),
)


@pytest.mark.parametrize("number", range(len(DEPLOYMENTS)))
def test_general_deployments(number):
    case = DEPLOYMENTS[number]
    deployment = Deployment(arrivals=Recorded(case["arrivals_ms"]), **{name: case[name] for name in KNOBS})
    score = deployment.score(**{name: case[name] for name in STREAM})
    assert score.course.phase == case["expect"]["phase"]
    found = {"utility": score.utility, **score.terms}
    for term, value in case["expect"].items():
        if term != "phase":
            assert found[term] == (None if value is None else close(value, abs=1e-12, rel=0)), term
