"""A trace: what one pass over a stream left behind, one entry per batch of the stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tempora.scenarios import Course, Resolved, Score, decay, replay
from tempora.store.schema import TRACE, arrow_schema

FloatArray = NDArray[np.float64]
PHASES = np.array(["", "adapt", "frozen"])
SKIPPED, ADAPTED, FROZEN = 0, 1, 2
TIMES = [name for name in TRACE if name.endswith("_ms")]


@dataclass(frozen=True)
class Trace:
    """Arrays by batch index. Times that nobody measured are NaN, predictions nobody made are -1."""

    phase: NDArray[np.int8]
    """SKIPPED, ADAPTED or FROZEN."""
    correct: NDArray[np.int32] | FloatArray
    total: NDArray[np.int32]
    predicted: NDArray[np.int32]
    """(batches, batch size); (batches, 0) where they were not read."""
    predict_ms: FloatArray
    adapt_ms: FloatArray
    action: NDArray[np.str_]
    attempt_predict_ms: FloatArray
    attempt_adapt_ms: FloatArray
    page_faults: NDArray[np.int64]
    """-1 where not counted."""
    arrived_ms: FloatArray
    start_ms: FloatArray
    emission_ms: FloatArray
    finish_ms: FloatArray

    @classmethod
    def empty(cls, num_batches: int, batch_size: int) -> Trace:
        """A trace in which nothing has been served yet."""
        times = {name: np.full(num_batches, np.nan) for name in TIMES}
        return cls(
            phase=np.full(num_batches, SKIPPED, np.int8),
            correct=np.zeros(num_batches, np.int32),
            total=np.full(num_batches, batch_size, np.int32),
            predicted=np.full((num_batches, batch_size), -1, np.int32),
            action=np.full(num_batches, "", dtype="<U64"),
            page_faults=np.full(num_batches, -1, np.int64),
            **times,
        )

    @property
    def num_batches(self) -> int:
        return len(self.phase)

    @property
    def served(self) -> NDArray[np.bool_]:
        return np.not_equal(self.phase, SKIPPED)

    @property
    def accuracy(self) -> FloatArray:
        """Per batch; 0 where not served."""
        return self.correct / self.total

    @property
    def service_ms(self) -> FloatArray:
        return self.predict_ms + self.adapt_ms

    def on_timeline(self, resolved: Resolved, frozen: Trace | None = None) -> Trace:
        """This pass as `resolved` would have seen it: replayed on its timeline, with the frozen batches taken
        from another pass where they were made there.

        Exact whenever the same batches meet the same model states: the caller knows when that is so.
        """
        return self._placed(self.course(resolved, frozen), frozen or self)

    def course(self, resolved: Resolved, frozen: Trace | None = None) -> Course:
        """The course of this pass on a deployment's timeline.

        A live pass replays to its own course: the batch undone by `strict` has its attempt's times here, so
        that it overruns the budget again.
        """
        frozen_ms = (self if frozen is None else frozen).predict_ms
        undone = ~np.isnan(self.attempt_predict_ms)
        return replay(
            resolved.timeline(),
            np.where(undone, self.attempt_predict_ms, self.predict_ms),
            np.where(undone, self.attempt_adapt_ms, self.adapt_ms),
            None if resolved.untimed_tail else frozen_ms,
            adapted=(self.phase == ADAPTED) | undone,
        )

    def _placed(self, course: Course, frozen: Trace) -> Trace:
        """The served batches of a course: adapted ones from this trace, frozen ones from `frozen`."""
        placed = Trace.empty(self.num_batches, self.predicted.shape[1])
        placed.total[:] = self.total
        for batches, phase, source in (
            (course.served[course.adapted], ADAPTED, self),
            (course.served[~course.adapted], FROZEN, frozen),
        ):
            placed.phase[batches] = phase
            for name in ("correct", "predicted", "action", "page_faults"):
                getattr(placed, name)[batches] = getattr(source, name)[batches]
        timed = ~np.isnan(course.predict_ms)
        for name in ("arrived_ms", "start_ms", "emission_ms", "finish_ms", "predict_ms", "adapt_ms"):
            getattr(placed, name)[course.served[timed]] = getattr(course, name)[timed]
        return placed

    def score(self, resolved: Resolved, frozen: Trace | None = None) -> Score:
        """The utility of `on_timeline(resolved, frozen)`."""
        course = self.course(resolved, frozen)
        adapting, tail = self.accuracy, (self if frozen is None else frozen).accuracy
        return resolved.score(course, np.where(course.adapted, adapting[course.served], tail[course.served]))

    def utility(self, resolved: Resolved) -> float:
        """The utility of a trace that is placed on the timeline of `resolved` already."""
        kappa = decay(self.emission_ms - self.arrived_ms, resolved.threshold_ms, resolved.baseline_ms)
        return float((self.accuracy * kappa)[self.served].sum()) / self.num_batches

    def scaled(self, factor: float) -> Trace:
        """The same pass on a machine `factor` times as slow.

        Batches that were not served, which another pace might reach, get the mean of those that were: an
        estimate for intervals, never for a utility itself.
        """
        return replace(
            self,
            predict_ms=_filled(self.predict_ms) * factor,
            adapt_ms=_filled(self.adapt_ms) * factor,
            attempt_predict_ms=self.attempt_predict_ms * factor,
            attempt_adapt_ms=self.attempt_adapt_ms * factor,
            correct=np.where(self.served, self.correct, self._mean_correct()),
            phase=np.where(self.served, self.phase, ADAPTED).astype(np.int8),
        )

    def _mean_correct(self) -> float:
        return float(self.correct[self.served].mean()) if self.served.any() else 0.0

    def to_table(self) -> pa.Table:
        """The rows as they are stored."""
        served = self.served
        known = served & (self.predicted >= 0).any(axis=1)  # imported logs count what was right, not who
        lengths = np.where(known, self.predicted.shape[1], 0)
        columns: dict[str, pa.Array] = {
            "index": pa.array(np.arange(self.num_batches, dtype=np.int32)),
            "served": pa.array(served),
            "phase": pa.array(PHASES[self.phase], mask=~served),
            "correct": pa.array(self.correct),
            "total": pa.array(self.total),
            "predicted": pa.ListArray.from_arrays(
                np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), self.predicted[known].ravel()
            ),
            "action": pa.array(self.action, mask=~served),
            "page_faults": pa.array(self.page_faults, mask=self.page_faults < 0),
        }
        for name in TIMES:
            columns[name] = pa.array(getattr(self, name), from_pandas=True)
        return pa.table({name: columns[name] for name in TRACE}, schema=arrow_schema(TRACE))

    def to_frame(self) -> pd.DataFrame:
        """One row per batch, with the columns of the schema."""
        frame: pd.DataFrame = self.to_table().to_pandas()
        return frame

    @classmethod
    def from_table(cls, table: pa.Table) -> Trace:
        """A trace from its stored rows."""
        total = table["total"].to_numpy()
        trace = cls.empty(len(total), int(total[0]) if "predicted" in table.column_names else 0)
        trace.total[:] = total
        trace.phase[:] = pc.index_in(pc.fill_null(table["phase"], ""), pa.array(PHASES)).to_numpy()
        trace.correct[:] = table["correct"].to_numpy()
        if "predicted" in table.column_names:
            predicted = table["predicted"].combine_chunks()
            known = predicted.value_lengths().to_numpy() > 0
            trace.predicted[known] = predicted.flatten().to_numpy().reshape(-1, trace.predicted.shape[1])
        actions = pc.fill_null(table["action"], "").combine_chunks().dictionary_encode()
        trace.action[:] = np.array(actions.dictionary.to_pylist(), trace.action.dtype)[
            actions.indices.to_numpy()
        ]
        trace.page_faults[:] = pc.fill_null(table["page_faults"], -1).to_numpy()
        for name in TIMES:
            getattr(trace, name)[:] = table[name].to_numpy()
        return trace


def _filled(times_ms: FloatArray) -> FloatArray:
    missing = np.isnan(times_ms)
    if missing.all() or not missing.any():
        return times_ms
    return np.where(missing, times_ms[~missing].mean(), times_ms)
