"""One set of replicates of a cell: each takes one draw of the times and one of the batches, for all methods."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tempora_tta.analysis.doubt.blocks import Blocks, FloatArray, choose_blocks
from tempora_tta.analysis.doubt.judgement import Replicates

REPLICATES = 2000
DRAWS = 40
"""Draws of the times: scoring again takes long, so each serves several draws of the batches."""


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
    timed: (draws, methods), the utilities under drawn times; None where times are exact.
    phases: (batches, methods), whether a batch was skipped, adapted to or frozen. Times and budgets decided that, not
    chance: only what varies within a phase is drawn again.
    stream: the name of the batches; cells of one stream take the same draws.
    """
    utility = worth.mean(axis=0)
    if phases is None:
        phases = np.zeros(worth.shape, dtype=np.int8)
    left = _within(worth, phases)
    draws = utility[None] if timed is None else timed
    if replicates % len(draws):
        raise ValueError(f"{replicates} replicates cannot be shared by {len(draws)} draws of the times")
    columns = [left[:, [place]] for place in range(len(methods))]
    alone = [(choose_blocks(column, segments), column) for column in columns]
    return Replicates(
        tuple(methods),
        utility,
        _sampled(left, choose_blocks(_series(left, int(np.argmax(utility))), segments), stream, replicates),
        draws - utility,
        np.array([(blocks.sums(column) ** 2).sum() for blocks, column in alone]),
        np.array([blocks.freedom for blocks, _ in alone]),
        len(worth),
    )


def _sampled(left: FloatArray, blocks: Blocks, stream: str, replicates: int) -> FloatArray:
    """Differences that other batches would make to the means: Student's t with the covariance of the blocks."""
    methods = left.shape[1]
    if blocks.freedom < 1:
        return np.full((replicates, methods), np.nan)
    generator = np.random.default_rng(zlib.crc32(stream.encode()))
    # A root taken of the sums keeps equal methods equal to the digit; one of their covariance does not.
    root = np.linalg.qr(blocks.sums(left), mode="r")
    normal = generator.standard_normal((replicates, methods))[:, : len(root)]
    spread = generator.chisquare(blocks.freedom, (replicates, 1)) / blocks.freedom
    return np.asarray(normal @ root / np.sqrt(spread))


def _within(worth: FloatArray, phases: NDArray[np.int8]) -> FloatArray:
    """What each batch added beyond the mean of its method in its phase: (batches, methods)."""
    left = np.array(worth)
    for phase in np.unique(phases):
        inside = phases == phase
        means = np.where(inside, worth, 0.0).sum(axis=0) / np.maximum(1, inside.sum(axis=0))
        left -= np.where(inside, means, 0.0)
    return left


def _series(left: FloatArray, best: int) -> FloatArray:
    """What is judged, batch by batch: every method, and the lead of the best over the others."""
    return np.concatenate([left, left[:, [best]] - np.delete(left, best, axis=1)], axis=1)
