"""Which task goes first, and which shard gets it: longest first, so that no long one is left for the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tempora_tta import methods
from tempora_tta.data import Order
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.errors import TemporaError
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
    passes = 1 + apart if job.share and not kind.time_aware else len(ways)
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


@dataclass(frozen=True)
class Shard:
    """One of several parts of a job, each run by itself and joined by `tempora merge`."""

    number: int
    """From 1."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """
        >>> Shard.parse("2/5")
        Shard(number=2, count=5)
        """
        given = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        if given is None or not 1 <= int(given[1]) <= int(given[2]):
            raise TemporaError(f"--shard {text!r}: write i/n, for instance 2/5 for the second of five shards")
        return cls(int(given[1]), int(given[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of(self, job: Job) -> Tasks:
        """This shard's tasks. The same job gives the same shards everywhere, and every task is in one of them.

        Whole streams as long as there are enough of them, so that a shift is decoded once; else methods too, the
        stateless ones staying with Standard, whose pass holds their frozen batches.
        """
        parts: list[tuple[Order, list[MethodSpec]]] = [(source, list(job.methods)) for source in job.streams]
        if self.count > len(parts):
            parts = [(source, group) for source, _ in parts for group in _separable(job.methods)]
        if self.count > len(parts):
            raise TemporaError(
                f"--shard {self}: this job has only {len(parts)} separate parts; use at most {len(parts)} shards"
            )
        shares: list[list[int]] = [[] for _ in range(self.count)]
        loads = [0.0] * self.count
        costs = [sum(rough_cost(job, spec, source) for spec in specs) for source, specs in parts]
        for index in sorted(range(len(parts)), key=lambda index: -costs[index]):
            lightest = loads.index(min(loads))
            shares[lightest].append(index)
            loads[lightest] += costs[index]
        return [parts[index] for index in sorted(shares[self.number - 1])]


def _separable(specs: Sequence[MethodSpec]) -> list[list[MethodSpec]]:
    """An oracle goes with others: a part of nothing else would have nothing to rank."""
    contending = [spec for spec in specs if not spec.oracle]
    together = [spec for spec in contending if methods.get(spec.name).stateless is True]
    alone = [[spec] for spec in contending if spec not in together]
    first, *others = [together, *alone] if together else alone
    return [[*first, *(spec for spec in specs if spec.oracle)], *others]
