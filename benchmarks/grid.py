"""The whole grid of 17 scenarios on one shift of 5,000 images: wall time against one pass per scenario.

    python benchmarks/grid.py --device cuda --model resnet50 --json benchmarks/results/h200-grid-resnet50.json
    python benchmarks/grid.py --device cuda --model vit_b_16 --only standard,neo,tent --out runs/vit --json vit.json
    python benchmarks/grid.py --device cuda --model vit_b_16 --naive neo,tent         --out runs/vit --json vit.json

Both ways run the same engine, warm-ups and sentinels included, on one machine and in turn. Weights and images are
random and the filters of methods opened, so that every method does its full work on every batch. `--naive` names
the methods that are also run one pass per scenario (all of them on ViT-B/16 take over half an hour). With `--out`
a second command goes on where the first ended, with the same lambda, and adds to its JSON: for a machine that is
lent for minutes at a time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import tempora_tta as tempora
from common import Device, JsonFile, committed, console, markdown_table, script, write
from engine import fitting, gpu_idle, synthetic
from methods import OPEN
from tempora_tta import models
from tempora_tta._numbers import percent
from tempora_tta.engine import Observer
from tempora_tta.methods.testing import sharpened
from tempora_tta.scenarios import relative_grid
from tempora_tta.store import Results, RunFolder


class Stopwatch(Observer):
    """Seconds of each method that made any pass: warm-ups, sentinels, repeats and writing included."""

    def __init__(self, finished: Callable[[str, float], None] = lambda *_: None) -> None:
        self._finished = finished
        self._worked, self._start = False, 0.0

    def task_started(self, method: str, shift: str, seed: int) -> None:
        self._worked, self._start = False, time.perf_counter()

    def pass_started(self, kind: str, batches: int) -> None:
        self._worked |= kind in ("offline", "tail", "live")

    def task_finished(self, method: str, shift: str, seed: int) -> None:
        if self._worked:  # else all of them were there
            self._finished(method, time.perf_counter() - self._start)


@dataclass
class Grid:
    """The work, and the figures of it so far."""

    classifier: models.Classifier
    given: list[Any]
    options: dict[str, Any]
    json_file: Path | None
    figures: dict[str, Any]

    def share(self, names: list[str], out: Path | None) -> None:
        """All scenarios of these methods, with as few passes as give the same results."""
        start = time.perf_counter()
        results = self._run(names, "shared", out=out)
        self.figures["commands"] = self.figures.get("commands", 0) + 1
        self.figures["shared_wall_s"] = self.figures.get("shared_wall_s", 0.0) + time.perf_counter() - start
        traces = results.traces.drop_duplicates(["method", "index"])
        service_ms = (traces["predict_ms"] + traces["adapt_ms"]).groupby(traces["method"]).mean()
        for name in names:
            self.figures["methods"][name]["service_ms"] = float(service_ms[name])
        self.figures |= {
            "scenarios": int(results.utilities["scenario"].nunique()),
            "baseline_ms": float(results.manifest["baseline"]["baseline_ms"]),
            "verdict": results.manifest["verdict"]["text"],
            "doubts": doubts(results.path),
        }
        write(self.figures, self.json_file)

    def compare(self, names: list[str]) -> None:
        """One pass per scenario, of the methods for which that is not known yet."""
        missing = [name for name in names if "naive_s" not in self.figures["methods"][name]]
        if missing:
            self._run(missing, "naive", share=False, baseline_ms=self.figures["baseline_ms"])

    def _run(self, names: list[str], way: str, **options: Any) -> Results:
        def finished(name: str, seconds: float) -> None:
            self.figures["methods"].setdefault(name, {})[f"{way}_s"] = seconds
            write(self.figures, self.json_file)  # what follows takes long, and may be cut off

        chosen = [(name, OPEN.get(name, {})) for name in names]
        watch = Stopwatch(finished)
        options = self.options | options
        results = tempora.evaluate(
            self.classifier, self.given, chosen, relative_grid(), observer=watch, **options
        )
        # Those that are kept: a pass whose timing was disturbed is made again, and counts once.
        made = [one.identity["method"] for one in results.folder.passes().values()]
        for name in names:
            self.figures["methods"][name][f"{way}_passes"] = made.count(name)
        return results


def doubts(run: Path) -> list[str]:
    """List the passes that are not VALID, with their reasons."""
    with RunFolder.for_writing(run) as folder:
        passes = [(made.identity, made.facts.get("verdict")) for made in folder.passes().values()]
    return [
        f"{identity['method']} {identity['kind']}: {verdict['status']}, {'; '.join(verdict['reasons'])}"
        for identity, verdict in passes
        if verdict and verdict["reasons"]
    ]


def main(
    device: Device = "cpu",
    model: Annotated[
        str, typer.Option(help="Any name that tempora_tta.models.load takes.")
    ] = "fashion_resnet",
    batches: Annotated[int, typer.Option(help="78 of 64 images: one shift of 5,000.")] = 78,
    batch_size: int = 64,
    only: Annotated[str, typer.Option(help="Methods, with commas; default all that fit.")] = "",
    naive: Annotated[
        str, typer.Option(help="Methods to run one pass per scenario too, or all, or none.")
    ] = "all",
    out: Annotated[Path | None, typer.Option(help="Run folder to begin or to go on with.")] = None,
    json_file: JsonFile = None,
) -> None:
    torch.manual_seed(0)
    classifier = models.load(model, pretrained=False).to(device)
    given = synthetic(classifier, batches, batch_size)
    classifier = sharpened(classifier, given[0][0].to(device))
    known = fitting(classifier)
    names = [name for name in known if not only or name in only.split(",")]
    compared = names if naive == "all" else [name for name in names if name in naive.split(",")]
    work = {
        "model": model,
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "torch": torch.__version__,
        "batches": batches,
        "batch_size": batch_size,
    }
    goes_on = out is not None and out.exists() and json_file is not None and json_file.exists()
    figures = json.loads(json_file.read_text(encoding="utf-8")) if goes_on else work | {"methods": {}}
    if figures | work != figures:
        raise SystemExit(f"{json_file} holds other work; name another file, or leave out --out")
    options = {"clock": "measured", "device": device}
    grid = Grid(classifier, given, options, json_file, figures)
    grid.share(names, out)
    if device == "cuda":
        idle = figures.setdefault("gpu_idle", {})
        idle |= gpu_idle(classifier, given, [name for name in names if name not in idle], OPEN)
        write(figures, json_file)
    grid.compare(compared)
    figures["methods"] = {name: figures["methods"][name] for name in known if name in figures["methods"]}
    write(figures, json_file)
    console.print("\n\n".join(told(figures)), markup=False, soft_wrap=True)


def told(figures: dict[str, Any]) -> list[str]:
    """Return what the grid took, method by method, as Markdown."""
    rows = figures["methods"]
    passes_s = sum(row["shared_s"] for row in rows.values())
    commands = f" in {figures['commands']} commands" if figures.get("commands", 1) > 1 else ""
    lines = []
    for name, row in rows.items():
        idle = figures.get("gpu_idle", {}).get(name)
        naive = (row["naive_passes"], f"{row['naive_s']:.1f}") if "naive_s" in row else ("", "")
        busy = "" if idle is None else percent(1 - idle, 0)
        service = f"{row['service_ms']:.1f}", row["shared_passes"]
        lines.append((name, *service, naive[0], f"{row['shared_s']:.1f}", naive[1], busy))
    return [
        f"{figures['scenarios']} scenarios on {figures['batches']} batches of {figures['batch_size']} images took "
        f"{figures['shared_wall_s']:.0f} s{commands}, {passes_s:.0f} s of them the methods' passes, the rest "
        f"calibration and set-up. {against_naive(rows)} The verdict on the timing: {figures['verdict']}.",
        markdown_table(HEAD, lines),
        *(f"- {doubt}" for doubt in figures.get("doubts", [])),
    ]


def against_naive(rows: dict[str, dict[str, float]]) -> str:
    """Say what sharing saved: over all methods if all were run one pass per scenario too, else one by one."""
    compared = {name: row for name, row in rows.items() if "naive_s" in row}
    if len(compared) < len(rows):
        times = (f"{row['naive_s'] / row['shared_s']:.1f} ({name})" for name, row in compared.items())
        return f"One pass per scenario took longer by a factor of: {', '.join(times) or 'not run'}."
    naive_s, shared_s = (sum(row[key] for row in rows.values()) for key in ("naive_s", "shared_s"))
    return f"One pass per scenario took {naive_s:.0f} s, {naive_s / shared_s:.1f} times longer."


def page() -> Iterator[str]:
    yield "The whole grid of scenarios on one shift"
    yield ABOUT
    for figures in committed("*-grid-*").values():
        yield f"## {figures['model']}, {figures['device']}, torch {figures['torch']}"
        yield from told(figures)


HEAD = ("", "ms a batch", "passes", "one per scenario", "seconds", "one per scenario", "GPU busy")
ABOUT = """\
`python benchmarks/grid.py --device cuda --model resnet50`. GPU busy: the share of a method's timed service in
which a kernel ran, taken with the methods' own filters; the times next to it with filters opened. Sharing
saves most where methods are history-free; the others need a live pass wherever an interval skips batches, and
every timed pass has its warm-up and its sentinel. INVALID: the times of some passes drifted or had outliers."""


if __name__ == "__main__":
    script(lambda: typer.run(main), page)
