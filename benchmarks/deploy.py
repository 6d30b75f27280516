"""What the live pipeline costs, and whether the simulator tells what it lives.

    python benchmarks/deploy.py overhead --device cuda --model resnet50
    python benchmarks/deploy.py lived --device cuda --grids camera,server --methods standard,neo,tent

`overhead`: a batch through `Pipeline.submit` against the same calls made directly, in turns; wall times, because the
difference is mostly waiting for threads. `lived`: a run of the bundled data on this machine's own clock, then all its
cells lived three times: simulated, lived and replayed utility.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Annotated, Any

import torch
import typer
from rich.table import Table

import tempora
from common import Device, JsonFile, console, write
from engine import synthetic
from tempora import methods, models
from tempora.cli.live import _made, show_lived
from tempora.engine.live import live
from tempora.measure.device import synchroniser
from tempora.methods.testing import sharpened

app = typer.Typer()


@app.command()
def overhead(
    device: Device = "cpu",
    model: Annotated[str, typer.Option(help="Any name that tempora.models.load takes.")] = "fashion_resnet",
    only: Annotated[str, typer.Option(help="Methods, with commas.")] = "standard,neo,tent",
    batch_size: int = 64,
    batches: int = 200,
    json_file: JsonFile = None,
) -> None:
    torch.manual_seed(0)
    classifier = models.load(model, pretrained=model.startswith("fashion")).to(device)
    x = synthetic(classifier, 1, batch_size)[0][0].to(device)
    classifier = sharpened(classifier, x)
    table = Table("method", "direct ms", "pipeline ms", "ratio", "overhead µs", "response µs", box=None)
    found: dict[str, Any] = {}
    for name in only.split(","):
        found[name] = one = _overhead(classifier, name, x, batches)
        times = f"{one['direct_ms']:.3f}", f"{one['pipeline_ms']:.3f}", f"{one['ratio']:.4f}"
        table.add_row(name, *times, f"{one['overhead_us']:.0f}", f"{one['response_overhead_us']:.0f}")
    console.print(table)
    kind = torch.cuda.get_device_name() if device.startswith("cuda") else device
    write(
        {"model": model, "device": kind, "batch_size": batch_size, "batches": batches, "methods": found},
        json_file,
    )


def _overhead(classifier: models.Classifier, name: str, x: torch.Tensor, batches: int) -> dict[str, float]:
    """Medians: the whole turn, until the device is done, and the part before the answer."""
    method = methods.create(name, classifier)
    wait = synchroniser(classifier.device)

    def directly() -> tuple[float, float]:
        begin = time.perf_counter_ns()
        method.predict(x).detach().to("cpu", copy=True)
        answered = time.perf_counter_ns()
        method.adapt()
        wait()
        return answered - begin, time.perf_counter_ns() - begin

    with tempora.deploy(classifier, name, device=classifier.device, example=x) as pipeline:

        def live_turn() -> tuple[float, float]:
            begin = time.perf_counter_ns()
            pipeline.submit(x).result()
            answered = time.perf_counter_ns()
            pipeline.wait()
            return answered - begin, time.perf_counter_ns() - begin

        (direct_answer, direct), (live_answer, lived) = _in_turns(directly, live_turn, batches=batches)
    return {
        "direct_ms": direct / 1e6,
        "pipeline_ms": lived / 1e6,
        "ratio": lived / direct,
        "overhead_us": (lived - direct) / 1e3,
        "response_overhead_us": (live_answer - direct_answer) / 1e3,
    }


def _in_turns(*work: Callable[[], tuple[float, float]], batches: int) -> list[tuple[float, float]]:
    for each in work:
        for _ in range(10):
            each()
    times = [[each() for each in work] for _ in range(batches)]
    return [
        (median(row[place][0] for row in times), median(row[place][1] for row in times))
        for place in range(len(work))
    ]


@app.command()
def lived(
    device: Device = "cpu",
    model: str = "fashion_resnet",
    only: Annotated[str, typer.Option(help="Methods, with commas.")] = "standard,neo,tent",
    grids: Annotated[
        str, typer.Option(help="Names from `tempora list scenarios`, with commas.")
    ] = "camera,server",
    shifts: str = "contrast",
    batches: int = 60,
    batch_size: int = 64,
    clock: str = "steady",
    threads: int = 1,
    repeats: int = 3,
    json_file: JsonFile = None,
) -> None:
    figures: dict[str, Any] = {
        "model": model,
        "device": device,
        "clock": clock,
        "repeats": repeats,
        "cells": [],
    }
    for grid in grids.split(","):
        flags = {"device": device, "model": model, "methods": only.split(","), "grid": grid, "clock": clock}
        flags |= {"data.shifts": shifts, "batches": batches, "batch_size": batch_size, "threads": threads}
        cells = live(_made(flags), cells=10_000, repeats=repeats)
        console.rule(grid)
        show_lived(cells)
        for cell in cells:
            names = ("utility", "availability", "response_ms", "replayed")
            figures["cells"].append(
                {"grid": grid, "method": cell.method, "label": cell.label, "simulated": cell.simulated}
                | {f"lived_{name}": [getattr(life, name) for life in cell.lives] for name in names}
            )
        apart = [abs(cell.simulated - cell.mean("utility")) for cell in cells]
        logic = [abs(life.replayed - life.utility) for cell in cells for life in cell.lives]
        console.print(
            f"{grid}: profile against lived, mean {100 * sum(apart) / len(apart):.2f} and largest "
            f"{100 * max(apart):.2f} points; lived times replayed against lived, largest {100 * max(logic):.2f}"
        )
    write(figures, json_file)


if __name__ == "__main__":
    app()
