"""A trace: what one pass over a stream left behind, one entry per batch of the stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tempora_tta.scenarios import Course, Offline, Resolved, Score, replay
from tempora_tta.store.schema import TRACE, arrow_schema

FloatArray = NDArray[np.float64]
BINS = 15
"""Of confidence, of equal width: those of the expected calibration error."""
PHASES = np.array(["", "adapt", "frozen", "fallback"])
SKIPPED, ADAPTED, FROZEN, FALLBACK = 0, 1, 2, 3
TIMES = [name for name in TRACE if name.endswith("_ms")]
_OF_THE_PASS = (
    *("correct", "right", "predicted", "action", "mode", "amount"),
    *("confidence", "calibration", "residual"),
)
"""What a batch brings along from the pass that it is taken from."""


@dataclass(frozen=True)
class Trace:
    """Arrays by batch index. Times that were not measured are NaN, predictions that were not made are -1."""

    phase: NDArray[np.int8]
    """SKIPPED, ADAPTED, FROZEN or FALLBACK (lost by the pipeline, answered by the fallback)."""
    correct: NDArray[np.int32] | FloatArray
    total: NDArray[np.int32]
    right: NDArray[np.int8]
    """(batches, batch size): 1 where a sample was predicted right, 0 where not, -1 where it was not predicted."""
    predicted: NDArray[np.int32]
    """(batches, batch size); (batches, 0) where they were not read."""
    predict_ms: FloatArray
    adapt_ms: FloatArray
    action: NDArray[np.str_]
    stepped: NDArray[np.int8]
    """1 where the method learned from the batch, 0 where it did not, -1 where not known."""
    mode: NDArray[np.str_]
    amount: FloatArray
    """NaN where time follows none."""
    confidence: FloatArray
    """Mean probability given to the predicted class; NaN where not known."""
    calibration: FloatArray
    """(batches, BINS): by bin of confidence, confidence less accuracy as sums; NaN where not known."""
    residual: FloatArray
    """The device's own factor on the times of this batch; NaN where they hold it already."""
    attempt_predict_ms: FloatArray
    attempt_adapt_ms: FloatArray
    """-1 where not counted."""
    arrived_ms: FloatArray
    start_ms: FloatArray
    emission_ms: FloatArray
    finish_ms: FloatArray

    @classmethod
    def empty(cls, num_batches: int, batch_size: int, predictions: bool = True) -> Trace:
        """A trace in which nothing has been served yet; without `predictions` it has no room for these."""
        times = {name: np.full(num_batches, np.nan) for name in TIMES}
        return cls(
            phase=np.full(num_batches, SKIPPED, np.int8),
            correct=np.zeros(num_batches, np.int32),
            total=np.full(num_batches, batch_size, np.int32),
            right=np.full((num_batches, batch_size), -1, np.int8),
            predicted=np.full((num_batches, batch_size if predictions else 0), -1, np.int32),
            action=np.full(num_batches, "", dtype="<U64"),
            stepped=np.full(num_batches, -1, np.int8),
            mode=np.full(num_batches, "", dtype="<U64"),
            amount=np.full(num_batches, np.nan),
            confidence=np.full(num_batches, np.nan),
            calibration=np.full((num_batches, BINS), np.nan),
            residual=np.full(num_batches, np.nan),
            **times,
        )

    @property
    def num_batches(self) -> int:
        return len(self.phase)

    @property
    def nbytes(self) -> int:
        """Memory that the rows take."""
        return sum(int(rows.nbytes) for rows in vars(self).values())

    @property
    def served(self) -> NDArray[np.bool_]:
        return np.not_equal(self.phase, SKIPPED)

    @property
    def accuracy(self) -> FloatArray:
        """Per batch; 0 where not served."""
        return self.correct / self.total

    @property
    def batch_size(self) -> int:
        """Samples of a batch."""
        return int(self.right.shape[1])

    def right_in(self, resolved: Resolved) -> FloatArray:
        """Return how right the batches are, as a deployment counts them: (batches, frames), or (batches, 1) where
        they are given as such. A batch of which only the accuracy is known has it in every frame."""
        accuracy = self.accuracy
        if resolved.guesses:  # guessed at random: what is expected counts
            accuracy = np.where(self.phase == FALLBACK, resolved.chance, accuracy)
        if not resolved.counts_frames:
            return accuracy[:, None]
        return np.where(self.right < 0, accuracy[:, None], self.right)

    @property
    def service_ms(self) -> FloatArray:
        return self.predict_ms + self.adapt_ms

    def on_timeline(
        self, resolved: Resolved, frozen: Trace | None = None, fallback: Trace | None = None
    ) -> Trace:
        """This pass as `resolved` would have seen it: replayed on its timeline, with the batches that were frozen, or
        lost and answered by the fallback, taken from other passes where they were made there.

        Exact whenever the same batches meet the same model states: the caller knows when that is so.
        """
        course = self.course(resolved, frozen, fallback)
        if resolved.guesses:
            fallback = self._guessed()
        placed = self._placed(course, frozen or self, fallback or self)
        placed.arrived_ms[:] = arrivals(resolved, placed.arrived_ms)
        if resolved.residuals and self.steady:
            placed._take_steady_times(self, frozen or self, fallback or self)
        return placed

    def _guessed(self) -> Trace:
        """Every batch answered by no model, in no time."""
        guessed = Trace.empty(self.num_batches, self.batch_size, self.predicted.size > 0)
        guessed.predict_ms[:] = guessed.adapt_ms[:] = 0.0
        guessed.residual[:] = self.residual
        return guessed

    def _take_steady_times(self, adapting: Trace, frozen: Trace, fallback: Trace) -> None:
        """The device's own variation is in when batches start and end; their own times stay apart from it."""
        for phase, source in ((ADAPTED, adapting), (FROZEN, frozen), (FALLBACK, fallback)):
            rows = (self.phase == phase) & ~np.isnan(self.predict_ms)
            self.predict_ms[rows] = source.predict_ms[rows]
            self.adapt_ms[rows] = source.adapt_ms[rows] if phase == ADAPTED else 0.0

    def course(
        self, resolved: Resolved, frozen: Trace | None = None, fallback: Trace | None = None
    ) -> Course:
        """The course of this pass on a deployment's timeline.

        A live pass replays to its own course: the batch undone by `strict` has its attempt's times here, so
        that it overruns the budget again.
        """
        own = self.on_device(resolved)
        frozen_ms = (own if frozen is None else frozen.on_device(resolved)).predict_ms
        undone = ~np.isnan(own.attempt_predict_ms)
        return replay(
            resolved.timeline(),
            np.where(undone, own.attempt_predict_ms, own.predict_ms),
            np.where(undone, own.attempt_adapt_ms, own.adapt_ms),
            None if resolved.untimed_tail and not self.steady else frozen_ms,
            adapted=(self.phase == ADAPTED) | undone,
            fallback_ms=np.zeros(self.num_batches)
            if resolved.guesses
            else (own if fallback is None else fallback.on_device(resolved)).predict_ms,
        )

    def offline_course(self) -> Course:
        """The course of an offline pass: every batch in its order, as `route` wants to know it."""
        return self.course(Offline().resolve(num_batches=self.num_batches))

    @property
    def steady(self) -> bool:
        """Times were looked up, and the device's own variation stands apart from them."""
        return not bool(np.isnan(self.residual).all())

    def on_device(self, resolved: Resolved) -> Trace:
        """With the device's own variation in its times, where the deployment asks for that and it is known apart."""
        if not resolved.residuals or not self.steady:
            return self
        factor = np.nan_to_num(self.residual, nan=1.0)
        times = ("predict_ms", "adapt_ms", "attempt_predict_ms", "attempt_adapt_ms")
        return replace(self, **{name: getattr(self, name) * factor for name in times})

    def _placed(self, course: Course, frozen: Trace, fallback: Trace) -> Trace:
        """The served batches of a course: adapted ones from this trace, the others from `frozen` and `fallback`."""
        placed = Trace.empty(self.num_batches, self.batch_size, self.predicted.size > 0)
        placed.total[:] = self.total
        for chosen, phase, source in (
            (course.adapted, ADAPTED, self),
            (~course.adapted & ~course.fallback, FROZEN, frozen),
            (course.fallback, FALLBACK, fallback),
        ):
            batches = course.served[chosen]
            placed.phase[batches] = phase
            for name in _OF_THE_PASS:
                getattr(placed, name)[batches] = getattr(source, name)[batches]
            placed.stepped[batches] = source.stepped[batches] if phase == ADAPTED else 0
        timed = ~np.isnan(course.predict_ms)
        for name in ("arrived_ms", "start_ms", "emission_ms", "finish_ms", "predict_ms", "adapt_ms"):
            getattr(placed, name)[course.served[timed]] = getattr(course, name)[timed]
        return placed

    def score(self, resolved: Resolved, frozen: Trace | None = None, fallback: Trace | None = None) -> Score:
        """The utility of `on_timeline(resolved, frozen, fallback)`."""
        return resolved.score(*self.served_course(resolved, frozen, fallback))

    def served_course(
        self, resolved: Resolved, frozen: Trace | None = None, fallback: Trace | None = None
    ) -> tuple[Course, FloatArray]:
        """The course on a deployment's timeline, and how right each batch is that it serves (`right_in`)."""
        course = self.course(resolved, frozen, fallback)
        adapting, tail, rescued = (
            (self if one is None else one).right_in(resolved)[course.served]
            for one in (None, frozen, fallback)
        )
        adapted, by_fallback = course.adapted[:, None], course.fallback[:, None]
        answered = resolved.chance if resolved.guesses else rescued
        return course, np.where(adapted, adapting, np.where(by_fallback, answered, tail))

    def stepped_fraction(self, course: Course, among: NDArray[np.bool_] | None = None) -> float | None:
        """The share of a course's served batches (or of some `among` them) that its adapting pass learned from."""
        chosen = np.ones(course.served.size, bool) if among is None else among
        stepped = self.stepped[course.served[chosen & course.adapted]]
        if not chosen.any() or (stepped < 0).any():
            return None
        return float(np.count_nonzero(stepped)) / int(chosen.sum())

    def ece(self, course: Course, frozen: Trace | None = None, fallback: Trace | None = None) -> float | None:
        """The expected calibration error over the batches that a course serves; None where it is not known."""
        tail = ~course.adapted & ~course.fallback
        if fallback is None and (self.phase[course.served[course.fallback]] != FALLBACK).any():
            return None  # guessed at random, by no model
        parts = ((course.adapted, self), (course.fallback, fallback or self), (tail, frozen or self))
        rows = [source.calibration[course.served[chosen]] for chosen, source in parts]
        return expected_error(np.concatenate(rows), int(self.total[course.served].sum()))

    def response_ms(self, resolved: Resolved) -> FloatArray:
        """From arrival to emission, of each batch of a trace that is placed on the timeline of `resolved` already;
        NaN where it was not answered, or not timed."""
        if resolved.waits:
            # What a batch waited is how long the one before was adapted on: not to be had from sums of times
            # without rounding, which a deadline would notice.
            course = self.course(resolved)
            response_ms = np.full(self.num_batches, np.nan)
            response_ms[course.served] = course.response_ms
            return response_ms
        return (self.start_ms - self.arrived_ms) + self.on_device(resolved).predict_ms

    def worth(self, resolved: Resolved) -> FloatArray:
        """Return what each batch added to the utility of a trace that is on the timeline of `resolved` already."""
        worth = resolved.value.worth(self.right_in(resolved), self.response_ms(resolved))
        return np.where(self.served, worth, 0.0)

    def utility(self, resolved: Resolved) -> float:
        """The utility of a trace that is placed on the timeline of `resolved` already."""
        return float(self.worth(resolved)[self.served].sum()) / self.num_batches

    def scaled(self, predict_x: float | FloatArray, adapt_x: float | FloatArray) -> Trace:
        """Return the same pass on a slower or faster machine, by batch or throughout."""
        return replace(
            self,
            predict_ms=self.predict_ms * predict_x,
            adapt_ms=self.adapt_ms * adapt_x,
            attempt_predict_ms=self.attempt_predict_ms * predict_x,
            attempt_adapt_ms=self.attempt_adapt_ms * adapt_x,
        )

    def filled(self) -> Trace:
        """With something to go by for batches that another pace might reach.

        Those that the pipeline lost get the mean of those that it served: an estimate for intervals, never for a
        utility itself.
        """
        by_pipeline = self.served & (self.phase != FALLBACK)
        return replace(
            self,
            predict_ms=_filled(np.where(by_pipeline, self.predict_ms, np.nan)),
            adapt_ms=_filled(np.where(by_pipeline, self.adapt_ms, np.nan)),
            correct=_filled(np.where(by_pipeline, self.correct, np.nan)),
            right=np.where(by_pipeline[:, None], self.right, np.int8(-1)),
            phase=np.where(by_pipeline, self.phase, ADAPTED).astype(np.int8),
        )

    def to_table(self) -> pa.Table:
        """The rows as they are stored."""
        served = self.served
        known = served & (self.predicted >= 0).any(axis=1)  # none where a pass was read without them
        columns: dict[str, pa.Array] = {
            "index": pa.array(np.arange(self.num_batches, dtype=np.int32)),
            "served": pa.array(served),
            "phase": pa.array(PHASES[self.phase], mask=~served),
            "correct": pa.array(self.correct),
            "total": pa.array(self.total),
            "right": _lists(np.equal(self.right, 1), served & (self.right >= 0).any(axis=1)),
            "predicted": _lists(self.predicted, known),
            "action": pa.array(self.action, mask=~served),
            "stepped": pa.array(self.stepped == 1, mask=~served | (self.stepped < 0)),
            "mode": pa.array(self.mode, mask=~served),
            "amount": pa.array(self.amount, from_pandas=True),
            "confidence": pa.array(self.confidence, from_pandas=True),
            "calibration": _lists(self.calibration, ~np.isnan(self.calibration[:, 0])),
            "residual": pa.array(self.residual, from_pandas=True),
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
        trace = cls.empty(len(total), int(total[0]), "predicted" in table.column_names)
        trace.total[:] = total
        trace.phase[:] = pc.index_in(pc.fill_null(table["phase"], ""), pa.array(PHASES)).to_numpy()
        trace.correct[:] = table["correct"].to_numpy()
        for name in ("right", "predicted", "calibration"):
            if name in table.column_names:
                _take_lists(getattr(trace, name), table[name])
        for name in ("action", "mode"):
            words = pc.fill_null(table[name], "").combine_chunks().dictionary_encode()
            known_words = np.array(words.dictionary.to_pylist(), trace.action.dtype)
            getattr(trace, name)[:] = known_words[words.indices.to_numpy()]
        trace.stepped[:] = pc.fill_null(table["stepped"].cast(pa.int8()), -1).to_numpy()
        for name in (*TIMES, "amount", "confidence", "residual"):
            getattr(trace, name)[:] = table[name].to_numpy()
        return trace


def _lists(values: NDArray[Any], known: NDArray[np.bool_]) -> pa.Array:
    """Rows as lists, empty where they are not known."""
    lengths = np.where(known, values.shape[1], 0)
    return pa.ListArray.from_arrays(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), values[known].ravel()
    )


