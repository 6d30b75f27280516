"""Cells under drawn times: what each batch adds to the utility in every draw, for all draws of many cells at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempora_tta.analysis.doubt.blocks import FloatArray
from tempora_tta.analysis.doubt.timing import Factors
from tempora_tta.scenarios import Resolved
from tempora_tta.scenarios.budget import afforded
from tempora_tta.scenarios.lanes import serve_lanes
from tempora_tta.store import ADAPTED, Trace

_CHUNK = 4_000_000
"""Batches of all lanes that walk side by side, whatever the length of the stream."""


class Passes(NamedTuple):
    """The passes of a cell; those that it has none of its own for are its adapting one."""

    adapting: Trace
    frozen: Trace
    fallback: Trace


@dataclass(frozen=True)
class Drawn:
    """A cell, the factors on the times of its passes, and its deployment in each draw (one, where all are alike)."""

    passes: Passes
    factors: tuple[Factors | None, Factors | None, Factors | None]
    deployments: Sequence[Resolved]
    draws: int

    @property
    def is_plain(self) -> bool:
        """A schedule without budget and fallback: nothing but the queue decides who is served."""
        first = self.deployments[0]
        return not (first.waits or first.has_budget or first.fallback)

    def steps(self) -> FloatArray:
        """(draws, batches), by the timeline's own steps: whatever the deployment is."""
        return np.stack([self._step(draw) for draw in range(self.draws)])

    def _step(self, draw: int) -> FloatArray:
        scaled = (
            trace if factors is None else trace.scaled(factors.predict[draw], factors.adapt[draw])
            for trace, factors in zip(self.passes, self.factors, strict=True)
        )
        passes = Passes(*scaled)
        deployment = self.deployments[draw % len(self.deployments)]
        return passes.adapting.score(deployment, passes.frozen, passes.fallback).worth

    def waiting(self) -> FloatArray:
        """(draws, batches) of a stream that waits: it loses nothing, and of its timeline only the waiting is left."""
        times, first = self.times(), self.deployments[0]
        budget_ms, baseline_ms = (
            np.array([[_or_endless(getattr(one, name))] for one in self.deployments])
            for name in ("budget_ms", "baseline_ms")
        )
        may, _ = afforded(times.service_ms, times.willing, budget_ms, baseline_ms, first.rule)
        adapted = (may & times.willing)[..., None]
        right = np.where(adapted, times.right, times.frozen_right)
        if not first.value.decays:
            accuracy = right.mean(axis=-1)
            return np.array(np.broadcast_to(accuracy, (self.draws, accuracy.shape[1])))
        response_ms = np.where(may, times.predict_ms, times.frozen_ms)
        if first.arrivals == "on_prediction":
            response_ms[:, 1:] += np.where(may, times.adapt_ms, 0.0)[:, :-1]
        return self.worth(right, response_ms)

    def times(self) -> Times:
        """What each batch takes and how right it is, if it is served."""
        of_adapting, of_frozen, _ = self.factors
        adapting, frozen, _ = self.passes
        undone = ~np.isnan(adapting.attempt_predict_ms)
        first, shape = self.deployments[0], (self.draws, adapting.num_batches)
        predict_ms = np.where(undone, adapting.attempt_predict_ms, adapting.predict_ms)
        adapt_ms = np.where(undone, adapting.attempt_adapt_ms, adapting.adapt_ms)
        frozen_ms = frozen.predict_ms
        if of_adapting is not None:
            predict_ms, adapt_ms = predict_ms * of_adapting.predict, adapt_ms * of_adapting.adapt
        if of_frozen is not None:
            frozen_ms = frozen_ms * of_frozen.predict
        own_x, frozen_x = (_residuals(trace, first) for trace in (adapting, frozen))
        return Times(
            np.broadcast_to(predict_ms * own_x, shape),
            np.broadcast_to(adapt_ms * own_x, shape),
            np.broadcast_to(frozen_ms * frozen_x, shape),
            (adapting.phase == ADAPTED) | undone,
            adapting.right_in(first),
            frozen.right_in(first),
        )

    def worth(self, right: FloatArray, response_ms: FloatArray) -> FloatArray:
        """What each batch adds, (draws, batches), each draw by its own deployment."""
        if len(self.deployments) == 1:
            return self.deployments[0].value.worth(right, response_ms)
        each = np.broadcast_to(right, (*response_ms.shape, right.shape[-1]))
        return np.stack(
            [one.value.worth(*drawn) for one, *drawn in zip(self.deployments, each, response_ms, strict=True)]
        )

    def arrivals_ms(self) -> FloatArray:
        """(draws, batches)"""
        arrivals = np.array([one.arrivals_ms for one in self.deployments])
        return np.broadcast_to(arrivals, (self.draws, arrivals.shape[1]))


