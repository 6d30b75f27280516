"""Order tasks by cost: longest first, so that no long one is left for the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tempora_tta import methods
from tempora_tta.data import Order
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.scenarios import route

Tasks = Sequence[tuple[Order, Sequence[MethodSpec]]]
"""The methods to run on each stream."""

_BACKWARD = 3.0
"""A gradient step against a forward pass."""


def rough_cost(job: Job, spec: MethodSpec, source: Order) -> float:
    """How long a task takes, in batches of standard inference: enough to order tasks by."""
    kind = methods.get(spec.name)
    ways = [
        route(
            scenario.deployment(),
            history_free=kind.history_free is True,
            stateless=kind.stateless is True,
            time_aware=kind.time_aware,
        )
        for scenario in job.scenarios
    ]
    apart = sum(way.kind == "live" or "live" in way.possible for way in ways)
    passes = 1 + apart if job.config.share and not kind.time_aware else len(ways)
    return source.num_batches * passes * (_BACKWARD if kind.family == "gradient-based" else 1.0)


@dataclass(frozen=True)
class Pending:
    """A task that nobody works on yet."""

    spec: MethodSpec
    source: Order
    cost: float

    @property
    def name(self) -> str:
        return f"{self.spec.label} on {self.source.shift} (seed {self.source.seed})"


def pick(pending: Sequence[Pending], open_shift: str | None) -> Pending:
    """The next task for a worker: the longest, or one at least half as long on the shift it has decoded already."""
    longest = max(pending, key=lambda task: task.cost)
    at_hand = [task for task in pending if task.source.shift == open_shift and 2 * task.cost >= longest.cost]
    return max(at_hand, key=lambda task: task.cost, default=longest)
