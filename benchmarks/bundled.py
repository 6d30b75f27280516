"""All methods on the bundled benchmark: offline, under pressure, and on streams that never end.

    python benchmarks/bundled.py --jobs 2 --json benchmarks/results/bundled.json
    python benchmarks/bundled.py --jobs 16 --device cuda --json benchmarks/results/bundled.json

Times first, one method after the other: the milliseconds of its predict and adapt, medians over some batches; on a
CPU those of one core. They are the clock of everything else, so that the passes may run side by side. Then every
method on four shifts (one per group of corruptions), one task per method, shift and seed; MEMO, CoTTA and FOA have
one seed. Then continual streams: the fifteen corruptions one after the other without a reset.

Finished tasks are kept in the file of passes, and the same command goes on from there; `--tables-only` sums up what
is there.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import tempora_tta as tempora
import tempora_tta.methods
import tempora_tta.models
from common import Device, JsonFile, committed, in_percent, markdown_table, script, timed, write
from tempora_tta.config import RunConfig
from tempora_tta.data import CORRUPTIONS, bundled, open_stream
from tempora_tta.engine.images import source_images
from tempora_tta.models import Classifier
from tempora_tta.scenarios import Amortised, Continuous, Discrete

SHIFTS = ("gaussian_noise", "motion_blur", "frost", "contrast")
SEEDS = (2025, 2026, 2027)
SCENARIOS = (Discrete(utilisation=0.5), Continuous(threshold_x=5.0), Amortised(budget_x=0.25))
EVERYWHERE = (
    *("standard", "lame", "neo", "t3a", "tent", "eta", "eata", "rdumb", "shot_im", "sar", "deyo", "cmf"),
    *("roid", "rotta", "cotta", "memo"),
)
PROTOCOLS = ("discrete", "continuous", "amortised")
NETWORKS = {
    "fashion_resnet": (*EVERYWHERE, "adabn", "alpha_bn"),
    "fashion_vit": (*EVERYWHERE, "spa", "zerosiam"),
    "fashion_vit_token": ("standard", "t3a", "foa"),
}
BATCHES = 30
ONE_SEED = ("memo", "cotta", "foa")
CONTINUAL = ("standard", "tent", "eta", "eata", "rdumb", "roid", "rotta", "cotta")
SEGMENT = 10
"""Batches of each corruption in a continual stream."""
SETTINGS = {"rdumb": {"reset_every": 50}}
"""On continual streams: with 1000, RDumb would be ETA on any stream as short as these."""
WARM_UP, TIMED = 2, 8


@dataclass(frozen=True)
class Task:
    """One method on one stream."""

    kind: str
    network: str
    method: str
    shift: str
    seed: int
    batches: int


def tasks() -> list[Task]:
    """All of them, in the order in which they are worth having."""
    found = []
    for seed in SEEDS:
        for network, names in NETWORKS.items():
            for name in names:
                if name in ONE_SEED and seed != SEEDS[0]:
                    continue
                for shift in SHIFTS:
                    found.append(Task("single", network, name, shift, seed, BATCHES))
        for network in ("fashion_resnet", "fashion_vit"):
            for name in CONTINUAL:
                if seed == SEEDS[0]:
                    found.append(Task("continual", network, name, "continual", seed, SEGMENT))
    return sorted(
        found, key=lambda task: (task.method == "memo", task.seed, task.network != "fashion_resnet")
    )


def material(task: Task, model: Classifier) -> Any:
    """Batches of one shift, or of all fifteen by name."""
    names = (task.shift,) if task.kind == "single" else CORRUPTIONS
    streams = {
        name: open_stream(shift, model.preprocessing, seed=task.seed, limit_batches=task.batches)
        for name, shift in bundled.fashion(shifts=names).items()
    }
    return {
        name: [
            (stream.batch(i), torch.from_numpy(stream.labels(i)).long()) for i in range(stream.num_batches)
        ]
        for name, stream in streams.items()
    }


def time_of(network: str, method: str, device: str) -> dict[str, Any]:
    """Median milliseconds of predict and adapt on the first shift."""
    torch.set_num_threads(1)
    model = tempora_tta.models.load(network).to(device)
    made = tempora_tta.methods.create(method, model, source=source_images(RunConfig(), model))
    warm_up, count = (1, 3) if method == "memo" else (WARM_UP, WARM_UP + TIMED)
    (batches,) = material(Task("single", network, method, SHIFTS[0], SEEDS[0], count), model).values()
    found = []
    for x in [x.to(device) for x, _ in batches]:
        _, predict_s = timed(lambda x=x: made.predict(x), device)
        _, adapt_s = timed(made.adapt, device)
        found.append((1000 * predict_s, 1000 * adapt_s))
    predict_ms, adapt_ms = (statistics.median(part) for part in zip(*found[warm_up:], strict=True))
    return {
        "kind": "times",
        "network": network,
        "method": method,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "one core of a CPU",
        "predict_ms": predict_ms,
        "adapt_ms": adapt_ms,
    }


def run(task: Task, clock: dict[str, Any], device: str) -> dict[str, Any]:
    """Evaluate the task's method in its scenarios and return the scores of every cell."""
    torch.set_num_threads(1)
    model = tempora_tta.models.load(task.network)
    continual = task.kind == "continual"
    settings = SETTINGS.get(task.method, {}) if continual else {}
    results = tempora.evaluate(
        model,
        material(task, model),
        [(task.method, settings)],
        SCENARIOS[:1] if continual else SCENARIOS,
        clock=clock,
        device=device,
        seed=task.seed,
        stream={"kind": "continual", "batches": SEGMENT, "reset": "never"} if continual else None,
        source=source_images(RunConfig(), model),
    )
    columns = ["protocol", "label", "utility", "accuracy", "availability", "adapted_fraction"]
    kept = results.utilities[[*columns, "stepped_fraction", "responsiveness"]]
    found = asdict(task) | {"cells": json.loads(kept.to_json(orient="records"))}
    if continual:
        offline = results.segments[results.segments["protocol"] == "offline"].sort_values("position")
        found["segments"] = [
            {"shift": row["segment_shift"], "accuracy": row["accuracy"]} for _, row in offline.iterrows()
        ]
    return found


