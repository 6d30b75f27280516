"""The plan of a run: its cells, the passes they need at least and at most, and how long that may take."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tempora_tta import methods
from tempora_tta.data import Order, Stream
from tempora_tta.engine.calls import Calls
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.engine.passes import Pass
from tempora_tta.errors import counted
from tempora_tta.scenarios import Offline, route
from tempora_tta.scenarios.routes import LIVE, OFFLINE, TAIL
from tempora_tta.timing import MeasuredClock

PROBE_BATCHES = 3
"""Enough to tell minutes from hours."""


@dataclass(frozen=True)
class MethodPlan:
    """One method on one stream."""

    label: str
    cells: int
    fewest_passes: int
    most_passes: int
    how: str
    seconds_per_batch: float
    """A rough look at this machine, not a measurement."""


@dataclass(frozen=True)
class Plan:
    """The work of a run, before it begins."""

    methods: tuple[MethodPlan, ...]
    streams: int
    batches: int
    scenarios: int

    @property
    def cells(self) -> int:
        return self.streams * sum(method.cells for method in self.methods)

    def seconds(self) -> tuple[float, float]:
        """At least and at most, by the probe."""
        batches = self.batches * self.streams
        return (
            sum(method.fewest_passes * method.seconds_per_batch for method in self.methods) * batches,
            sum(method.most_passes * method.seconds_per_batch for method in self.methods) * batches,
        )

    def show(self, console: Console) -> None:
        table = Table("method", "cells", "passes", "how they are shared", box=None, title_justify="left")
        for method in self.methods:
            passes = f"{method.fewest_passes} to {method.most_passes}"
            if method.fewest_passes == method.most_passes:
                passes = str(method.fewest_passes)
            table.add_row(method.label, str(method.cells), passes, method.how)
        streams, batches = counted(self.streams, "stream"), counted(self.batches, "batch")
        console.print(f"on each of {streams} (shift and seed) of {batches}:")
        console.print(table)
        fewest, most = (
            sum(getattr(m, name) for m in self.methods) for name in ("fewest_passes", "most_passes")
        )
        naive = sum(method.cells for method in self.methods)
        console.print(
            f"{counted(self.cells, 'cell')} in {_span(fewest * self.streams, most * self.streams)} "
            f"(one pass per cell would be {naive * self.streams}); "
            f"roughly {_duration(self.seconds()[0])} to {_duration(self.seconds()[1])} on this machine"
        )


def _span(fewest: int, most: int) -> str:
    return counted(most, "pass") if fewest == most else f"{fewest} to {counted(most, 'pass')}"


def make_plan(job: Job) -> Plan:
    """Plan a job. Opens the first stream and runs a few batches of each method to estimate the time."""
    first = job.streams[0]
    stream = job.open_stream(first)
    try:
        planned = tuple(_plan_method(job, spec, stream) for spec in job.methods)
    finally:
        stream.close()
    return Plan(planned, len(job.streams), first.num_batches, len(job.scenarios))


def _plan_method(job: Job, spec: MethodSpec, stream: Stream) -> MethodPlan:
    deployments = [scenario.deployment() for scenario in job.scenarios]
    cells = len(deployments)
    try:
        method = job.create(spec, stream.seed)
        head = stream.under(stream.order.head(min(PROBE_BATCHES, stream.num_batches))) or stream
        clock = MeasuredClock(job.device)
        seconds = _probe(Pass(Calls(method, spec.label, head, clock, timeout_s=job.config.method_timeout_s)))
    except Exception as error:
        return MethodPlan(spec.label, cells, 0, 0, f"fails: {type(error).__name__}: {error}", 0.0)
    if not job.config.share or method.time_aware:
        how = "each cell is its own pass" if not job.config.share else "sees the clock, so nothing is shared"
        return MethodPlan(spec.label, cells, cells, cells, how, seconds)
    ways = [
        route(deployment, history_free=method.history_free, stateless=method.stateless)
        for deployment in deployments
    ]
    skipping = sum(LIVE in way.possible for way in ways)
    tails = sum(way.possible == (OFFLINE, TAIL) for way in ways)
    if method.stateless and job.standard(spec.runtime):
        tails = 0
    replays, apart = (sum(way.kind == kind for way in ways) for kind in ("replay", LIVE))
    parts = ["one offline pass"]
    parts += [f"{counted(skipping, 'schedule')} live where batches are skipped"] if skipping else []
    parts += [f"{counted(apart, 'schedule')} live, answered at once"] if apart else []
    parts += [f"{counted(replays, 'schedule')} replayed"] if replays else []
    parts += [f"{counted(tails, 'frozen tail')} at most"] if tails else []
    return MethodPlan(spec.label, cells, 1 + apart, 1 + apart + skipping + tails, ", ".join(parts), seconds)


_BACKWARD = 3.0
"""A gradient step against a forward pass."""


def rough_cost(job: Job, spec: MethodSpec, source: Order) -> float:
    """About how long a task takes, in batches of standard inference: enough to order tasks by."""
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


def _probe(run: Pass) -> float:
    """Seconds per batch, roughly."""
    run.calls.warm_up(1)
    batches = min(PROBE_BATCHES, run.calls.stream.num_batches)
    start = time.perf_counter()
    run.drive(Offline().resolve(num_batches=batches))
    return (time.perf_counter() - start) / batches


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
