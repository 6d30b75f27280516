"""Do a demo's answers hold on a noisy machine? `python benchmarks/noise.py` (a quarter of an hour on two cores).

Three demos after each other: one alone, two next to a busy loop on each core. Two things are asked of every pair:

- winners that hold in one run are the winner, or equal with it, in the other;
- utilities are at most 2 points apart, beyond their own timing intervals.

`python benchmarks/noise.py page` writes benchmarks/results/noise.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from common import RESULTS, committed, console, markdown_table, script, write
from tempora_tta.analysis.doubt import EQUAL, HOLDS
from tempora_tta.analysis.of_run import summary_of, winners_of
from tempora_tta.store import Results, open_run

ALONE, BUSY_CORES = "alone", "next to a busy loop on each core"
DEMOS = {"alone": ALONE, "busy-1": BUSY_CORES, "busy-2": BUSY_CORES}
CELL = ["shift", "protocol", "label"]
MOST_APART = 0.02
"""Of two utilities, beyond their timing intervals."""


def main(
    quick: Annotated[
        bool, typer.Option("--quick", help="tempora demo --quick: does the script work?")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Keep the run folders here.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the figures go.")] = None,
) -> None:
    """Print and write the figures; exit status 1 if a winner or a utility did not hold."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        runs = [demo(folder / name, load, quick) for name, load in DEMOS.items()]
        opened = {name: open_run(folder / name) for name in DEMOS}
        figures = {
            "command": "tempora demo --quick" if quick else "tempora demo",
            "cores": cores(),
            "machine": str(opened["alone"].manifest["machine"].get("cpu", "")),
            "runs": [told | about(found) for told, found in zip(runs, opened.values(), strict=True)],
            "pairs": [
                {"of": [first, second], **compared(opened[first], opened[second])}
                for first, second in combinations(DEMOS, 2)
            ],
        }
    show(figures)
    write(figures, json_file or (None if quick else RESULTS / "noise.json"))
    if any(pair["winners_lost"] or pair["utilities_apart"] for pair in figures["pairs"]):
        raise typer.Exit(1)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def demo(folder: Path, load: str, quick: bool) -> dict[str, Any]:
    """One demo into a folder of its own, and how long it took."""
    command = [sys.executable, "-m", "tempora_tta", "demo", "--plain", "--out", str(folder)]
    average = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    console.print(f"{folder.name}: {load}; load average {average} before it")
    with busy_loops(cores() if load == BUSY_CORES else 0):
        began = time.monotonic()
        done = subprocess.run([*command, *(["--quick"] if quick else [])], capture_output=True, text=True)
        seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"tempora demo failed:\n{done.stdout}\n{done.stderr}")
    return {"name": folder.name, "load": load, "load_before": average, "wall_s": round(seconds, 1)}


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep `count` cores busy, each by a process bound to it."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY, str(number)]) for number in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


BUSY = """
import os, sys
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(sys.argv[1])]})
while True:
    pass
"""


def about(results: Results) -> dict[str, Any]:
    """Summarise a run: its baseline, how many cells have a winner that holds, its verdict."""
    summary, manifest = summary_of(results), results.manifest
    return {
        "baseline_ms": manifest["baseline"]["baseline_ms"],
        "cells": summary.cells,
        "holds": summary.holds,
        "equal": summary.equal,
        "by_sampling": summary.by_sampling,
        "by_timing": summary.by_timing,
        "verdict": manifest["verdict"]["text"],
    }


def compared(first: Results, second: Results) -> dict[str, Any]:
    """One pair of runs."""
    judged = [winners_of(results) for results in (first, second)]
    lost, held = lost_winners(*judged)
    apart = distances(first.utilities, second.utilities)
    far = apart[apart["beyond"] > MOST_APART]
    return {
        "winners_held": held,
        "winners_lost": lost,
        "utilities": len(apart),
        "largest_points": round(100 * float(apart["distance"].max()), 2),
        "mean_points": round(100 * float(apart["distance"].mean()), 2),
        "largest_beyond_points": round(100 * float(apart["beyond"].max()), 2),
        "utilities_apart": far[["method", *CELL, "distance", "beyond"]].to_dict("records"),
    }