def known(passes: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in passes.read_text().splitlines()] if passes.exists() else []


def make(passes: Path, jobs: int, networks: list[str], device: str) -> None:
    """Run the tasks of these networks that are still missing, several at a time."""
    passes.parent.mkdir(exist_ok=True, parents=True)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool, passes.open("a") as file:
        done = known(passes)
        have = {(row["network"], row["method"]) for row in done if row["kind"] == "times"}
        wanted = [(network, name) for network in networks for name in NETWORKS[network]]
        for pair in wanted:
            if pair not in have:  # one after the other: they would disturb each other
                file.write(json.dumps(pool.submit(time_of, *pair, device).result()) + "\n")
                file.flush()
        done = known(passes)
        clocks = {network: clock_of(network, done) for network in networks}
        over = {
            Task(**{key: row[key] for key in Task.__dataclass_fields__})
            for row in done
            if row["kind"] != "times"
        }
        futures = [
            pool.submit(run, task, clocks[task.network], device)
            for task in tasks()
            if task.network in clocks and task not in over
        ]
        for future in as_completed(futures):
            file.write(json.dumps(future.result()) + "\n")
            file.flush()


def clock_of(network: str, done: list[dict[str, Any]]) -> dict[str, Any]:
    """The times of one network's methods as a clock; lambda as under `steady`."""
    own = [row for row in done if row["kind"] == "times" and row["network"] == network]
    times = {row["method"]: (row["predict_ms"], row["adapt_ms"]) for row in own}
    return {"baseline_ms": 1.03 * times["standard"][0], **times}


