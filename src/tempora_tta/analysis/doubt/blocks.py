"""Blocks of batches: how far a stream's mean may be off because the stream is a sample.

Neighbouring batches are alike (a camera's frames, a method that learns), so the variance of a mean comes from sums of
blocks, not of single batches: circular blocks, as many as fill the stream, within each segment, the same for all
methods. It is the variance that a bootstrap of such blocks converges to, in closed form.

The length of a block follows from the autocorrelation that the stream shows: Andrews' (1991) AR(1) rule for a
Bartlett window, whose variance these blocks have, but nearly twice as long, for a smaller bias. The variance that
blocks of this length still miss of an AR(1) series is known, and added. Few blocks say little about their own spread:
Student's t, with one degree of freedom less than blocks, widens the intervals.
`python benchmarks/interval_coverage.py` shows how often they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

CONFIDENCE = 0.95
_GROWTH = 2.0
"""Times (alpha n)^(1/3). Andrews' 1.14 has the least error of the variance; coverage wants longer blocks."""
_MIN_BLOCKS = 4
_MAX_CORRELATION = 0.97
_MOST_MISSED = 0.5


@dataclass(frozen=True)
class Blocks:
    """Cut of a stream: its segments, one after the other, and the length of a block in each."""

    segments: tuple[int, ...]
    """Batches per segment; they add up to the stream."""
    lengths: tuple[int, ...]
    missed: float = 0.0
    """The share of the mean's variance that blocks of these lengths do not see, because they end."""

    @property
    def batches(self) -> int:
        return sum(self.segments)

    @property
    def freedom(self) -> float:
        """Degrees of freedom that the blocks leave for their own spread: their number, less one per segment."""
        return self._count - len(self.segments)

    @property
    def _count(self) -> float:
        return sum(count / length for count, length in zip(self.segments, self.lengths, strict=True))

    def sums(self, worth: FloatArray) -> FloatArray:
        """Sums of blocks of `worth` (batches, columns), scaled so that `sums.T @ sums` is the covariance of the
        columns' means: (rows, columns). NaN where there are too few blocks to say."""
        if self.freedom < 1:
            return np.full(worth.shape, np.nan)
        parts = []
        first = 0
        for count, length in zip(self.segments, self.lengths, strict=True):
            segment = worth[first : first + count] - worth[first : first + count].mean(axis=0)
            whole, rest = divmod(count, length)
            parts.append(np.sqrt(whole / count) * _block_sums(segment, length))
            if rest:
                parts.append(np.sqrt(1 / count) * _block_sums(segment, rest))
            first += count
        scale = np.sqrt(self._count / self.freedom / (1 - self.missed)) / self.batches
        return np.asarray(scale * np.concatenate(parts))


def choose_blocks(worth: FloatArray, segments: Sequence[int] | None = None) -> Blocks:
    """Blocks for a stream whose batches added `worth` (batches, series) to what is to be judged.

    Series are put on one scale, so that the most correlated ones decide, however small they are. Segments too
    short to be cut are taken together.
    """
    counts = [len(worth)] if segments is None or min(segments) < _MIN_BLOCKS else list(segments)
    alpha, beyond = _dependence(worth, counts)
    lengths = [max(1, min(round(_GROWTH * (alpha * n) ** (1 / 3)), n // _MIN_BLOCKS)) for n in counts]
    missed = sum(n * beyond / length for n, length in zip(counts, lengths, strict=True)) / len(worth)
    return Blocks(tuple(counts), tuple(lengths), min(missed, _MOST_MISSED))


def _dependence(worth: FloatArray, segments: Sequence[int]) -> tuple[float, float]:
    """Return Andrews' alpha(1) of several AR(1) series of variance 1, and what blocks miss times their length.

    Both are 0 where nothing varies.
    """
    starts = np.concatenate([[0], np.cumsum(segments)[:-1]])
    means = np.add.reduceat(worth, starts, axis=0) / np.asarray(segments)[:, None]
    centred = worth - np.repeat(means, segments, axis=0)
    inside = np.ones(len(worth) - 1, dtype=bool)
    inside[starts[1:] - 1] = False
    variance = (centred**2).sum(axis=0)
    varying = variance > 1e-18 * len(worth)
    if not varying.any() or not inside.any():
        return 0.0, 0.0
    centred, variance = centred[:, varying], variance[varying]
    found = (centred[1:] * centred[:-1])[inside].sum(axis=0) / variance
    # A centred series looks less correlated than it is, by about this much.
    found = found + len(segments) * (1 + 3 * found) / len(worth)
    rho = np.clip(found, -_MAX_CORRELATION, _MAX_CORRELATION)
    weight = 1 / (1 - rho) ** 4
    ratio = 2 * rho / (1 - rho**2)
    alpha = float((weight * ratio**2).sum() / weight.sum())
    return alpha, max(0.0, float((weight * ratio).sum() / weight.sum()))


def _block_sums(worth: FloatArray, length: int) -> FloatArray:
    """Return the sum of the `length` batches from each one on."""
    around = np.concatenate([np.zeros_like(worth[:1]), worth, worth[: length - 1]])
    sums = np.cumsum(around, axis=0)
    found: FloatArray = sums[length:] - sums[:-length]
    return found
