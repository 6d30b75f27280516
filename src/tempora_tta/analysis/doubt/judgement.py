"""Replicates of a cell, and the verdict on its winner: it holds, is equal with others or is undecided, and why.

A replicate takes one draw of the times and one of the batches, for all methods.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from tempora_tta.analysis.doubt.blocks import CONFIDENCE, Blocks, FloatArray, choose_blocks
from tempora_tta.store.verdicts import EQUAL, HOLDS, UNDECIDED

TIMING, SAMPLING = "timing", "sampling"
EQUAL_WITHIN = 0.005
"""Half a point: methods that are surely closer than this leave nothing to choose."""
NOTHING = 1e-12
"""Utilities that differ by less differ by rounding."""
REPLICATES = 2000
DRAWS = 40
"""Draws of the times: scoring again takes long, so each serves several draws of the batches."""


@dataclass(frozen=True)
class Replicates:
    """The utilities of the methods of one cell, and how they might have come out.

    A replicate's utility is `utility + sampled + timed`. Replicates come in groups, one per draw of the times, so
    that `timed` has a row for each group.
    """

    methods: tuple[str, ...]
    utility: FloatArray
    """(methods,)"""
    sampled: FloatArray
    """(replicates, methods): what other batches would change. NaN where the stream is too short to say."""
    timed: FloatArray
    """(draws, methods): what other times would change; one row of zeros where times are exact."""
    variance: FloatArray
    """(methods,): of each utility over other batches, from its own batches alone: the same series has the same
    interval, the same in every comparison. Leads are judged from `sampled`, in pairs. NaN where that is."""
    freedom: FloatArray
    """(methods,): degrees of freedom of `variance`."""
    batches: int = 1
    """The weight of the cell among others."""

    @cached_property
    def timing(self) -> FloatArray:
        """`timed` for every replicate."""
        return np.repeat(self.timed, len(self.sampled) // len(self.timed), axis=0)

    @cached_property
    def utilities(self) -> FloatArray:
        """(replicates, methods)"""
        return np.round(self.utility + self.sampled + self.timing, 12)

    def of(self, methods: Sequence[str]) -> Replicates:
        """Some of the methods."""
        if tuple(methods) == self.methods:
            return self
        places = [self.methods.index(method) for method in methods]
        return Replicates(
            tuple(methods),
            self.utility[places],
            self.sampled[:, places],
            self.timed[:, places],
            self.variance[places],
            self.freedom[places],
            self.batches,
        )

    @cached_property
    def sample_interval(self) -> tuple[FloatArray, FloatArray]:
        """95 % interval of each utility, as far as its batches decide it."""
        half = np.where(self.variance > 0, stdtrit(self.freedom, (1 + CONFIDENCE) / 2), 0.0)
        half = half * np.sqrt(self.variance)
        return np.clip(self.utility - half, 0.0, 1.0), np.clip(self.utility + half, 0.0, 1.0)

    def interval_of(self, method: str) -> tuple[float, float]:
        """Return one method's interval, over batches and times together; NaN where the stream is too short to say."""
        place = self.methods.index(method)
        tails = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
        lo, hi = np.quantile(self.sampled[:, place] + self.timing[:, place], tails)
        found = float(self.utility[place])
        return float(np.clip(found + min(lo, 0.0), 0.0, 1.0)), float(np.clip(found + max(hi, 0.0), 0.0, 1.0))


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
    """Return the replicates of one cell from what each batch added to each method's utility.

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
    """Return what each batch added beyond the mean of its method in its phase: (batches, methods)."""
    left = np.array(worth)
    for phase in np.unique(phases):
        inside = phases == phase
        means = np.where(inside, worth, 0.0).sum(axis=0) / np.maximum(1, inside.sum(axis=0))
        left -= np.where(inside, means, 0.0)
    return left


def _series(left: FloatArray, best: int) -> FloatArray:
    """Return what is judged, batch by batch: every method, and the lead of the best over the others."""
    return np.concatenate([left, left[:, [best]] - np.delete(left, best, axis=1)], axis=1)


def pooled(cells: Sequence[Replicates]) -> Replicates:
    """Return the mean of cells by their batches, as tables pool them, of the methods that all of them have.

    A draw of the times is one draw for all cells; batches are drawn in each for itself.
    """
    common = [method for method in cells[0].methods if all(method in cell.methods for cell in cells)]
    same = [cell.of(common) for cell in cells]
    if len(same) == 1:
        return same[0]
    weights = np.array([cell.batches for cell in same], dtype=np.float64)
    weights /= weights.sum()
    draws = max(len(cell.timed) for cell in same)
    timed = [np.broadcast_to(cell.timed, (draws, len(common))) for cell in same]
    return Replicates(
        tuple(common),
        _mean([cell.utility for cell in same], weights),
        _mean([cell.sampled for cell in same], weights),
        _mean(timed, weights),
        *_pooled_variance(same, weights),
        sum(cell.batches for cell in same),
    )


def _pooled_variance(cells: Sequence[Replicates], weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the variance of a mean of independent cells, and Welch and Satterthwaite's degrees of freedom."""
    parts = np.stack([weight**2 * cell.variance for cell, weight in zip(cells, weights, strict=True)])
    freedom = np.stack([cell.freedom for cell in cells])
    total = parts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        together = total**2 / (parts**2 / freedom).sum(axis=0)
    return total, np.where(total > 0, together, freedom.sum(axis=0))


