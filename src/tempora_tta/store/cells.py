"""Cells: one method under one scenario on one stream, scored from the passes that hold its batches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from tempora_tta.scenarios import Resolved, Scenario
from tempora_tta.store.resources import Resources
from tempora_tta.store.schema import CELL_COLUMNS, UTILITIES
from tempora_tta.store.trace import Trace


@dataclass(frozen=True)
class Cell:
    """A place for a cell's batches: a pass of its own, or passes that it shares."""

    method: str
    model: str
    shift: str
    seed: int
    scenario: Scenario
    scenario_index: int
    baseline_ms: float
    stream: str = "single"
    """Its kind."""
    status: str = "ok"
    origin: str = "live"
    adapting_pass: str | None = None
    frozen_pass: str | None = None
    fallback_pass: str | None = None
    timing: str = "VALID"
    """VALID, WARN or INVALID."""
    timing_uncertainty: float = 0.0
    """Relative uncertainty of the times behind the cell; 0 under a recorded clock."""
    resources: Resources = field(default_factory=Resources)
    """What the method takes besides time."""
    oracle: bool = False
    """Its settings were chosen by labels."""

    def resolved(self, trace: Trace) -> Resolved:
        """Its scenario with a number in every knob, on the stream of one of its passes."""
        return self.scenario.resolve(
            num_batches=trace.num_batches,
            batch_size=trace.batch_size,
            baseline_ms=self.baseline_ms,
            seed=self.seed,
            shift=self.shift,
        )


def utility_row(
    cell: Cell, adapting: Trace | None, frozen: Trace | None = None, fallback: Trace | None = None
) -> dict[str, Any]:
    """The cell's row of the utilities table. Without traces (not applicable, failed) it has no numbers."""
    row: dict[str, Any] = dict.fromkeys(UTILITIES)
    deployment = cell.scenario.deployment()
    row |= {
        "method": cell.method,
        "model": cell.model,
        "shift": cell.shift,
        "seed": cell.seed,
        "stream": cell.stream,
        "protocol": cell.scenario.protocol,
        "parameter": cell.scenario.parameter,
        "label": cell.scenario.label,
        "queue": deployment.queue,
        "rule": deployment.rule if deployment.has_budget else "",
        "status": cell.status,
        "origin": cell.origin,
        "baseline_ms": cell.baseline_ms,
        "timing": cell.timing,
        "oracle": cell.oracle,
        "scenario": cell.scenario_index,
        "adapting_pass": cell.adapting_pass,
        "frozen_pass": cell.frozen_pass,
        "fallback_pass": cell.fallback_pass,
    }
    if adapting is None:
        return row
    resolved = cell.resolved(adapting)
    score = adapting.score(resolved, frozen, fallback)
    lowest, highest = _interval(cell, adapting, frozen, fallback, score.utility)
    course = score.course
    timed = score.response_ms[~np.isnan(score.response_ms)]
    row |= {name: value for name, value in score.terms.items() if name in UTILITIES}
    row |= {
        "value": cell.scenario.value(resolved),
        "utility": score.utility,
        "utility_lo": lowest,
        "utility_hi": highest,
        "stepped_fraction": adapting.stepped_fraction(course),
        "ece": adapting.ece(course, frozen, fallback),
        "waitspan_ms": course.waitspan_ms,
        "response_ms": float(timed.mean()) if timed.size else None,
        "response_sd_ms": float(timed.std()) if timed.size else None,
        "served_batches": course.served.size,
        "batches": course.num_batches,
        **cell.resources.columns(course, cell.baseline_ms),
    }
    return row


def _interval(
    cell: Cell, adapting: Trace, frozen: Trace | None, fallback: Trace | None, utility: float
) -> tuple[float, float]:
    """The range of utilities when all times are off by the uncertainty: knife-edge cells become wide."""
    if cell.timing_uncertainty == 0:
        return utility, utility
    resolved = cell.resolved(adapting)
    utilities = [utility]
    whole, whole_tail = adapting.filled(), None if frozen is None else frozen.filled()
    for factor in (1 - cell.timing_uncertainty, 1 + cell.timing_uncertainty):
        scaled = whole.scaled(factor, factor)
        tail = scaled if whole_tail is None else whole_tail.scaled(factor, factor)
        rescued = (adapting if fallback is None else fallback).scaled(factor, factor)
        utilities.append(scaled.score(resolved, tail, rescued).utility)
    return min(utilities), max(utilities)


def utilities_frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """The utilities table: rows in a fixed order, with the rank of each method within its cell."""
    frame = pd.DataFrame(list(rows), columns=list(UTILITIES))
    frame = frame.sort_values([*CELL_COLUMNS, "method"], kind="stable", ignore_index=True)
    numbers = [name for name, (kind, _) in UTILITIES.items() if kind == pa.float64()]
    frame[numbers] = frame[numbers].astype("float64")
    contending = frame["utility"].where(~is_oracle(frame))
    ranks = contending.groupby([frame[name] for name in CELL_COLUMNS]).rank(method="min", ascending=False)
    frame["rank"] = [None if math.isnan(rank) else int(rank) for rank in ranks]
    return frame


def is_oracle(frame: pd.DataFrame) -> pd.Series[bool]:
    """Mark the rows whose settings were chosen by labels; none of a frame that does not say."""
    if "oracle" not in frame:
        return pd.Series(False, index=frame.index)
    return frame["oracle"].eq(True).fillna(False).astype(bool)