def _take_lists(rows: NDArray[Any], column: pa.ChunkedArray) -> None:
    lists = column.combine_chunks()
    known = pc.fill_null(lists.value_lengths(), 0).to_numpy() > 0
    rows[known] = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, rows.shape[1])


def arrivals(resolved: Resolved, otherwise: FloatArray) -> FloatArray:
    """Return when each batch arrived, served or not; only a schedule knows that of those it lost."""
    return otherwise if resolved.arrivals_ms is None else np.array(resolved.arrivals_ms)


def _filled(values: FloatArray) -> FloatArray:
    """With the mean of the others where there is none."""
    missing = np.isnan(values)
    if missing.all() or not missing.any():
        return values
    return np.where(missing, values[~missing].mean(), values)


def gaps(confidence: FloatArray, right: NDArray[np.bool_]) -> FloatArray:
    """By bin, confidence less accuracy of a batch, as sums.

    >>> gaps(np.array([0.9, 0.9, 0.4]), np.array([True, False, True])).round(2).tolist()[5:7]
    [0.0, -0.6]
    """
    places = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    return np.bincount(places, confidence - right, minlength=BINS).astype(np.float64)


def expected_error(calibration: FloatArray, samples: int) -> float | None:
    """Return the error over batches, (batches, BINS), that hold `samples` samples; None where it is not known."""
    if samples == 0 or np.isnan(calibration).any():
        return None
    return float(np.abs(calibration.sum(axis=0)).sum()) / samples