def _mean(parts: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    total = np.zeros_like(parts[0])
    for part, weight in zip(parts, weights, strict=True):
        total = total + weight * part
    return total


@dataclass(frozen=True)
class Leads:
    """Leads of one method over the others, with bounds that hold for all of them together at 95 %."""

    rivals: tuple[str, ...]
    lead: FloatArray
    lower: FloatArray
    """One-sided: all leads are above these."""
    lo: FloatArray
    """Two-sided: all leads are between these and `hi`."""
    hi: FloatArray
    by_timing: NDArray[np.bool_]
    """True where times contribute more than batches to what is not known about a lead."""


def leads(cell: Replicates, of: int) -> Leads:
    """Return the leads of the method at place `of` over all others.

    Bounds are the lead minus (plus) a number of its own standard errors, the same for all rivals: the one
    which 95 % of the replicates respect for every rival at once.
    """
    others = [place for place in range(len(cell.methods)) if place != of]
    lead = cell.utility[of] - cell.utility[others]
    sampled = cell.sampled[:, [of]] - cell.sampled[:, others]
    timing = cell.timing[:, [of]] - cell.timing[:, others]
    fallen = -(sampled + timing)
    error = np.sqrt((fallen**2).mean(axis=0))
    error = np.where(error < NOTHING, 0.0, error)
    in_errors = np.divide(fallen, error, out=np.zeros_like(fallen), where=~(error == 0))
    below = _simultaneous(in_errors)
    around = _simultaneous(np.abs(in_errors))
    return Leads(
        tuple(cell.methods[place] for place in others),
        lead,
        lead - below * error,
        lead - around * error,
        lead + around * error,
        (timing**2).mean(axis=0) > (sampled**2).mean(axis=0),
    )


def _simultaneous(in_errors: FloatArray) -> float:
    if not in_errors.shape[1]:
        return 0.0
    return float(np.quantile(in_errors.max(axis=1), CONFIDENCE))


@dataclass(frozen=True)
class Judgement:
    """Winner of a cell, and certainty of the win."""

    method: str
    """The method with the highest utility; of several, the first."""
    utility: float
    verdict: str
    """`holds`: ahead of every rival. `equal`: ahead of all but those in `equal_with`, within half a point of these.
    `undecided`: neither can be said."""
    why: str
    """`timing` or `sampling` where undecided, whichever leaves more open; empty elsewhere."""
    equal_with: tuple[str, ...]
    rivals: tuple[str, ...]
    """Methods that might be better: where undecided, the rivals whose lead over it cannot be excluded."""
    p_best: dict[str, float]
    """The share of replicates in which no other method is better. Equal methods are both best."""
    rank_lo: dict[str, int]
    rank_hi: dict[str, int]
    """The 95 % interval of each method's rank."""


def judge(cell: Replicates) -> Judgement:
    """Return the winner of a cell and the verdict on it."""
    winner = int(np.argmax(np.round(cell.utility, 12)))
    found = leads(cell, winner)
    same = np.abs(found.lead) < NOTHING
    near = same | ((found.lo >= -EQUAL_WITHIN) & (found.hi <= EQUAL_WITHIN))
    ahead = (found.lower > 0) & ~same
    if ahead.all():
        verdict = HOLDS
    elif (ahead | near).all():
        verdict = EQUAL
    else:
        verdict = UNDECIDED
    open_ = ~(ahead | near)
    why = ""
    if verdict == UNDECIDED:
        closest = int(np.argmin(np.where(open_, np.nan_to_num(found.lower, nan=-np.inf), np.inf)))
        why = TIMING if found.by_timing[closest] else SAMPLING
    rank_lo, rank_hi = _ranks(cell)
    return Judgement(
        method=cell.methods[winner],
        utility=float(cell.utility[winner]),
        verdict=verdict,
        why=why,
        equal_with=_named(found, near & ~ahead) if verdict == EQUAL else (),
        rivals=_named(found, open_) if verdict == UNDECIDED else (),
        p_best=dict(zip(cell.methods, _probability_best(cell).tolist(), strict=True)),
        rank_lo=dict(zip(cell.methods, rank_lo.tolist(), strict=True)),
        rank_hi=dict(zip(cell.methods, rank_hi.tolist(), strict=True)),
    )


def _named(found: Leads, which: NDArray[np.bool_]) -> tuple[str, ...]:
    """Rivals, the nearest first."""
    return tuple(found.rivals[place] for place in np.argsort(found.lead, kind="stable") if which[place])


def _probability_best(cell: Replicates) -> FloatArray:
    if np.isnan(cell.sampled).any():
        return np.full(len(cell.methods), np.nan)
    best = cell.utilities.max(axis=1, keepdims=True)
    shares: FloatArray = (cell.utilities >= best).mean(axis=0)
    return shares


def _ranks(cell: Replicates) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Between which ranks each method is in 95 % of the replicates, its rank as found included."""
    found = _rank(cell.utility[None])[0]
    if np.isnan(cell.sampled).any():
        return np.ones_like(found), np.full_like(found, len(found))
    tails = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    lo, hi = np.quantile(_rank(cell.utilities), tails, axis=0, method="nearest")
    return np.minimum(lo, found), np.maximum(hi, found)


def _rank(utilities: FloatArray) -> NDArray[np.int64]:
    """Ranks along each row; ties share the better one."""
    higher = utilities[:, None, :] > utilities[:, :, None]
    ranks: NDArray[np.int64] = 1 + higher.sum(axis=2)
    return ranks
