"""What a very long stream takes: `python benchmarks/long_stream.py`.

A tiny network goes over a recurring stream. Memory may grow by the rows of its trace and nothing else, and the last
batches take as long as the first. Printed after every tenth of the stream; `--json` keeps it. Other users of a
machine make batches slower, too: after every tenth a short stream is timed, which no length could have slowed.
"""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.table import Table

from common import JsonFile, console, write
from tempora_tta import methods, models
from tempora_tta.data import Walk, array_shift, draw, open_stream
from tempora_tta.engine.clocks import open_clock
from tempora_tta.engine.passes import Pass
from tempora_tta.models.preprocessing import Preprocessing
from tempora_tta.scenarios import Offline
from tempora_tta.store import Trace

SHIFTS, IMAGES, BATCH, PER_VISIT = 15, 1000, 8, 10
SHORT = 1_500
"""Batches of the stream beside it."""


def main(
    batches: Annotated[int, typer.Option(help="Length of the stream.")] = 100_000,
    method: Annotated[str, typer.Option(help="Which method goes over it.")] = "tent",
    json_file: JsonFile = None,
) -> None:
    """Memory and time over the course of a long stream."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run = _pass(batches, method)
    run.warm_up(5)
    _fresh_s(method)  # what the first of them brings along is no growth
    rows: list[dict[str, Any]] = []
    start, before, beside_s = time.process_time(), _resident(), 0.0

    def note(trace: Trace, index: int) -> None:
        nonlocal beside_s
        if (index + 1) % (batches // 10) == 0:
            spent_s = time.process_time() - start - beside_s
            fresh_s = _fresh_s(method)
            beside_s = time.process_time() - start - spent_s
            rows.append(
                {
                    "batches": index + 1,
                    "cpu_s": spent_s,
                    "grown_bytes": _resident() - before,
                    "fresh_ms": 1000 * fresh_s / SHORT,
                }
            )

    run.progress = note
    trace = run.offline(Offline().resolve(num_batches=batches))
    row_bytes = sum(getattr(trace, name).nbytes for name in trace.__dataclass_fields__) / batches
    _show(rows, row_bytes)
    write({"batches": batches, "method": method, "trace_row_bytes": row_bytes, "rows": rows}, json_file)


def _fresh_s(method: str) -> float:
    """CPU seconds of a short stream, begun now."""
    run = _pass(SHORT, method)
    run.warm_up(5)
    start = time.process_time()
    run.offline(Offline().resolve(num_batches=SHORT))
    return time.process_time() - start


def _pass(batches: int, method: str) -> Pass:
    rng = np.random.default_rng(0)
    shifts = [
        array_shift(
            f"shift{number}", rng.integers(0, 256, (IMAGES, 8, 8), np.uint8), rng.integers(0, 10, IMAGES), 10
        )
        for number in range(SHIFTS)
    ]
    visits = -(-batches // (SHIFTS * PER_VISIT))
    (order,) = draw(Walk("recurring", batches=PER_VISIT, visits=visits, reset="shift"), shifts, BATCH, 1)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 10),
    )
    classifier = models.wrap(network, features=torch.nn.Sequential(*list(network)[:-1]), head=network[-1])
    preprocessing = Preprocessing(mean=(0.5,), std=(0.25,), input_size=(1, 8, 8), crop_pct=1.0)
    clock, _ = open_clock({"baseline_ms": 40, method: (41, 56)}, torch.device("cpu"))
    stream = open_stream(order.head(batches), preprocessing)
    return Pass(methods.create(method, classifier), method, stream, clock)


def _resident() -> int:
    """Bytes of memory that this process holds (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _show(rows: list[dict[str, Any]], row_bytes: float) -> None:
    table = Table(
        "batches",
        "ms per batch since the last",
        "of a short stream",
        "MB grown",
        "MB of trace rows",
        box=None,
    )
    last = {"batches": 0, "cpu_s": 0.0}
    for row in rows:
        each_ms = 1000 * (row["cpu_s"] - last["cpu_s"]) / (row["batches"] - last["batches"])
        table.add_row(
            f"{row['batches']:,}",
            f"{each_ms:.3f}",
            f"{row['fresh_ms']:.3f}",
            f"{row['grown_bytes'] / 1e6:.1f}",
            f"{row_bytes * row['batches'] / 1e6:.1f}",
        )
        last = row
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
