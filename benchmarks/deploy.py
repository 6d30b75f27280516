"""Cost of the live pipeline, and agreement between the simulator and what the pipeline lives through.

    python benchmarks/deploy.py overhead --json benchmarks/results/cpu-deploy.json
    python benchmarks/deploy.py overhead --device cuda --model resnet50
    python benchmarks/deploy.py lived --json benchmarks/results/cpu-lived.json
    python benchmarks/deploy.py lived --device cuda --model benchmarks/heavy.py:fashion_heavy

`overhead`: a batch through `Pipeline.submit` against the same calls made directly, in turns; wall times, because the
difference is mostly waiting for threads. `lived`: the presets on the bundled data and this machine's own clock, every
cell lived three times: simulated, lived and replayed utility, availability and response. On a machine that does
something else meanwhile it says little.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import torch
import typer

import tempora_tta as tempora
from common import Device, JsonFile, committed, console, in_percent, markdown_table, script, write
from engine import synthetic
from tempora_tta import methods, models
from tempora_tta.cli.live import show_lived
from tempora_tta.engine import Run
from tempora_tta.engine.build import build_job
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.own_profile import PROFILE_FILE
from tempora_tta.methods.testing import sharpened
from tempora_tta.scenarios import Offline
from tempora_tta.serving.live import LivedCell, live
from tempora_tta.store import RunFolder
from tempora_tta.timing.device import synchroniser

app = typer.Typer()


@app.command()
def overhead(
    device: Device = "cpu",
    model: Annotated[
        str, typer.Option(help="Any name that tempora_tta.models.load takes.")
    ] = "fashion_resnet",
    only: Annotated[str, typer.Option(help="Methods, with commas.")] = "standard,neo,tent",
    batch_size: int = 64,
    batches: int = 200,
    json_file: JsonFile = None,
) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    classifier = models.load(model, pretrained=model.startswith("fashion")).to(device)
    x = synthetic(classifier, 1, batch_size)[0][0].to(device)
    classifier = sharpened(classifier, x)
    found = {name: _overhead(classifier, name, x, batches) for name in only.split(",")}
    console.print(overhead_table(found), markup=False, soft_wrap=True)
    settings = {"model": model, "device": device_name(device), "batch_size": batch_size, "batches": batches}
    write({**settings, "methods": found}, json_file)


def device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else device


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
    only: Annotated[str, typer.Option(help="Methods, with commas.")] = "standard,tent",
    grids: Annotated[
        str, typer.Option(help="Names from `tempora list scenarios`, with commas.")
    ] = "camera,server,kiosk,drone,wearable",
    shifts: Annotated[
        str, typer.Option(help="One on which all methods do well: losses show.")
    ] = "jpeg_compression",
    batches: Annotated[
        int, typer.Option(help="Of each life; one that is lost weighs its share in the utility.")
    ] = 50,
    batch_size: int = 32,
    profile_s: float = 20.0,
    repeats: int = 3,
    json_file: JsonFile = None,
) -> None:
    began_s = time.perf_counter()
    clock, cells = "steady", []
    flags = {"device": device, "model": model, "methods": only.split(","), "batches": batches}
    flags |= {"data.shifts": shifts, "batch_size": batch_size, "threads": 1, "profile_s": profile_s}
    with tempfile.TemporaryDirectory() as place:
        for name in grids.split(","):
            with RunFolder.for_writing(Path(place) / name) as folder:
                job = build_job(load_config(None, flags={**flags, "grid": name, "clock": clock}))
                results = Run(job, folder).execute()
            if clock == "steady":  # one profile for all
                clock = str(results.path / PROFILE_FILE)
            found = [cell for cell in live(results, cells=10_000, repeats=repeats) if cell.label != OFFLINE]
            console.rule(name)
            show_lived(found)
            cells += [_row(name, cell) for cell in found]
            seconds = time.perf_counter() - began_s
            baseline_ms = float(results.utilities["baseline_ms"].iloc[0])
            console.print(f"{len(cells)} cells in {seconds:.0f} s, lambda {baseline_ms:.2f} ms")
            machine = {"device": device_name(device), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
            settings = {"model": model, "batches": batches, "batch_size": batch_size, "repeats": repeats}
            times = {"baseline_ms": baseline_ms, "seconds": seconds}
            write({"command": _command(), **machine, **settings, **times, "cells": cells}, json_file)


def _command() -> str:
    """Return the command as it was typed, without the name of the file to write."""
    given = sys.argv[1:]
    at = given.index("--json") if "--json" in given else len(given)
    return " ".join(["python benchmarks/deploy.py", *given[:at], *given[at + 2 :]])


OFFLINE = Offline().label


def _row(grid: str, cell: LivedCell) -> dict[str, Any]:
    """A cell for the file: plain numbers, and of infinite responses none."""
    lives = [{"lived": asdict(one.lived), "replayed": asdict(one.replayed)} for one in cell.lives]
    row = {
        "grid": grid,
        "method": cell.method,
        "label": cell.label,
        "not_judged": cell.outside,
        "handover_us": 1000 * median(life.handover_ms for life in cell.lives),
        "speeds_x": cell.speeds_x,
        "simulated": asdict(cell.simulated),
        "lives": lives,
    }
    for figures in (row["simulated"], *(one[kind] for one in lives for kind in one)):
        figures.update({name: None for name, value in figures.items() if value == math.inf})
    return row


def page() -> Iterator[str]:
    yield "The live pipeline: what it costs, and simulated next to lived"
    for found in committed("*-deploy*").values():
        yield f"## Cost: {found['model']}, {found['device']}"
        yield (
            f"`python benchmarks/deploy.py overhead`: a batch of {found['batch_size']} through `tempora.deploy` "
            "against the same calls made directly, medians."
        )
        yield overhead_table(found["methods"])
    for found in committed("*-lived*").values():
        yield f"## Simulated and lived: {found['model']}, {found['device']}, {found['cores']} cores"
        yield about_lives(found)
        yield markdown_table(HEAD, map(lived_row, found["cells"]))


def overhead_table(rows: dict[str, dict[str, float]]) -> str:
    head = ("", "direct ms", "pipeline ms", "ratio", "overhead µs", "response µs")
    digits = {"direct_ms": 3, "pipeline_ms": 3, "ratio": 4, "overhead_us": 0, "response_overhead_us": 0}
    lines = [(name, *(f"{row[key]:.{n}f}" for key, n in digits.items())) for name, row in rows.items()]
    return markdown_table(head, lines)


def about_lives(found: dict[str, Any]) -> str:
    """Say how the lives were made, and how many cells the profile told within a point."""
    cells = found["cells"]
    judged = [cell for cell in cells if cell["not_judged"] is None]
    kept_up = [cell for cell in judged if cell["simulated"]["availability"] == 1]
    replayed = max(
        abs(one["lived"]["utility"] - one["replayed"]["utility"]) for cell in cells for one in cell["lives"]
    )
    return (
        f"`{found['command']}`: {found['batches']} batches of {found['batch_size']}, "
        f"λ {found['baseline_ms']:.1f} ms, {found['repeats']} lives of every cell, load average {found['load']:.1f}. "
        "Judged are cells with a schedule of utilisation up to 0.7, a queue and no deadline below 1.5 λ: "
        f"{within_a_point(judged)}. Of those in which the method keeps up, so that nothing is lost: "
        f"{within_a_point(kept_up)}. The lived times replayed differ by at most {100 * replayed:.4f} points. Handing "
        f"a batch to the worker took {median(cell['handover_us'] for cell in cells):.0f} µs (median), which no "
        "profile knows of."
    )


def within_a_point(cells: list[dict[str, Any]]) -> str:
    far = [apart(cell) for cell in cells]
    near = sum(distance <= 0.01 for distance in far)
    return f"{near} of {len(far)} within 1 point (largest {100 * max(far, default=0.0):.2f})"


def apart(cell: dict[str, Any]) -> float:
    """Return the distance of the mean lived utility from the simulated one."""
    return abs(lived_mean(cell, "utility") - cell["simulated"]["utility"])


def lived_mean(cell: dict[str, Any], name: str) -> Any:
    """Return the mean over lives, or None where one of them has no such figure."""
    values = [one["lived"][name] for one in cell["lives"]]
    return None if None in values else sum(values) / len(values)


def lived_row(cell: dict[str, Any]) -> tuple[str, ...]:
    simulated, lives = cell["simulated"], sorted(one["lived"]["utility"] for one in cell["lives"])
    spread = f"{in_percent(lived_mean(cell, 'utility'))} ({in_percent(lives[0])} to {in_percent(lives[-1])})"
    served = f"{in_percent(simulated['availability'])}, {in_percent(lived_mean(cell, 'availability'))}"
    p90_ms = ("–" if ms is None else f"{ms:.1f}" for ms in (simulated[P90], lived_mean(cell, P90)))
    verdict = cell["not_judged"] or ("yes" if apart(cell) <= 0.01 else "no")
    name = f"{cell['grid']}: {cell['label']}, {cell['method']}"
    return name, in_percent(simulated["utility"]), spread, served, ", ".join(p90_ms), verdict


P90 = "response_p90_ms"
HEAD = ("", "simulated", "lived", "available, lived", "p90 ms, lived", "within 1 point")


if __name__ == "__main__":
    script(app, page)
