"""When a profile is good enough: more of it would move no cell.

Accuracy is taken as 1, so what is left of a utility is availability x responsiveness: the part that times decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Deployment, Scenario

MOST_POINTS = 0.5
"""Of availability x responsiveness, in points."""
MOST_BATCHES = 1.0
"""Of a cut-off."""
MOST_BATCHES_TRIED = 200
"""Fractions of longer streams hardly differ."""


class MethodCourse(NamedTuple):
    """The times of one method over the first batches of a stream, and how far they may be off."""

    predict_ms: Sequence[float]
    adapt_ms: Sequence[float]
    frozen_ms: float
    error: float
    """Half of the 95 % interval of the service time against standard inference, as a fraction."""


class Moved(NamedTuple):
    """The most that the error of a profile moves in any cell."""

    points: float = 0.0
    batches: float = 0.0

    def within(self, most: Moved) -> bool:
        return self.points <= most.points and self.batches <= most.batches


Cells = Mapping[tuple[str, str], Moved]
"""By method and label of the scenario."""


def moved_cells(
    courses: Mapping[str, MethodCourse],
    scenarios: Iterable[Scenario],
    baseline_ms: float,
    num_batches: int,
    batch_size: int = 1,
    shrunk: float = 1.0,
) -> Cells:
    """Every cell at both ends of its method's error, against its middle; `shrunk`: of so much of that error."""
    count = min(num_batches, MOST_BATCHES_TRIED)
    cells = {}
    for scenario in scenarios:
        if scenario.not_applicable(baseline_ms) is not None:
            continue
        deployment = scenario.deployment()
        if deployment.batch_size is None:
            deployment = deployment.in_batches_of(batch_size)
        for method, course in courses.items():
            ends = _ends(shrunk * course.error)
            found = [_outcome(deployment, course, factor, baseline_ms, count) for factor in ends]
            shares, cutoffs = zip(*found, strict=True)
            points = 100 * (max(shares) - min(shares)) / 2
            # Over the whole stream a cut-off moves as much further as the stream is longer.
            batches = (max(cutoffs) - min(cutoffs)) / 2 * num_batches / count
            cells[method, scenario.label] = Moved(points, batches)
    return cells


def tolerance(num_batches: int, batch_size: int) -> Moved:
    """What the error of a profile may move: half a point and a batch, or as much as other images would.

    On 24 batches of 64 the share of right answers is itself known to 2.5 points: less than that nobody can see there.

    >>> tolerance(24, 64), tolerance(780, 64)
    (Moved(points=2.5, batches=1.0), Moved(points=0.5, batches=1.0))
    """
    chance = 100 * 1.96 * 0.5 / (num_batches * batch_size) ** 0.5
    return Moved(max(MOST_POINTS, round(chance, 2)), MOST_BATCHES)


def most(cells: Cells) -> Moved:
    """The most that any cell is moved."""
    return Moved(
        max((one.points for one in cells.values()), default=0.0),
        max((one.batches for one in cells.values()), default=0.0),
    )


def worth_more(now: Cells, soon: Cells, then: Cells, tolerated: Moved) -> bool:
    """Whether more time would change an answer: settle a cell by the next look (`soon`), or bring one nearer by more
    than is tolerated by the end (`then`).

    A cell on an edge, where any error at all makes a batch more or less, stays as it is however long one profiles.
    """
    return any(
        soon[cell].within(tolerated)
        or one.points - then[cell].points > tolerated.points
        or one.batches - then[cell].batches > tolerated.batches
        for cell, one in now.items()
        if not one.within(tolerated)
    )


def is_relative(scenario: Scenario) -> bool:
    """Whether all its times are multiples of lambda, so that ratios are all it needs to know of a machine."""
    deployment = scenario.deployment()
    if deployment.fps is not None:
        return False
    try:
        once, twice = (
            deployment.resolve(num_batches=2, baseline_ms=baseline_ms) for baseline_ms in (1.0, 2.0)
        )
    except TemporaError:  # a threshold in milliseconds below one of them
        return False
    knobs = ("interval_ms", "threshold_ms", "deadline_ms", "budget_ms")
    pairs = [(getattr(once, knob, None), getattr(twice, knob, None)) for knob in knobs]
    pairs += zip(once.arrivals_ms or (), twice.arrivals_ms or (), strict=True)
    return all(first is None or second == 2 * first for first, second in pairs)


def _ends(error: float) -> tuple[float, float, float]:
    return (max(0.0, 1 - error), 1.0, 1 + error)


def _outcome(
    deployment: Deployment, course: MethodCourse, factor: float, baseline_ms: float, count: int
) -> tuple[float, float]:
    """Availability x responsiveness and the cut-off, if all times were `factor` times as long."""
    ones = np.ones(count)
    try:
        score = deployment.score(
            accuracy=ones,
            predict_ms=factor * np.resize(course.predict_ms, count),
            adapt_ms=factor * np.resize(course.adapt_ms, count),
            frozen_accuracy=ones,
            frozen_ms=np.full(count, factor * course.frozen_ms),
            baseline_ms=baseline_ms,
        )
    except TemporaError:  # it needs more than times, such as arrivals recorded for another length
        return 0.0, 0.0
    cutoff = score.terms.get("cutoff")
    return score.utility, float(cutoff) if cutoff is not None and deployment.has_budget else 0.0
