"""Time that the paper's whole grid takes on any number of GPUs: `python benchmarks/scaling.py`.

A simulation from measured times per batch (benchmarks/results, or the paper's own with `--times published`): every
task's passes follow from the engine's rules of sharing, and tasks go longest first to whichever GPU is free, as the
Ray executor hands them out. The naive protocol makes one pass per scenario.

Assumed, and options below: 781 batches per shift, seconds to open a stream, seconds to start a worker. Not simulated:
slow nodes, shared disks, retries.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from common import RESULTS, JsonFile, console, write
from tempora_tta import methods
from tempora_tta._numbers import percent
from tempora_tta.engine.measured import LOOK_BATCHES
from tempora_tta.published import profile
from tempora_tta.scenarios import Amortised, Continuous, Resolved, Scenario, paper_grid, route
from tempora_tta.store import ADAPTED, Trace

GPUS = (1, 8, 64, 512)
SHIFTS, SEEDS, WARM_UP = 15, 3, 5


@dataclass(frozen=True)
class Setup:
    """One of the paper's two large setups."""

    model: str
    grid: str
    published: str
    methods: tuple[str, ...]

    def times(self, source: str) -> dict[str, tuple[float, float]]:
        """Milliseconds of predict and adapt per batch."""
        if source == "published":
            found = profile(self.published)
            return {name: found[name] for name in self.methods}
        rows = json.loads((RESULTS / f"{source}-methods-{self.model}.json").read_text())["rows"]
        return {
            row["name"]: (row["predict_ms"], row["adapt_ms"]) for row in rows if row["name"] in self.methods
        }


_BOTH = ("standard", "lame", "neo", "tent", "eta", "shot_im", "sar", "deyo", "cmf")
SETUPS = (
    Setup("resnet50", "resnet50", "rn50_inc", (*_BOTH, "adabn")),
    Setup("vit_b_16", "vit", "vit_inc", (*_BOTH, "spa", "zerosiam")),
)


@dataclass(frozen=True)
class TaskTime:
    """Seconds of one method on one stream."""

    name: str
    naive_s: float
    together_s: tuple[float, ...]
    """The offline pass, then the frozen tails, which begin in states that it reached."""
    apart_s: tuple[float, ...]
    """Live passes, which could run anywhere."""

    @property
    def shared_s(self) -> float:
        return sum(self.together_s) + sum(self.apart_s)


def papers_scenarios(setup: Setup, times: dict[str, tuple[float, float]]) -> list[Scenario]:
    """The paper's grid, scaled to this machine's lambda."""
    factor = sum(times["standard"]) / profile(setup.published)["baseline_ms"]
    return [scaled(scenario, factor) for scenario in paper_grid(setup.grid)]


def task_time(
    setup: Setup,
    name: str,
    times: dict[str, tuple[float, float]],
    batches: int,
    scenarios: Sequence[Scenario],
) -> TaskTime:
    """Compute the time of one task by the engine's own rules."""
    baseline_ms = sum(times["standard"])
    kind = methods.get(name)
    offline = constant_trace(*times[name], batches)
    service_s, frozen_s = sum(times[name]) / 1000, times["standard"][0] / 1000
    # Around every timed pass: a few batches to warm up, and a sentinel of standard inference.
    around_s = WARM_UP * service_s + LOOK_BATCHES * frozen_s
    naive, together, apart = [], [around_s + batches * service_s], []
    naive.append(together[0])
    for scenario in scenarios:
        resolved = scenario.resolve(num_batches=batches, baseline_ms=baseline_ms)
        way = route(
            resolved,
            offline.offline_course(),
            history_free=kind.history_free is True,
            stateless=kind.stateless is True,
        )
        alone_s = around_s + pass_seconds(resolved, offline, service_s, frozen_s)
        naive.append(alone_s)
        if way.kind == "live":
            apart.append(alone_s)
        elif way.cutoff is not None and kind.stateless is not True:
            together.append((batches - way.cutoff) * frozen_s)
    return TaskTime(f"{setup.model} {name}", sum(naive), tuple(together), tuple(apart))


def scaled(scenario: Scenario, factor: float) -> Scenario:
    if isinstance(scenario, Continuous) and scenario.threshold_ms is not None:
        return dataclasses.replace(scenario, threshold_ms=scenario.threshold_ms * factor)
    if isinstance(scenario, Amortised) and scenario.budget_ms is not None:
        return dataclasses.replace(scenario, budget_ms=scenario.budget_ms * factor)
    return scenario


