"""Many courses of one kind side by side: a schedule, walked arrival by arrival for all of them at once.

What `Timeline` does in steps, without budget and fallback, to the same digits: for those who ask thousands of times
what other service times would have changed.
"""

from __future__ import annotations

import numpy as np

from tempora_tta.scenarios._validate import BoolArray, FloatArray


def serve_lanes(service_ms: FloatArray, arrivals_ms: FloatArray, queue: int) -> FloatArray:
    """When each batch starts in each lane, NaN where it is lost: (batches, lanes).

    service_ms: (batches, lanes). arrivals_ms: the same, or (batches, 1) where all lanes see the same arrivals.

    >>> serve_lanes(np.full((4, 1), 100.0), np.array([[0.0], [40.0], [80.0], [120.0]]), queue=1).ravel().tolist()
    [0.0, nan, 100.0, 200.0]
    """
    walk = _Walk(service_ms, queue)
    for batch, arrived_ms in enumerate(arrivals_ms):
        if queue:
            walk.serve_before(arrived_ms, batch)
            walk.admit(arrived_ms, batch)
        else:
            walk.take_or_drop(arrived_ms, batch)
    walk.serve_before(np.array([np.inf]), len(service_ms))
    return walk.start_ms


class _Walk:
    """Where every lane stands. Those that wait are neighbours: from `head` up to the last arrival."""

    def __init__(self, service_ms: FloatArray, queue: int) -> None:
        lanes = service_ms.shape[1]
        self.start_ms = np.full(service_ms.shape, np.nan)
        self._service_ms, self._queue = service_ms, queue
        self._free_ms = self._taken_ms = np.full(lanes, -np.inf)
        self._head = np.zeros(lanes, dtype=np.int64)

    def serve_before(self, now_ms: FloatArray, arrived: int) -> None:
        """Start those that wait, in lanes that become free before `now_ms`; `arrived`: how many came so far."""
        for _ in range(self._queue):
            lanes = np.flatnonzero((self._head < arrived) & (self._free_ms < now_ms))
            if not lanes.size:
                return
            heads, free_ms = self._head[lanes], self._free_ms[lanes]
            self.start_ms[heads, lanes] = free_ms
            self._free_ms[lanes] = free_ms + self._service_ms[heads, lanes]
            self._head[lanes] = heads + 1

    def admit(self, arrived_ms: FloatArray, batch: int) -> None:
        """An idle lane takes the arrival; elsewhere it queues, also where the lane becomes free this instant."""
        idle = self._free_ms < arrived_ms
        self._take(idle, arrived_ms, batch)
        self._head = np.where(idle, batch + 1, np.maximum(self._head, batch + 1 - self._queue))

    def take_or_drop(self, arrived_ms: FloatArray, batch: int) -> None:
        """Without a queue a lane that becomes free this instant takes the arrival, unless it took one of the same."""
        self._take((self._free_ms <= arrived_ms) & (self._taken_ms < arrived_ms), arrived_ms, batch)

    def _take(self, lanes: BoolArray, arrived_ms: FloatArray, batch: int) -> None:
        self.start_ms[batch] = np.where(lanes, arrived_ms, np.nan)
        self._taken_ms = np.where(lanes, arrived_ms, self._taken_ms)
        self._free_ms = np.where(lanes, arrived_ms + self._service_ms[batch], self._free_ms)
