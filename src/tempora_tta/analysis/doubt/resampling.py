"""One set of replicates of a cell: each takes one draw of the times and one draw of the blocks, for all methods."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tempora_tta.analysis.doubt.blocks import FloatArray, choose_blocks
from tempora_tta.analysis.doubt.judgement import Replicates

REPLICATES = 2000
DRAWS = 40
"""Draws of the times: rescoring is what takes long, so that each serves several draws of blocks."""


def replicate(
    methods: Sequence[str],
    worth: FloatArray,
    timed: FloatArray | None = None,
    *,
    phases: NDArray[np.int8] | None = None,
    segments: Sequence[int] | None = None,
    stream: str = "",
    replicates: int = REPLICATES,
) -> Replicates:
    """Replicates of one cell from what each batch added to each method's utility.

    worth: (batches, methods) as it was found.
    timed: (draws, batches, methods), the same under drawn times; None where times are exact.
    phases: (batches, methods), whether a batch was skipped, adapted to or frozen. Times and budgets decided that, not
    chance: only what varies within a phase is drawn again.
    stream: whatever names the batches; cells of one stream draw the same blocks.
    """
    utility = worth.mean(axis=0)
    if phases is None:
        phases = np.zeros(worth.shape, dtype=np.int8)
    found = _within(worth[None], phases)[0]
    blocks = choose_blocks(_series(found, int(np.argmax(utility))), segments)
    draws = worth[None] if timed is None else timed
    generator = np.random.default_rng(zlib.crc32(stream.encode()))
    sampled = np.empty((replicates, len(methods)))
    each = replicates // len(draws)
    if each * len(draws) != replicates:
        raise ValueError(f"{replicates} replicates cannot be shared by {len(draws)} draws of the times")
    for place, left in enumerate(_within(draws, phases)):
        sampled[place * each : (place + 1) * each] = blocks.deviations(left, each, generator)
    return Replicates(
        tuple(methods),
        utility,
        sampled,
        draws.mean(axis=1) - utility,
        *_alone(found, segments),
        len(worth),
    )


def _alone(left: FloatArray, segments: Sequence[int] | None) -> tuple[FloatArray, FloatArray]:
    """The variance of each method's mean and its degrees of freedom, from blocks that fit its own series."""
    columns = [left[:, [place]] for place in range(left.shape[1])]
    blocks = [choose_blocks(column, segments) for column in columns]
    variance = [own.variance(column)[0] for own, column in zip(blocks, columns, strict=True)]
    return np.array(variance), np.array([own.freedom for own in blocks])


def _within(draws: FloatArray, phases: NDArray[np.int8]) -> FloatArray:
    """What each batch added beyond the mean of its method in its phase: (draws, batches, methods)."""
    left = np.array(draws)
    for phase in np.unique(phases):
        inside = phases == phase
        if inside.all():
            left -= draws.sum(axis=1, keepdims=True) / len(phases)
            break
        means = np.where(inside, draws, 0.0).sum(axis=1, keepdims=True) / np.maximum(1, inside.sum(axis=0))
        left -= np.where(inside, means, 0.0)
    return left


def _series(left: FloatArray, best: int) -> FloatArray:
    """What is judged, batch by batch: every method, and the lead of the best over the others."""
    return np.concatenate([left, left[:, [best]] - np.delete(left, best, axis=1)], axis=1)