def constant_trace(predict_ms: float, adapt_ms: float, batches: int) -> Trace:
    trace = Trace.empty(batches, 1)
    trace.phase[:] = ADAPTED
    trace.predict_ms[:], trace.adapt_ms[:] = predict_ms, adapt_ms
    return trace


def pass_seconds(resolved: Resolved, offline: Trace, service_s: float, frozen_s: float) -> float:
    """Of a pass of a scenario's own: the batches it serves, adapting or frozen."""
    frozen = constant_trace(1000 * frozen_s, 0.0, offline.num_batches)
    course = offline.course(resolved, frozen)
    adapting = int(np.count_nonzero(course.adapted))
    return adapting * service_s + (course.served.size - adapting) * frozen_s


def makespan(seconds: Iterable[float], gpus: int, start_s: float) -> float:
    """List scheduling, longest first: each goes to the GPU that is free first.

    >>> makespan([3, 3, 2, 2, 2], gpus=2, start_s=1)
    8
    """
    free_at = [start_s] * gpus
    for duration in sorted(seconds, reverse=True):
        heapq.heapreplace(free_at, free_at[0] + duration)
    return max(free_at)


def shown(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def show(tasks: Sequence[TaskTime], open_s: float, start_s: float) -> list[dict[str, float]]:
    """Print the table; the same numbers as records."""
    copies = SHIFTS * SEEDS
    naive = [open_s + task.naive_s for task in tasks] * copies
    shared = [open_s + task.shared_s for task in tasks] * copies
    apart = [open_s + seconds for task in tasks for seconds in (sum(task.together_s), *task.apart_s)] * copies
    table = Table(
        "GPUs", "naive", "shared", "busy", "a pass per worker", "busy", box=None, header_style="bold"
    )
    records = []
    for gpus in GPUS:
        spans = [makespan(work, gpus, start_s) for work in (naive, shared, apart)]
        busy = [sum(work) / gpus / span for work, span in zip((naive, shared, apart), spans, strict=True)]
        table.add_row(
            str(gpus),
            shown(spans[0]),
            shown(spans[1]),
            percent(busy[1], 0),
            shown(spans[2]),
            percent(busy[2], 0),
        )
        records.append({"gpus": gpus, "naive_s": spans[0], "shared_s": spans[1], "apart_s": spans[2]})
    console.print(f"{len(shared)} tasks (method, shift, seed), {sum(shared) / 3600:.0f} GPU hours:")
    console.print(table)
    longest = max(tasks, key=lambda task: task.shared_s)
    chain = max(tasks, key=lambda task: sum(task.together_s))
    enough = int(np.ceil(sum(shared) / (open_s + longest.shared_s)))
    console.print(
        f"Critical path: {longest.name} on one stream, {shown(longest.shared_s)} in "
        f"{1 + len(longest.apart_s)} adapting passes and {len(longest.together_s) - 1} frozen tails. More than "
        f"about {enough} GPUs do not shorten the run while a task stays whole.\n"
        f"What would: its {len(longest.apart_s)} live passes do not depend on each other, so a worker for each "
        f"leaves {shown(sum(chain.together_s))} ({chain.name}: the offline pass and its tails), at the price of "
        "opening the stream more often. Below that only fewer batches or a faster method help: a stream's batches "
        "come one after another, and a timed pass never shares its device."
    )
    return records


def main(
    times: Annotated[
        str, typer.Option(help="Prefix of the files in benchmarks/results, or published.")
    ] = "h200",
    batches: Annotated[int, typer.Option(help="Per shift; ImageNet-C at batch size 64 has 781.")] = 781,
    open_s: Annotated[float, typer.Option(help="Seconds to decode a shift, once per task.")] = 25.0,
    start_s: Annotated[float, typer.Option(help="Seconds until a worker takes its first task.")] = 30.0,
    json_file: JsonFile = None,
) -> None:
    """Makespan of the paper's grid (two networks, 15 shifts, 3 seeds) on 1, 8, 64 and 512 GPUs."""
    tasks = []
    for setup in SETUPS:
        known = setup.times(times)
        scenarios = papers_scenarios(setup, known)
        tasks += [task_time(setup, name, known, batches, scenarios) for name in setup.methods]
    records = show(tasks, open_s, start_s)
    settings = {"times": times, "batches": batches, "open_s": open_s, "start_s": start_s}
    write({**settings, "rows": records}, json_file)


if __name__ == "__main__":
    typer.run(main)
