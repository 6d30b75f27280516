"""Confidence and its error: against a plain restatement, over any set of batches, and through a whole run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tempora_tta as tempora
from tempora_tta import models
from tempora_tta.engine.predictions import _probabilities
from tempora_tta.scenarios import Discrete, Offline
from tempora_tta.store import Trace
from tempora_tta.store.trace import BINS, expected_error, gaps


def plain_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """As textbooks have it: over bins, the share of samples times the distance of their means."""
    error = 0.0
    for lower in range(BINS):
        inside = np.minimum(np.floor(confidence * BINS), BINS - 1) == lower
        if inside.any():
            error += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    return float(error)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 99))
def test_sums_by_batch_give_the_error_over_all_of_them(batches: int, size: int, seed: int):
    draws = np.random.default_rng(seed)
    confidence, right = draws.random((batches, size)), draws.random((batches, size)) < 0.5
    confidence[0, 0] = 1.0
    rows = np.stack([gaps(*batch) for batch in zip(confidence, right, strict=True)])
    expected = plain_error(confidence.ravel(), right.ravel())
    assert expected_error(rows, confidence.size) == pytest.approx(expected)


def test_logits_become_probabilities_and_probabilities_stay():
    logits = torch.tensor([[2.0, 0.0, -torch.inf], [float("nan"), 1.0, 0.0]])
    found = _probabilities(logits)
    assert found[0].sum().item() == pytest.approx(1)
    assert torch.isfinite(found).all()
    already = torch.tensor([[0.7, 0.3], [0.5, 0.5]])
    assert torch.equal(_probabilities(already), already.double())


@pytest.fixture(scope="module")
def results() -> tempora.results.Results:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.AdaptiveAvgPool2d(1)
    )
    whole = torch.nn.Sequential(network, torch.nn.Flatten(), torch.nn.Linear(4, 5)).eval()
    model = models.wrap(whole, features=lambda whole, x: whole[0](x).flatten(1), head=whole[2])
    batches = [(torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,))) for _ in range(8)]
    clock = {"baseline_ms": 40, "standard": (38, 0), "adabn": (41, 30)}
    return tempora.evaluate(
        model, batches, ["standard", "adabn"], [Discrete(interval_ms=60)], clock=clock, device="cpu"
    )


def test_every_cell_says_how_far_confidence_is_from_accuracy(results):
    utilities = results.utilities
    assert utilities["ece"].between(0, 1).all()
    for _, cell in utilities.iterrows():
        trace = results.trace(cell)
        served = trace.served
        assert cell["ece"] == pytest.approx(
            expected_error(trace.calibration[served], int(trace.total[served].sum()))
        )
        # With any bins, the whole is at least as far off as its mean is.
        mean_gap = trace.confidence[served].mean() - trace.accuracy[served].mean()
        assert abs(mean_gap) <= cell["ece"] + 1e-12


def test_the_rows_survive_being_written(results):
    trace = results.trace(results.utilities.iloc[0])
    again = Trace.from_table(trace.to_table())
    assert np.array_equal(again.calibration, trace.calibration, equal_nan=True)
    assert np.array_equal(again.confidence, trace.confidence, equal_nan=True)
    assert results.traces["confidence"].between(0, 1).sum() == results.traces["served"].sum()


def test_a_trace_that_does_not_say_has_none():
    trace = Trace.empty(3, 4)
    trace.phase[:] = 1
    trace.predict_ms[:] = trace.adapt_ms[:] = 1.0
    course = trace.course(Offline().resolve(num_batches=3))
    assert trace.ece(course) is None
    assert pd.isna(Trace.from_table(trace.to_table()).calibration).all()
