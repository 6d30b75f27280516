"""Confidence and its error: against a plain restatement, over any set of batches, and through a whole run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tempora_tta as tempora
from live_clock import tiny_network
from tempora_tta.scenarios import Discrete, Offline
from tempora_tta.store import Trace
from tempora_tta.store.trace import BINS, expected_error, gaps

CLOCK = {"baseline_ms": 40, "standard": (38, 0)}


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


def test_every_cell_says_how_far_confidence_is_from_accuracy():
    batches = [(torch.randn(6, 1, 2, 2), torch.randint(0, 3, (6,))) for _ in range(8)]
    scenarios = [Discrete(interval_ms=60)]
    results = tempora.evaluate(
        tiny_network(),
        batches,
        ["standard", "neo"],
        scenarios,
        clock={**CLOCK, "neo": (41, 30)},
        device="cpu",
    )
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
    assert results.traces["confidence"].between(0, 1).sum() == results.traces["served"].sum()


def test_a_trace_that_does_not_say_has_none():
    trace = Trace.empty(3, 4)
    trace.phase[:] = 1
    trace.predict_ms[:] = trace.adapt_ms[:] = 1.0
    course = trace.course(Offline().resolve(num_batches=3))
    assert trace.ece(course) is None
    assert pd.isna(Trace.from_table(trace.to_table()).calibration).all()
