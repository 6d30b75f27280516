"""The course that a stream took, and what it is worth: utility and the terms that explain it.

U = (1/N) * sum over served batches of accuracy * decay, and, over the served batches Q,

    U = availability * ((adapted_fraction * adapt_accuracy + (1 - adapted_fraction) * frozen_accuracy)
                        * responsiveness + covariance)

holds to floating-point precision on every score.

What is counted are frames. Each is right or wrong, and decays by the response to itself: the emission of its batch
less its own arrival. A batch adds the mean over its frames of right x decay, and all batches have as many frames, so
the sum above over N batches is the mean over all frames; availability and the accuracies are the same counted either
way, responsiveness is the mean decay of the served frames, and covariance is taken over these. A batch that is given
as such is one frame that arrives with it, and right in part.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempora_tta.scenarios._validate import BoolArray, FloatArray, IntArray

ADAPT, FROZEN, FALLBACK, SKIPPED = "adapt", "frozen", "fallback", "skipped"
SIX_TERMS = (
    "availability",
    "adapted_fraction",
    "adapt_accuracy",
    "frozen_accuracy",
    "responsiveness",
    "covariance",
)
"""Terms that every score is put together from, in the order of the identity."""
PERCENTILES = {50: 1, 90: 29, 95: 59, 99: 299}
"""Percentiles of the response, and how many arrivals each takes: with fewer, even the slowest of them is too often
(more than once in twenty times) below the true percentile. A median is shown of any number."""


@dataclass(frozen=True)
class Course:
    """The course a stream took: one entry per served batch, in service order, unless said otherwise.

    A batch that a fallback answered is served; a fallback that is free stands outside the pipeline, so its batches
    may overlap with others.
    """

    num_batches: int
    served: IntArray
    evicted: IntArray
    """Batches that the pipeline lost, in the order they were lost; a fallback, if there is one, answers them."""
    arrived_ms: FloatArray
    start_ms: FloatArray
    emission_ms: FloatArray
    finish_ms: FloatArray
    predict_ms: FloatArray
    adapt_ms: FloatArray
    wait_ms: FloatArray
    """From arrival to start."""
    response_ms: FloatArray
    """From arrival to emission: what the user waits."""
    idle_ms: FloatArray
    """From the previous finish to the start; 0 before the first batch, and outside the pipeline."""
    adapted: BoolArray
    fallback: BoolArray
    waitspan_ms: float
    """Total idle time forced by dropped arrivals (paper, appendix B); ordinary slack does not count."""
    spent_ms: float
    """Overhead charged to the budget."""

    @property
    def cutoff(self) -> int:
        """Number of served batches that adapted (m)."""
        return int(self.adapted.sum())

    def part(self, first: int, num_batches: int) -> tuple[Course, BoolArray]:
        """The course of consecutive batches, counted from the first of them, and which of the served ones they are.
        Totals over the whole stream (`waitspan_ms`, `spent_ms`) are not known of a part."""
        last = first + num_batches
        chosen = (self.served >= first) & (self.served < last)
        lost = self.evicted[(self.evicted >= first) & (self.evicted < last)] - first
        rows = {
            field.name: getattr(self, field.name)[chosen]
            for field in dataclasses.fields(self)
            if field.name not in ("num_batches", "evicted", "waitspan_ms", "spent_ms")
        }
        rows["served"] = rows["served"] - first
        nan = float("nan")
        return Course(num_batches=num_batches, evicted=lost, waitspan_ms=nan, spent_ms=nan, **rows), chosen

    @property
    def phase(self) -> list[str]:
        """Fate of every batch of the stream: adapt, frozen, fallback or skipped."""
        found = np.full(self.num_batches, SKIPPED, dtype=object)
        found[self.served] = np.select([self.adapted, self.fallback], [ADAPT, FALLBACK], FROZEN)
        return [str(phase) for phase in found]


def course_of(
    *,
    start_ms: FloatArray,
    wait_ms: FloatArray,
    predict_ms: FloatArray,
    adapt_ms: FloatArray,
    forced: BoolArray,
    fallback: BoolArray | None = None,
    apart: BoolArray | None = None,
    **given: Any,
) -> Course:
    """A course from when its batches started and what they took.

    `forced`: idle before because of drops. `apart`: answered by a fallback that does not occupy the pipeline.
    """
    finish_ms = start_ms + (predict_ms + adapt_ms)
    within = np.arange(start_ms.size) if apart is None else np.flatnonzero(~apart)
    idle_ms = np.zeros_like(start_ms)
    # frames that are answered together start together
    idle_ms[within[1:]] = np.maximum(0.0, start_ms[within[1:]] - finish_ms[within[:-1]])
    return Course(
        fallback=np.zeros(start_ms.size, dtype=bool) if fallback is None else fallback,
        start_ms=start_ms,
        emission_ms=start_ms + predict_ms,
        finish_ms=finish_ms,
        predict_ms=predict_ms,
        adapt_ms=adapt_ms,
        wait_ms=wait_ms,
        response_ms=wait_ms + predict_ms,
        idle_ms=idle_ms,
        waitspan_ms=float(idle_ms[forced].sum()),
        **given,
    )


@dataclass(frozen=True)
class Value:
    """The worth of a response: hyperbolic patience, a hard deadline, or always 1."""

    threshold_ms: float = math.inf
    deadline_ms: float = math.inf
    baseline_ms: float | None = None
    waited_ms: tuple[float, ...] = (0.0,)
    """Time that each frame of a batch has waited when the batch arrives."""

    @property
    def decays(self) -> bool:
        return math.isfinite(self.threshold_ms) or math.isfinite(self.deadline_ms)

    def kappa(self, response_ms: FloatArray) -> FloatArray:
        """The decay factor of each response."""
        if math.isfinite(self.deadline_ms):
            return (response_ms <= self.deadline_ms).astype(np.float64)
        return decay(response_ms, self.threshold_ms, self.baseline_ms)

    def responses(self, response_ms: FloatArray) -> FloatArray:
        """The response to each frame, (..., batches, frames), from those to batches."""
        return np.asarray(response_ms[..., None] + np.array(self.waited_ms), dtype=np.float64)

    def worth(self, right: FloatArray, response_ms: FloatArray) -> FloatArray:
        """Contribution of each batch, (..., batches): the mean over its frames.

        right: (..., batches, frames), or (..., batches, 1) where all frames of a batch are alike.
        """
        added: FloatArray = right * self.kappa(self.responses(response_ms))
        return np.asarray(added.mean(axis=-1), dtype=np.float64)


@dataclass(frozen=True)
class Score:
    """Result of a deployment on a stream: its utility, the terms behind it, and the course it took.

    `terms` holds the six of the identity and, for reading: `accuracy` and `served_accuracy` (the mean over served
    batches, under both of the paper's names), `cutoff` (m), `spent_ms`, `fallback_fraction` (of all batches),
    `fallback_accuracy`, and `response_p50_ms`, `response_p90_ms`, `response_p95_ms`, `response_p99_ms`. A term
    without meaning is None: no batch adapted, none was frozen, too few responses for the percentile.
    """

    utility: float
    terms: Mapping[str, float | None]
    course: Course
    worth: FloatArray
    """Contribution of each batch, by its index; 0 where it was not served. Their mean is the utility."""
    response_ms: FloatArray
    """To each frame that was answered, or each batch where they are given as such, in service order."""

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


def score_course(course: Course, right: FloatArray, value: Value) -> Score:
    """Score a course. `right`, in service order: the accuracy of each served batch, or (batches, samples) of which
    samples are right."""
    right = right if right.ndim == 2 else right[:, None]
    if len(value.waited_ms) == 1:
        right = right.mean(axis=1, keepdims=True)
    accuracies, response_ms = right.mean(axis=1), value.responses(course.response_ms)
    kappa = value.kappa(response_ms)
    accuracy, responsiveness = _mean(accuracies), _mean(kappa)
    served, frames = kappa.shape
    terms: dict[str, float | None] = {
        "availability": served / course.num_batches,
        "adapted_fraction": course.cutoff / served if served else None,
        "adapt_accuracy": _mean(accuracies[course.adapted]),
        "frozen_accuracy": _mean(accuracies[~course.adapted]),
        "responsiveness": responsiveness,
        "covariance": _mean((right - (accuracy or 0.0)) * (kappa - (responsiveness or 0.0))),
        "accuracy": accuracy,
        "served_accuracy": accuracy,
        "cutoff": course.cutoff,
        "spent_ms": None if value.baseline_ms is None else course.spent_ms,
        "fallback_fraction": int(course.fallback.sum()) / course.num_batches,
        "fallback_accuracy": _mean(accuracies[course.fallback]),
        **percentiles(response_ms.ravel(), course.num_batches * frames),
    }
    worth = np.zeros(course.num_batches)
    worth[course.served] = added = value.worth(right, course.response_ms)
    return Score(float(added.sum()) / course.num_batches, terms, course, worth, response_ms.ravel())


def percentiles(response_ms: FloatArray, arrivals: int) -> dict[str, float | None]:
    """Percentiles of the responses to `arrivals` arrivals, of which those without a response never end.

    The smallest time within which that share of all arrivals was answered; None where there are too few arrivals
    to tell (`PERCENTILES`), or where some went untimed.

    >>> percentiles(np.arange(1.0, 51.0), 50)["response_p90_ms"], percentiles(np.ones(40), 50)["response_p90_ms"]
    (45.0, inf)
    """
    ordered = np.sort(response_ms)
    found: dict[str, float | None] = {}
    for percent, needed in PERCENTILES.items():
        place = -(-percent * arrivals // 100) - 1
        if arrivals < needed or np.isnan(ordered).any():
            percentile = None
        else:
            percentile = float(ordered[place]) if place < ordered.size else math.inf
        found[f"response_p{percent}_ms"] = percentile
    return found


def _mean(values: FloatArray) -> float | None:
    return float(values.ravel().mean()) if values.size else None