class Times(NamedTuple):
    """(draws, batches), but for what is the same in all draws."""

    predict_ms: FloatArray
    adapt_ms: FloatArray
    frozen_ms: FloatArray
    willing: NDArray[np.bool_]
    """(batches,): the method would adapt, if it may."""
    right: FloatArray
    frozen_right: FloatArray
    """(batches, frames) both."""

    @property
    def service_ms(self) -> FloatArray:
        return self.predict_ms + self.adapt_ms


def rescored(cells: Sequence[Drawn | None]) -> list[FloatArray | None]:
    """What each batch of each cell adds in each draw, (draws, batches); None where nothing was drawn.

    The digits of `Drawn.steps`, however it is worked out.
    """
    found: list[FloatArray | None] = [None] * len(cells)
    side_by_side: dict[tuple[int, int], list[tuple[int, Drawn]]] = {}
    for place, cell in enumerate(cells):
        if cell is None:
            continue
        if cell.is_plain:
            alike = (cell.deployments[0].queue, cell.passes.adapting.num_batches)
            side_by_side.setdefault(alike, []).append((place, cell))
        else:
            found[place] = cell.waiting() if cell.deployments[0].waits else cell.steps()
    for (queue, batches), members in side_by_side.items():
        each = max(1, _CHUNK // (batches * members[0][1].draws))
        for first in range(0, len(members), each):
            places, drawn = zip(*members[first : first + each], strict=True)
            for place, worth in zip(places, _scheduled(drawn, queue), strict=True):
                found[place] = worth
    return found


def worth_of(passes: Passes, resolved: Resolved) -> FloatArray:
    """What each batch adds under the times as they are: `adapting.score(resolved, frozen, fallback).worth`."""
    cell = Drawn(passes, (None, None, None), [resolved], 1)
    (worth,) = cell.waiting() if resolved.waits else cell.steps()
    return np.asarray(worth, dtype=np.float64)


def _scheduled(cells: Sequence[Drawn], queue: int) -> list[FloatArray]:
    """Cells of one queue and length: a lane for each draw of each."""
    times = [cell.times() for cell in cells]
    arrivals_ms = [cell.arrivals_ms() for cell in cells]
    service_ms = np.concatenate([one.service_ms for one in times])
    starts = serve_lanes(
        np.ascontiguousarray(service_ms.T), np.ascontiguousarray(np.concatenate(arrivals_ms).T), queue
    )
    found = []
    for cell, one, arrived_ms, start_ms in zip(
        cells, times, arrivals_ms, np.split(starts.T, len(cells)), strict=True
    ):
        right = np.where(one.willing[:, None], one.right, one.frozen_right)
        worth = cell.worth(right, (start_ms - arrived_ms) + one.predict_ms)
        found.append(np.where(np.isnan(start_ms), 0.0, worth))
    return found


def _residuals(trace: Trace, resolved: Resolved) -> FloatArray | float:
    """The device's own variation, as `Trace.on_device` applies it."""
    if not resolved.residuals or not trace.steady:
        return 1.0
    return np.nan_to_num(trace.residual, nan=1.0)


def _or_endless(value: float | None) -> float:
    return np.inf if value is None else value
