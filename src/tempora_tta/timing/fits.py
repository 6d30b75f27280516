"""From timed samples to steady times: one constant or one line per kind of work, and what is left over.

A round goes through all kinds of work, and standard inference between them. Every time is taken relative to its own
round's standard inference, so that a processor that slows down for a while slows both sides of the ratio.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from tempora_tta.timing.work import Kind, Sample

FloatArray = NDArray[np.float64]

TAIL_SAMPLES = 299
"""From this many on, the largest is above the 99th percentile in 95 of 100 cases: 0.99^299 = 0.05."""
BLOCK = 8
"""Residuals per block: neighbours in time resemble each other."""
FEWEST_ROUNDS = 8
"""Below this many clean rounds there is nothing to choose from."""
LEAST_AMOUNTS = 4
"""Different amounts below which a line is drawn through nothing."""
LEAST_PER_PLACE = 3
"""Samples of the same work below which their middle is no better than one of them."""
LEAST_GAIN = 0.10
"""Share of the spread that a line must explain before time is said to follow the amount."""
_SHORTFALL = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
_MOST_POINTS = 200
"""Pairs of more would be slow to go through, and change nothing."""


@dataclass(frozen=True)
class Fit:
    """Milliseconds of one kind: `ms` at `amount`, and `per_amount_ms` more for each unit above it."""

    ms: float
    per_amount_ms: float = 0.0
    amount: float | None = None
    error: float = 0.0
    """Half of the 95 % interval, as a fraction of `ms`."""
    samples: int = 0

    def at(self, amount: float | None) -> float:
        if amount is None or self.amount is None or self.per_amount_ms == 0:
            return self.ms
        return max(0.0, self.ms + self.per_amount_ms * (amount - self.amount))


def fit(
    times_ms: Sequence[float], amounts: Sequence[float | None], places: Sequence[int] | None = None
) -> Fit:
    """A middle, or a line over the amounts by the median of all slopes, where that explains enough of the spread.

    >>> fit([10.0, 10.1, 9.9, 30.0], [None] * 4).ms
    10.05
    >>> line = fit([12.0, 14.0, 16.0, 18.0, 90.0], [1, 2, 3, 4, 5])
    >>> line.per_amount_ms, line.at(10)
    (2.0, 30.0)

    What one piece of work took now and then differs by chance, wild samples included: the median says what it takes.
    What different pieces of work (`places`) take differs by what they are: their mean says what a stream takes.

    >>> fit([10.0, 10.0, 90.0, 10.0, 10.0, 10.0, 40.0, 40.0, 40.0], [None] * 9, [0, 0, 0, 1, 1, 1, 2, 2, 2]).ms
    20.0
    """
    y = np.asarray(times_ms, dtype=np.float64)
    x = np.array([np.nan if amount is None else amount for amount in amounts], dtype=np.float64)
    known = ~np.isnan(x)
    centre = float(np.median(x[known])) if known.any() else None
    works = _works(places, y.size)
    middle = _middle(y, works)
    constant = Fit(middle, 0.0, centre, _error(y - np.median(y), middle), y.size)
    if centre is None or not known.all() or np.unique(x).size < LEAST_AMOUNTS:
        return constant
    slope = _median_slope(x, y)
    at_centre = _middle(y - slope * (x - centre), works)
    left = y - at_centre - slope * (x - centre)
    if slope <= 0 or _unexplained(left, works) > (1 - LEAST_GAIN) * _unexplained(y, works):
        return constant
    return Fit(at_centre, slope, centre, _error(left, at_centre), y.size)


def _works(places: Sequence[int] | None, count: int) -> list[NDArray[np.intp]]:
    """Group samples by their piece of work; into one group where there are too few of each."""
    at = np.zeros(count) if places is None else np.asarray(places)
    works = [np.flatnonzero(at == place) for place in np.unique(at)]
    return works if min(map(len, works)) >= LEAST_PER_PLACE else [np.arange(count)]


def _medians(values: FloatArray, works: list[NDArray[np.intp]]) -> FloatArray:
    return np.array([np.median(values[own]) for own in works])


def _middle(values: FloatArray, works: list[NDArray[np.intp]]) -> float:
    return float(_medians(values, works).mean())


def _unexplained(values: FloatArray, works: list[NDArray[np.intp]]) -> float:
    """Return the spread of pieces of work without the chance of single samples; of samples, if all are of one."""
    return _spread(_medians(values, works) if len(works) >= LEAST_AMOUNTS else values)


def _median_slope(x: FloatArray, y: FloatArray) -> float:
    """Theil and Sen's: a few wild samples do not turn it."""
    from scipy.stats import theilslopes  # half a second, where no time follows an amount for nothing

    step = max(1, x.size // _MOST_POINTS)
    return float(theilslopes(y[::step], x[::step]).slope)


def _spread(values: FloatArray) -> float:
    """Median distance from the median."""
    return float(np.median(np.abs(values - np.median(values))))


def _error(left: FloatArray, ms: float) -> float:
    """Of a median: 1.253 sigma / sqrt(n), sigma from the median distance, which wild samples do not move.

    Few samples lie closer together than sigma, and sigma is itself not known: both are allowed for.
    """
    if ms <= 0:
        return 0.0
    if left.size < 2:
        return 1.0
    sigma = 1.4826 * _spread(left) * _few_samples(left.size)
    reach = float(stdtrit(left.size - 1, 0.975))
    return float(min(1.0, reach * 1.2533 * sigma / left.size**0.5 / ms))


def _few_samples(count: int) -> float:
    """Return by what factor the median distance of `count` normal samples falls short (Croux and Rousseeuw, 1992)."""
    return _SHORTFALL.get(count, count / (count - 0.8))


def standard_by_round(samples: Iterable[Sample], standard: Kind) -> dict[int, float]:
    """The median of standard inference in each round."""
    found: dict[int, list[float]] = defaultdict(list)
    for sample in samples:
        if sample.kind == standard:
            found[sample.round].append(sample.ms)
    return {number: float(np.median(times)) for number, times in found.items()}


def usable_rounds(clean: Sequence[bool], robust: bool) -> list[int]:
    """The rounds that count: clean ones; all of them where too few are clean and the time is `robust`, which the
    processor time of one thread is."""
    chosen = [number for number, is_clean in enumerate(clean) if is_clean]
    if len(chosen) >= FEWEST_ROUNDS and (not robust or len(chosen) >= len(clean) / 3):
        return chosen
    return chosen if chosen and not robust else list(range(len(clean)))


def relative(samples: Iterable[Sample], by_round: Mapping[int, float], standard_ms: float) -> list[Sample]:
    """The samples as if standard inference had taken `standard_ms` in every round."""
    return [
        sample._replace(ms=sample.ms * standard_ms / by_round[sample.round])
        for sample in samples
        if by_round.get(sample.round)
    ]


def fit_kinds(samples: Iterable[Sample], rounds: Collection[int]) -> dict[Kind, Fit]:
    """A fit for every kind; from the `rounds` given, or from all of its samples if it was met in none of them."""
    by_kind: dict[Kind, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_kind[sample.kind].append(sample)
    chosen = set(rounds)
    fits = {}
    for kind, own in by_kind.items():
        used = [sample for sample in own if sample.round in chosen] or own
        fits[kind] = fit(
            [sample.ms for sample in used],
            [sample.amount for sample in used],
            [sample.place for sample in used],
        )
    return fits


def distances(samples: Iterable[Sample], fits: Mapping[Kind, Fit]) -> dict[Kind, float]:
    """On samples that were kept apart: how far the fit is from the middle of them, as a fraction."""
    found: dict[Kind, list[float]] = defaultdict(list)
    for sample in samples:
        known = fits.get(sample.kind)
        if known is not None and known.at(sample.amount) > 0:
            found[sample.kind].append(sample.ms / known.at(sample.amount) - 1)
    return {kind: float(np.median(values)) for kind, values in found.items()}


def residual_blocks(
    samples: Iterable[Sample], fits: Mapping[Kind, Fit], clean: Sequence[bool]
) -> list[list[float]]:
    """Return the times of clean samples as multiples of their fit: whole blocks of neighbours, in the order of time.

    Work of a few microseconds says more about the timer than about the device, and is left out.
    """
    longest = max((known.ms for known in fits.values()), default=0.0)
    blocks: list[list[float]] = []
    block: list[float] = []
    for sample in samples:
        if not clean[sample.round]:
            block = []
            continue
        expected = fits[sample.kind].at(sample.amount)
        if expected < 0.05 * longest:
            continue
        block.append(sample.wall_ms / expected)
        if len(block) == BLOCK:
            blocks.append(block)
            block = []
    return blocks


def tail_x(times_ms: Sequence[float]) -> float | None:
    """The 99th percentile over the median; None from too few samples to know."""
    if len(times_ms) < TAIL_SAMPLES:
        return None
    times = np.asarray(times_ms)
    return float(np.quantile(times, 0.99) / np.median(times))
