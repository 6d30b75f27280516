"""Does a measured pass time what a bare loop times, or does something of ours run beside the timed calls?

    python benchmarks/timed_passes.py
    python benchmarks/timed_passes.py --device cuda --model resnet50 --json benchmarks/results/h200-timed-passes.json

The same batches through the same method, in turns within every round, so that a machine that is slower for a while
slows all of them:

- bare: wait for the device, predict, wait, adapt, wait; nothing else between two batches;
- pass: the engine's own offline pass, with its guard, its notes and a fresh copy of every batch;
- snapshots: the same pass with a strict budget, which keeps the state before every batch;
- a thread, main thread: the bare loop in a new thread, and in the main one again.

Milliseconds per batch (median of a round), and over the bare loop of the same round (median over rounds). On a CPU
these are CPU times of one thread. A pass leaves the processor's caches cold, which costs a tiny network some tenths
of a millisecond, as whatever a service does between two batches will.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import numpy as np
import torch
import typer
from rich.table import Table

import tempora_tta as tempora
from common import Device, JsonFile, console, write
from engine import synthetic
from methods import OPEN
from tempora_tta import methods, models
from tempora_tta.data import Stream, from_batches
from tempora_tta.engine.kept_states import BudgetWatch
from tempora_tta.engine.passes import Pass
from tempora_tta.measure import MeasuredClock
from tempora_tta.methods import Method
from tempora_tta.methods.contract import adapt_at, predict_at
from tempora_tta.methods.testing import sharpened
from tempora_tta.scenarios import Budget, Offline

T = TypeVar("T")


class Stopwatch(MeasuredClock):
    """Measured, and on a CPU by processor time: others' work is not part of it."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._on_processor = device.type == "cpu"

    def time(self, work: Callable[[], T]) -> tuple[T, float]:
        if not self._on_processor:
            return super().time(work)
        start = time.thread_time_ns()
        return work(), (time.thread_time_ns() - start) / 1e6


def bare(method: Method, inputs: list[torch.Tensor], clock: Stopwatch) -> list[float]:
    method.reset()
    found = []
    for x in inputs:
        _, predict_ms = clock.time(lambda x=x: predict_at(method, x))
        _, adapt_ms = clock.time(lambda: adapt_at(method))
        found.append(predict_ms + adapt_ms)
    return found


def passed(run: Pass, strict: bool) -> list[float]:
    resolved = Offline().resolve(num_batches=run.stream.num_batches, baseline_ms=1.0)
    watches = [BudgetWatch(Budget(1e12, 1.0, "strict"))] if strict else []
    return [float(ms) for ms in run.offline(resolved, watches).service_ms]


def in_a_thread(work: Callable[[], list[float]]) -> list[float]:
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.extend(work()))
    thread.start()
    thread.join()
    return found


def measured(
    classifier: models.Classifier, name: str, stream: Stream, rounds: int
) -> dict[str, dict[str, float]]:
    method = methods.create(name, classifier, **OPEN.get(name, {}))
    clock = Stopwatch(classifier.device)
    inputs = [stream.batch(index) for index in range(stream.num_batches)]
    run = Pass(method, name, stream, clock)
    ways: dict[str, Callable[[], list[float]]] = {
        "bare": lambda: bare(method, inputs, clock),
        "pass": lambda: passed(run, strict=False),
        "snapshots": lambda: passed(run, strict=True),
        "a thread": lambda: in_a_thread(lambda: bare(method, inputs, clock)),
        "main thread": lambda: bare(method, inputs, clock),
    }
    run.warm_up(5)
    times: dict[str, list[float]] = {way: [] for way in ways}
    with tempora.deploy(classifier, name, device=classifier.device, example=inputs[0]) as pipeline:
        pipeline.submit(inputs[0]).result()
    for number in range(-1, rounds):  # the first warms up
        for way, work in ways.items():
            median_ms = float(np.median(work()))
            if number >= 0:
                times[way].append(median_ms)
    return {
        way: {
            "ms": float(np.median(found)),
            "x": float(np.median(np.array(found) / np.array(times["bare"]))),
        }
        for way, found in times.items()
    }


def main(
    device: Device = "cpu",
    model: Annotated[
        str, typer.Option(help="Any name that tempora_tta.models.load takes.")
    ] = "fashion_resnet",
    only: Annotated[str, typer.Option(help="Methods, with commas.")] = "standard,tent,eta,deyo",
    batches: int = 24,
    batch_size: int = 64,
    rounds: int = 5,
    json_file: JsonFile = None,
) -> None:
    torch.manual_seed(0)
    if device == "cpu":
        torch.set_num_threads(1)
    classifier = models.load(model, pretrained=model.startswith("fashion")).to(device)
    given = synthetic(classifier, batches, batch_size)
    classifier = sharpened(classifier, given[0][0].to(device))
    stream = from_batches("synthetic", given, classifier.num_classes, device)
    rows: dict[str, Any] = {}
    table = Table("method", "bare ms", "pass", "snapshots", "a thread", "main thread", box=None)
    for name in only.split(","):
        rows[name] = found = measured(classifier, name, stream, rounds)
        ratios = (f"{one['x']:.3f}" for way, one in found.items() if way != "bare")
        table.add_row(name, f"{found['bare']['ms']:.2f}", *ratios)
    console.print(table)
    machine = torch.cuda.get_device_name() if device.startswith("cuda") else device
    settings = {"model": model, "device": machine, "batches": batches, "batch_size": batch_size}
    write({**settings, "rounds": rounds, "methods": rows}, json_file)


if __name__ == "__main__":
    typer.run(main)
