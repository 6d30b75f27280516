"""Method and batch size together: the best pair of a run at several sizes, and the size to run next.

Frames are answered as exactly as at one size. What a size that was not run would give follows from a closed form: the
accuracy at that size, times the share of the frames that the method keeps up with, times the share of those that are
answered in time. In words: the largest batch whose first frame is still in time, if the method keeps up with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tempora_tta.analysis.answer import NO, UNKNOWN, YES, Answer, plain
from tempora_tta.analysis.cells import counted
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.recommend import recommend
from tempora_tta.analysis.replays import of_shifts, offline_row
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios.deployment import AT_ONCE
from tempora_tta.store import Results

WORTH_RUNNING = 0.005
"""Utility by which a size that was not run must promise more."""


class Work(NamedTuple):
    """A method at one batch size: its accuracy, and milliseconds until the answer and in all, for each batch."""

    accuracy: float
    predict_ms: float
    service_ms: float


@dataclass(frozen=True)
class Factors:
    """The three factors of the closed form."""

    accuracy: float
    keeps_up: float
    """Share of the frames that are answered at all."""
    in_time: float
    """Share of those that are answered before the deadline."""

    @property
    def utility(self) -> float:
        return self.accuracy * self.keeps_up * self.in_time


def factors(work: Work, size: int, frames_per_ms: float, deadline_ms: float = math.inf) -> Factors:
    """Return what equally spaced frames get of a method in batches of this size.

    >>> factors(Work(0.7, 2.0, 4.0), size=4, frames_per_ms=0.03, deadline_ms=110)
    Factors(accuracy=0.7, keeps_up=1.0, in_time=1.0)
    >>> factors(Work(0.7, 2.0, 4.0), size=64, frames_per_ms=0.03, deadline_ms=110).in_time == 4 / 64
    True
    """
    needed = frames_per_ms * work.service_ms
    spare = min(frames_per_ms * (deadline_ms - work.predict_ms), 2.0 * size)
    if spare < 0:
        return Factors(work.accuracy, min(1.0, size / needed), 0.0)
    if needed <= size:
        return Factors(work.accuracy, 1.0, min(1.0, (1 + math.floor(spare + 1e-9)) / size))
    in_time = np.clip(spare / size - np.arange(size) / size, 0.0, 1.0).mean()
    return Factors(work.accuracy, size / needed, float(in_time))


def recommend_of_sizes(sizes: Mapping[int, Results], question: Question, run: str) -> Answer:
    """Return the answer of the size whose best method gets most, with what the others get, and what to run next."""
    if at_once := question.answer == AT_ONCE:
        if 1 not in sizes:
            raise TemporaError(
                f"answer='at_once' takes single frames, and {run} has none: tempora run {run} --batch-size 1"
            )
        sizes = {1: sizes[1]}
    answers = {size: recommend(results, question) for size, results in sizes.items()}
    known = {size: one for size, one in answers.items() if one.method}
    if not known:
        return answers[max(answers)]
    chosen = max(known, key=lambda size: _worth(known[size]))
    best, next_ = known[chosen], {}
    told: dict[str, Any] = {}
    if question.fps is not None and not at_once:
        work = {size: works(results, question.shifts) for size, results in sizes.items()}
        pace = question.fps * question.cameras / 1000.0
        deadline_ms = math.inf if question.deadline_ms is None else question.deadline_ms
        told = vars(factors(work[chosen][str(best.method)], chosen, pace, deadline_ms))
        next_ = to_run_next(work, pace, deadline_ms)
    smaller_was_run = chosen > min(sizes)
    fits = YES if best.fits == UNKNOWN and smaller_was_run else best.fits
    others = [_short(size, one) for size, one in known.items() if size != chosen]
    return replace(
        best,
        fits=NO if all(one.fits == NO for one in known.values()) else fits,
        about={**best.about, "run": run},
        sizes=tuple(others),
        factors=plain(told),
        next_size=plain(next_) if fits != NO else {},
    )


def _worth(found: Answer) -> float:
    column = "utility" if "utility" in found.ranking else "images_per_s"
    return float(found.ranking[column].iloc[0])


def _short(size: int, found: Answer) -> dict[str, Any]:
    label = found.cards.label(str(found.method))
    return {"batch_size": size, "method": found.method, "label": label, "worth": _worth(found)}


def works(results: Results, shifts: Sequence[str] = ()) -> dict[str, Work]:
    """Return the work of every method of a run at its size, over the shifts that count or the named ones."""
    rows = of_shifts(results.contenders, shifts) if shifts else counted(results.contenders)
    found = {}
    for method, own in rows.groupby("method"):
        streams = [offline_row(results, stream) for _, stream in own.groupby(["shift", "seed"])]
        finished = [row for row in streams if row is not None]
        if len(finished) < len(streams):
            continue
        traces = [results.folder.trace(row["adapting_pass"], predictions=False) for row in finished]
        accuracy = np.mean([row["utility"] for row in finished])
        predict_ms = np.mean([np.nanmean(trace.predict_ms) for trace in traces])
        service_ms = np.mean([np.nanmean(trace.service_ms) for trace in traces])
        found[str(method)] = Work(float(accuracy), float(predict_ms), float(service_ms))
    return found


def to_run_next(
    work: Mapping[int, Mapping[str, Work]], frames_per_ms: float, deadline_ms: float
) -> dict[str, Any]:
    """Return the size between those that were run that promises most, if it promises more than each of them.

    Between two sizes times follow the size, and accuracy its logarithm.
    """
    run = sorted(work)
    found: dict[int, tuple[float, str]] = {}
    for method in sorted(set.intersection(*(set(one) for one in work.values()))):
        accuracy, predict_ms, service_ms = np.array([work[size][method] for size in run]).T
        for size in range(run[0], run[-1] + 1):
            between = Work(
                float(np.interp(math.log(size), np.log(run), accuracy)),
                float(np.interp(size, run, predict_ms)),
                float(np.interp(size, run, service_ms)),
            )
            promised = factors(between, size, frames_per_ms, deadline_ms).utility
            found[size] = max(found.get(size, (0.0, "")), (promised, method))
    if not found:
        return {}
    size = max(found, key=lambda one: found[one])
    promised, method = found[size]
    if promised < max(found[one][0] for one in run) + WORTH_RUNNING:
        return {}
    return {"batch_size": size, "method": method, "utility": promised}
