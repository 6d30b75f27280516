"""The course that a stream took: which batches were served, when, and what became of the others."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempora_tta.scenarios._validate import BoolArray, FloatArray, IntArray

ADAPT, FROZEN, FALLBACK, SKIPPED = "adapt", "frozen", "fallback", "skipped"


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
    """From the previous finish to the start; 0 before the first batch, and beside the pipeline."""
    adapted: BoolArray
    fallback: BoolArray
    waitspan_ms: float
    """Total idle time forced by dropped arrivals (paper, appendix B); ordinary slack does not count."""
    spent_ms: float
    """Overhead charged to the budget."""

    @property
    def cutoff(self) -> int:
        """How many served batches adapted (m)."""
        return int(self.adapted.sum())

    def part(self, first: int, num_batches: int) -> tuple[Course, BoolArray]:
        """The course of some batches on end, counted from the first of them, and which of the served ones they are.
        Whatever is counted over the whole stream (`waitspan_ms`, `spent_ms`) is not known of a part."""
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
        """What became of every batch of the stream: adapt, frozen, fallback or skipped."""
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
    beside: BoolArray | None = None,
    **given: Any,
) -> Course:
    """A course from when its batches started and what they took.

    `forced`: idle before because of drops. `beside`: answered by a fallback that does not occupy the pipeline.
    """
    finish_ms = start_ms + (predict_ms + adapt_ms)
    within = np.arange(start_ms.size) if beside is None else np.flatnonzero(~beside)
    idle_ms = np.zeros_like(start_ms)
    idle_ms[within[1:]] = start_ms[within[1:]] - finish_ms[within[:-1]]
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