def summed_up(done: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over shifts, then over the seeds that have all of them; how many those are."""
    rows, streams = [], []
    times = {
        (row["network"], row["method"]): row["predict_ms"] + row["adapt_ms"]
        for row in done
        if row["kind"] == "times"
    }
    for network, names in NETWORKS.items():
        for name in names:
            own = [
                row
                for row in done
                if (row["kind"], row["network"], row["method"]) == ("single", network, name)
            ]
            seeds = [seed for seed in SEEDS if {r["shift"] for r in own if r["seed"] == seed} == set(SHIFTS)]
            cells = [cell for row in own if row["seed"] in seeds for cell in row["cells"]]
            if not cells:
                continue
            entry = {
                "network": network,
                "method": name,
                "seeds": len(seeds),
                "batches": own[0]["batches"],
                "x_standard": times[network, name] / times[network, "standard"],
                "stepped_fraction": _mean(
                    [c["stepped_fraction"] for c in cells if c["protocol"] == "offline"]
                ),
            }
            for protocol in ("offline", *PROTOCOLS):
                entry[protocol] = _mean([c["utility"] for c in cells if c["protocol"] == protocol])
            rows.append(entry)
    for row in done:
        if row["kind"] == "continual":
            accuracy = [segment["accuracy"] for segment in row["segments"]]
            cells = {cell["protocol"]: cell for cell in row["cells"]}
            streams.append(
                {
                    "network": row["network"],
                    "method": row["method"],
                    "first_five": _mean(accuracy[:5]),
                    "last_five": _mean(accuracy[-5:]),
                    "offline": cells["offline"]["utility"],
                    "discrete": cells["discrete"]["utility"],
                    "stepped_fraction": cells["offline"]["stepped_fraction"],
                    "x_standard": times[row["network"], row["method"]] / times[row["network"], "standard"],
                }
            )
    order = {name: place for place, name in enumerate(tempora_tta.methods.names())}
    streams.sort(key=lambda row: (list(NETWORKS).index(row["network"]), order[row["method"]]))
    rows.sort(key=lambda row: (list(NETWORKS).index(row["network"]), order[row["method"]]))
    return {
        "device": next((row["device"] for row in done if row["kind"] == "times"), None),
        "shifts": SHIFTS,
        "scenarios": [scenario.label for scenario in SCENARIOS],
        "segment_batches": SEGMENT,
        "continual_settings": SETTINGS,
        "rows": rows,
        "continual": streams,
    }


def page() -> Iterator[str]:
    (found,) = committed("bundled").values()
    discrete, continuous, amortised = found["scenarios"]
    first = ("network", "method", "× Standard's time", "stepped")
    yield "All methods on the bundled benchmark"
    yield ABOUT.format(where=", ".join(found["shifts"]), device=found["device"])
    yield "## Offline and under pressure"
    yield markdown_table(
        (*first, "offline", discrete, continuous, amortised, "batches × seeds"),
        (
            (*_begin(row), *_figures(row, ["offline", *PROTOCOLS]), f"{row['batches']} × {row['seeds']}")
            for row in found["rows"]
        ),
    )
    yield "## On streams that never reset"
    every = found["continual_settings"]["rdumb"]["reset_every"]
    yield CONTINUAL_STREAMS.format(batches=found["segment_batches"], every=every)
    yield markdown_table(
        (*first, "first five", "last five", "all", discrete),
        (
            (*_begin(row), *_figures(row, ["first_five", "last_five", "offline", "discrete"]))
            for row in found["continual"]
        ),
    )


ABOUT = """\
`python benchmarks/bundled.py --jobs 16 --device cuda`. Utilities in percent, means over {where} (severity 5,
batches of 64) and over seeds. Times are those of {device}, and the clock of every scenario. *Stepped* is the share
of batches that a method learned from when it might have learned from all. The networks are small: what a method does
besides a forward weighs more than on a large network ([those](methods.md))."""
CONTINUAL_STREAMS = """\
The fifteen corruptions one after the other, {batches} batches each, in an order that the seed decides. RDumb starts
over every {every} batches; with its usual 1000 it would be ETA here."""


def _begin(row: dict[str, Any]) -> tuple[str, ...]:
    return row["network"], row["method"], f"{row['x_standard']:.1f}", in_percent(row["stepped_fraction"])


def _figures(row: dict[str, Any], names: Sequence[str]) -> list[str]:
    return [in_percent(row[name]) for name in names]


def _mean(values: list[float]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.mean(found) if found else None


def main(
    jobs: Annotated[int, typer.Option(help="Processes, of one core each.")] = 1,
    passes: Annotated[Path, typer.Option(help="Where finished tasks are kept.")] = Path("runs/bundled.jsonl"),
    networks: Annotated[str, typer.Option(help="Only these.")] = ",".join(NETWORKS),
    device: Device = "cpu",
    tables_only: Annotated[bool, typer.Option(help="Make nothing more.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Make what is missing, and sum up."""
    if not tables_only:
        make(passes, jobs, networks.split(","), device)
    found = summed_up(known(passes))
    write(found, json_file)


if __name__ == "__main__":
    script(lambda: typer.run(main), page)
