"""Utility and the terms that explain it.

U = (1/N) * sum over served batches of accuracy * decay, and, over the served batches Q,

    U = availability * ((adapted_fraction * adapt_accuracy + (1 - adapted_fraction) * frozen_accuracy)
                        * responsiveness + covariance)

holds to floating-point precision on every score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tempora.scenarios._validate import FloatArray
from tempora.scenarios.timeline import Course

SIX_TERMS = (
    "availability",
    "adapted_fraction",
    "adapt_accuracy",
    "frozen_accuracy",
    "responsiveness",
    "covariance",
)
"""What every score is put together from, in the order of the identity."""


@dataclass(frozen=True)
class Score:
    """What a deployment got out of a stream: its utility, the terms behind it, and the course it took.

    `terms` holds the six of the identity and, for reading, `accuracy` and `served_accuracy` (the mean over
    served batches, under both of the paper's names), `cutoff` (m) and `spent_ms`. A term without meaning is
    None: no batch adapted, or none was frozen.
    """

    utility: float
    terms: Mapping[str, float | None]
    course: Course

    def recomposed(self) -> float:
        """The utility put together again from its six terms."""
        availability, adapted_fraction, adapt, frozen, responsiveness, covariance = (
            self.terms[name] or 0.0 for name in SIX_TERMS
        )
        accuracy = adapted_fraction * adapt + (1 - adapted_fraction) * frozen
        return availability * (accuracy * responsiveness + covariance)


def decay(response_ms: FloatArray, threshold_ms: float, baseline_ms: float | None) -> FloatArray:
    """Hyperbolic decay kappa: 1 up to the baseline, 1/2 where the response reaches the threshold."""
    if math.isinf(threshold_ms) or baseline_ms is None:
        return np.ones_like(response_ms)
    delay_ms = np.maximum(0.0, response_ms - baseline_ms)
    return 1.0 / (1.0 + delay_ms / (threshold_ms - baseline_ms))


def score_course(
    course: Course, served_accuracy: FloatArray, threshold_ms: float, baseline_ms: float | None
) -> Score:
    """Score a course whose served batches were predicted with `served_accuracy` (in service order)."""
    kappa = decay(course.response_ms, threshold_ms, baseline_ms)
    adapted = course.adapted
    accuracy = float(served_accuracy.mean())
    responsiveness = float(kappa.mean())
    terms: dict[str, float | None] = {
        "availability": course.served.size / course.num_batches,
        "adapted_fraction": course.cutoff / course.served.size,
        "adapt_accuracy": _mean(served_accuracy[adapted]),
        "frozen_accuracy": _mean(served_accuracy[~adapted]),
        "responsiveness": responsiveness,
        "covariance": float(((served_accuracy - accuracy) * (kappa - responsiveness)).mean()),
        "accuracy": accuracy,
        "served_accuracy": accuracy,
        "cutoff": course.cutoff,
        "spent_ms": None if baseline_ms is None else course.spent_ms,
    }
    return Score(float((served_accuracy * kappa).sum()) / course.num_batches, terms, course)


def _mean(values: FloatArray) -> float | None:
    return float(values.mean()) if values.size else None
