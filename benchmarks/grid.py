"""The whole grid of 17 scenarios on one shift of 5,000 images: wall time against one pass per scenario.

    python benchmarks/grid.py --device cuda --model resnet50 --json benchmarks/results/h200-grid-resnet50.json
    python benchmarks/grid.py --device cuda --model vit_b_16 --naive standard,lame,neo,tent

Both ways run the same engine, warm-ups and sentinels included, in this process and in turn. Weights and images are
random and the filters of methods opened, so that every method does its full work on every batch. `--naive` names
the methods that are also run one pass per scenario (all of them on ViT-B/16 would take over half an hour).
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import torch
import typer
from rich.table import Table

import tempora
from common import Device, JsonFile, console, write
from engine import fitting, gpu_idle, synthetic
from methods import OPEN
from tempora import models
from tempora.engine import Observer
from tempora.methods.testing import sharpened
from tempora.scenarios import relative_grid
from tempora.store import Results


class Stopwatch(Observer):
    """Seconds per method: warm-ups, sentinels, passes, writing."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.passes: dict[str, int] = {}

    def task_started(self, method: str, shift: str, seed: int) -> None:
        self._method, self._start = method, time.perf_counter()
        self.passes[method] = 0

    def pass_started(self, kind: str, batches: int) -> None:
        if kind in ("offline", "tail", "live"):
            self.passes[self._method] += 1

    def task_finished(self, method: str, shift: str, seed: int) -> None:
        self.seconds[method] = time.perf_counter() - self._start


def run(
    model: models.Classifier, given: list[Any], names: list[str], **options: Any
) -> tuple[Stopwatch, Results]:
    watch = Stopwatch()
    chosen = [(name, OPEN.get(name, {})) for name in names]
    results = tempora.evaluate(model, given, chosen, relative_grid(), observer=watch, **options)
    return watch, results


def main(
    device: Device = "cpu",
    model: Annotated[str, typer.Option(help="Any name that tempora.models.load takes.")] = "fashion_resnet",
    batches: Annotated[int, typer.Option(help="78 of 64 images: one shift of 5,000.")] = 78,
    batch_size: int = 64,
    only: Annotated[str, typer.Option(help="Methods, with commas; default all that fit.")] = "",
    naive: Annotated[str, typer.Option(help="Methods to run one pass per scenario too, or all.")] = "all",
    tail_batches: Annotated[int, typer.Option(help="Batches of an untimed frozen tail at once.")] = 1,
    json_file: JsonFile = None,
) -> None:
    torch.manual_seed(0)
    classifier = models.load(model, pretrained=False).to(device)
    given = synthetic(classifier, batches, batch_size)
    classifier = sharpened(classifier, given[0][0].to(device))
    names = [name for name in fitting(classifier) if not only or name in only.split(",")]
    compared = names if naive == "all" else [name for name in names if name in naive.split(",")]

    start = time.perf_counter()
    shared, results = run(classifier, given, names, device=device, tail_batches=tail_batches)
    shared_wall_s = time.perf_counter() - start
    baseline_ms = float(results.manifest["baseline"]["baseline_ms"])
    traces = results.traces.drop_duplicates(["method", "index"])
    service_ms = (traces["predict_ms"] + traces["adapt_ms"]).groupby(traces["method"]).mean()
    figures: dict[str, Any] = {
        "model": model,
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "torch": torch.__version__,
        "batches": batches,
        "batch_size": batch_size,
        "tail_batches": tail_batches,
        "scenarios": int(results.utilities["scenario"].nunique()),
        "baseline_ms": baseline_ms,
        "verdict": results.manifest["verdict"]["text"],
        "shared_wall_s": shared_wall_s,
        "methods": {
            name: {
                "service_ms": float(service_ms[name]),
                "shared_passes": shared.passes[name],
                "shared_s": shared.seconds[name],
            }
            for name in names
        },
    }
    if device == "cuda":
        figures["gpu_idle"] = gpu_idle(classifier, given, names)
    write(figures, json_file)  # the rest takes longer, and may be cut off

    naive_s = 0.0
    for name in compared:
        apart, _ = run(classifier, given, [name], device=device, share=False, baseline_ms=baseline_ms)
        figures["methods"][name] |= {"naive_passes": apart.passes[name], "naive_s": apart.seconds[name]}
        naive_s += apart.seconds[name]
        figures["speedup"] = naive_s / sum(
            row["shared_s"] for row in figures["methods"].values() if "naive_s" in row
        )
        write(figures, json_file)
    show(figures)


def show(figures: dict[str, Any]) -> None:
    console.print(
        f"{figures['model']}, {figures['device']}: {figures['scenarios']} scenarios, {len(figures['methods'])} "
        f"methods, {figures['batches']} batches, {figures['shared_wall_s']:.0f} s; λ {figures['baseline_ms']:.2f} ms"
    )
    table = Table(
        "method",
        "ms a batch",
        "passes",
        "one per scenario",
        "seconds",
        "one per scenario",
        "GPU busy",
        box=None,
    )
    for name, row in figures["methods"].items():
        idle = figures.get("gpu_idle", {}).get(name)
        table.add_row(
            name,
            f"{row['service_ms']:.1f}",
            str(row["shared_passes"]),
            str(row.get("naive_passes", "")),
            f"{row['shared_s']:.1f}",
            f"{row['naive_s']:.1f}" if "naive_s" in row else "",
            "" if idle is None else f"{1 - idle:.0%}",
        )
    console.print(table)
    compared = sum("naive_s" in row for row in figures["methods"].values())
    if compared:
        console.print(f"sharing: {figures['speedup']:.1f} times less time, over {compared} methods")


if __name__ == "__main__":
    typer.run(main)
