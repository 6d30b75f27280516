"""The amortised scores with statistics as published and averaged: `python benchmarks/frozen_stats.py`.

Every method that tracks BatchNorm statistics, twice: frozen with what it tracked (momentum 0.1 from mean 0,
variance 1), and with the plain mean of the batches that it saw. Writes benchmarks/results/frozen-stats.json. Times
are those of a profile that ships with the package, so that the numbers are the same anywhere.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import tempora_tta as tempora
from common import RESULTS, committed, in_percent, markdown_table, script
from tempora_tta import data, models
from tempora_tta.scenarios import Amortised

CLOCK = "library:h200-resnet50"
BUDGETS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
TRACKING = ("adabn", "tent", "eta", "shot_im", "sar", "deyo", "cmf")


def streams(shifts: list[str], batches: int, seed: int) -> dict[str, list[tuple[torch.Tensor, torch.Tensor]]]:
    preprocessing = models.load("fashion_resnet").preprocessing
    found = {}
    for name, shift in data.open("fashion", shifts=shifts).items():
        stream = data.open_stream(shift, preprocessing, seed=seed, limit_batches=batches, workers=0)
        found[name] = [(stream.batch(i), torch.from_numpy(stream.labels(i))) for i in range(batches)]
    return found


def utilities(kind: str, methods: list[str], given: dict, seed: int) -> pd.DataFrame:
    settings = {} if kind == "published" else {"frozen_stats": kind}
    results = tempora.evaluate(
        models.load("fashion_resnet"),
        given,
        ["standard", "settle", *((name, settings) for name in methods)],
        [Amortised(budget_x=share) for share in BUDGETS],
        clock=CLOCK,
        device="cpu",
        seed=seed,
    )
    return results.utilities.assign(statistics=kind, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shifts", default="contrast,gaussian_noise,pixelate")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--methods", default=",".join(TRACKING))
    parser.add_argument("--out", type=Path, default=RESULTS / "frozen-stats.json")
    options = parser.parse_args()
    shifts, methods = options.shifts.split(","), options.methods.split(",")
    frames = []
    for seed in options.seeds:
        given = streams(shifts, options.batches, seed)
        frames += [utilities(kind, methods, given, seed) for kind in ("published", "averaged")]
    found = pd.concat(frames)
    rows = found.groupby(["statistics", "protocol", "label", "method"], sort=False)
    table = rows[["utility", "cutoff"]].mean().reset_index()
    options.out.write_text(
        json.dumps(
            {
                "model": "fashion_resnet",
                "clock": CLOCK,
                "shifts": shifts,
                "batches": options.batches,
                "seeds": options.seeds,
                "rows": json.loads(table.to_json(orient="records", double_precision=6)),
            },
            indent=1,
        )
        + "\n",
        encoding="utf-8",
    )


def page() -> Iterator[str]:
    (found,) = committed("frozen-stats").values()
    cells = {
        (row["label"], row["method"], row["statistics"]): row
        for row in found["rows"]
        if row["protocol"] == "amortised" and row["utility"] is not None
    }
    labels, names, _ = (list(dict.fromkeys(part)) for part in zip(*cells, strict=True))
    yield "Amortised budgets, statistics as published and averaged"
    yield ABOUT
    yield (
        f"`python benchmarks/frozen_stats.py`: {found['model']}, {', '.join(found['shifts'])}, "
        f"{found['batches']} batches, clock {found['clock']}. Published / averaged, percent; in brackets "
        "the batches that adapted."
    )
    rows = (
        (label, *(_pair(*(cells[label, name, kind] for kind in ("published", "averaged"))) for name in names))
        for label in labels
    )
    yield markdown_table(("budget", *names), rows)


def _pair(published: dict[str, Any], averaged: dict[str, Any]) -> str:
    both = [in_percent(one["utility"]) for one in (published, averaged)]
    if published["utility"] == averaged["utility"]:
        return both[0]
    return f"{both[0]} / {both[1]} ({published['cutoff']:.0f})"


ABOUT = """\
As published, statistics start at mean 0, variance 1 and follow each batch with momentum 0.1. A method that
freezes after m batches predicts with 0.9^m of that beginning. `frozen_stats: averaged` takes the plain mean
of the batches that were seen, and before the first the source's statistics. The order at small budgets is
therefore one of statistics, not of learning: with averaged statistics one batch that was paid for is enough,
and methods lie within a few points of each other. Averaging does not help a budget that pays for no batch."""


if __name__ == "__main__":
    script(main, page)
