"""Which task goes first, and which shard gets it: longest first, so that no long one is left for the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tempora import methods
from tempora.engine.job import Job, MethodSpec, StreamSource

T = TypeVar("T")

_BACKWARD = 3.0
"""A gradient step against a forward pass."""


def rough_cost(job: Job, spec: MethodSpec, source: StreamSource) -> float:
    """How long a task takes, in batches of standard inference: enough to order tasks by."""
    kind = methods.get(spec.name)
    deployments = [scenario.deployment() for scenario in job.scenarios]
    schedules = sum(not isinstance(deployment.arrivals, str) for deployment in deployments)
    if not job.share or kind.time_aware:
        passes = len(deployments)
    else:
        passes = 1 if kind.history_free is True else 1 + schedules
    return source.num_batches * passes * (_BACKWARD if kind.family == "gradient-based" else 1.0)


@dataclass(frozen=True)
class Pending:
    """A task that nobody works on yet."""

    spec: MethodSpec
    source: StreamSource
    cost: float

    @property
    def name(self) -> str:
        return f"{self.spec.label} on {self.source.shift} (seed {self.source.seed})"


def pick(pending: Sequence[Pending], open_shift: str | None) -> Pending:
    """The next task for a worker: the longest, or one at least half as long on the shift it has decoded already."""
    longest = max(pending, key=lambda task: task.cost)
    at_hand = [task for task in pending if task.source.shift == open_shift and 2 * task.cost >= longest.cost]
    return max(at_hand, key=lambda task: task.cost, default=longest)