def lost_winners(first: pd.DataFrame, second: pd.DataFrame) -> tuple[list[dict[str, str]], int]:
    """Winners that hold in one of two runs and are neither winner nor equal in the other; and how many held."""
    lost, held = [], 0
    for here, there in ((first, second), (second, first)):
        cells = here.merge(there, on=CELL, suffixes=("", "_there"))
        for _, cell in cells[cells["verdict"] == HOLDS].iterrows():
            held += 1
            equal = str(cell["equal_with_there"]).split(", ") if cell["verdict_there"] == EQUAL else []
            if cell["method"] not in (cell["method_there"], *equal):
                names = {name: str(cell[name]) for name in CELL}
                said = {"there": str(cell["method_there"]), "verdict_there": str(cell["verdict_there"])}
                lost.append({**names, "holds": str(cell["method"]), **said})
    return lost, held


def distances(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Measure how far apart each utility of two runs is, and its two timing intervals: 0 where they overlap."""
    names = ["utility", "utility_lo", "utility_hi"]
    both = [
        frame.loc[frame["utility"].notna(), ["method", "seed", *CELL, *names]] for frame in (first, second)
    ]
    cells = both[0].merge(both[1], on=["method", "seed", *CELL], suffixes=("", "_there"))
    gaps = pd.concat(
        [cells["utility_lo"] - cells["utility_hi_there"], cells["utility_lo_there"] - cells["utility_hi"]],
        axis=1,
    )
    return cells.assign(
        distance=(cells["utility"] - cells["utility_there"]).abs(), beyond=gaps.max(axis=1).clip(lower=0)
    )


def show(figures: dict[str, Any]) -> None:
    for run in figures["runs"]:
        undecided = run["by_sampling"] + run["by_timing"]
        console.print(
            f"{run['name']}: {run['wall_s']:.0f} s, lambda {run['baseline_ms']:.2f} ms; of {run['cells']} winners "
            f"{run['holds']} hold, {run['equal']} are equal with others, {undecided} are undecided",
            soft_wrap=True,
        )
    for pair in figures["pairs"]:
        console.print(
            f"{' and '.join(pair['of'])}: {pair['winners_held']} winners that hold in one, "
            f"{len(pair['winners_lost'])} of them lost in the other; {pair['utilities']} utilities "
            f"{pair['mean_points']} points apart on average, {pair['largest_points']} at most, "
            f"{pair['largest_beyond_points']} beyond their timing intervals",
            soft_wrap=True,
        )
        for what in (*pair["winners_lost"], *pair["utilities_apart"]):
            console.print(f"  {what}", markup=False, soft_wrap=True)


def page() -> Iterator[str]:
    """Yield the title and the paragraphs of results/noise.md."""
    found = committed("noise")["noise"]
    yield "Answers of a demo on a noisy machine"
    yield (
        f"`{found['command']}` on {found['cores']} cores ({found['machine']}): alone, and twice next to a busy loop "
        "on each core."
    )
    yield markdown_table(
        ["run", "next to it", "wall time", "λ ms", "winners", "hold", "equal", "undecided"],
        (
            [
                run["name"],
                "nothing" if run["name"] == "alone" else "busy loops",
                f"{run['wall_s']:.0f} s",
                f"{run['baseline_ms']:.2f}",
                *(run[name] for name in ("cells", "holds", "equal")),
                run["by_sampling"] + run["by_timing"],
            ]
            for run in found["runs"]
        ),
    )
    yield (
        "Distances in points. *lost*: a winner that holds in one run and is neither winner nor equal in the other. "
        f"*beyond the intervals*: from one timing interval to the other; at most {100 * MOST_APART:g}."
    )
    points = ("mean_points", "largest_points", "largest_beyond_points")
    yield markdown_table(
        ["runs", "hold in one", "lost in the other", "utilities", "mean", "largest", "beyond the intervals"],
        (
            [
                " and ".join(pair["of"]),
                pair["winners_held"],
                len(pair["winners_lost"]),
                pair["utilities"],
                *(f"{pair[name]:.1f}" for name in points),
            ]
            for pair in found["pairs"]
        ),
    )


if __name__ == "__main__":
    script(lambda: typer.run(main), page)
