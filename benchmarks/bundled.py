"""All methods on the bundled benchmark: offline, under pressure, and on streams that never end.

    python benchmarks/bundled.py --jobs 2 --json benchmarks/results/bundled.json
    python benchmarks/bundled.py --jobs 16 --device cuda --json benchmarks/results/bundled.json

Times first, one method after the other: the milliseconds of its predict and adapt, medians over some batches; on a
CPU those of one core. They are the clock of everything else, so that the passes may run side by side. Then every
method on four shifts (one per group of corruptions), one task per method, shift and seed; MEMO, CoTTA and FOA have
one seed. Then continual streams: the fifteen corruptions one after the other without a reset.

Finished tasks are kept in the file of passes, and the same command goes on from there; `--tables-only` sums up what
is there. The tables are docs/all-methods.md.
"""

from __future__ import annotations

import json
import statistics
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
from common import Device, JsonFile, timed, write
from tempora_tta.data import CORRUPTIONS, bundled, open_stream
from tempora_tta.engine.config import RunConfig
from tempora_tta.engine.setup_data import source_images
from tempora_tta.models import Classifier
from tempora_tta.scenarios import Amortised, Continuous, Discrete

SHIFTS = ("gaussian_noise", "motion_blur", "frost", "contrast")
SEEDS = (2025, 2026, 2027)
SCENARIOS = (Discrete(utilisation=0.5), Continuous(threshold_x=5.0), Amortised(budget_x=0.25))
EVERYWHERE = (
    *("standard", "lame", "neo", "t3a", "tent", "eta", "eata", "rdumb", "shot_im", "sar", "deyo", "cmf"),
    *("roid", "rotta", "cotta", "memo"),
)
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
PAGE = Path(__file__).parents[1] / "docs/all-methods.md"


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
        for name, shift in bundled.shifts(names).items()
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
    """What the method got out of each scenario."""
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
    """Whatever is missing of these networks, several at a time."""
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
            for protocol in ("offline", "discrete", "continuous", "amortised"):
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


def tables(found: dict[str, Any]) -> dict[str, str]:
    """The results as Markdown, by name."""
    discrete, continuous, amortised = found["scenarios"]
    single = ["| network | method | × Standard's time | stepped | offline |"]
    single[0] += f" {discrete} | {continuous} | {amortised} | batches × seeds |"
    single.append("|---|---|" + "---:|" * 7)
    for row in found["rows"]:
        values = [row[key] for key in ("stepped_fraction", "offline", "discrete", "continuous", "amortised")]
        single.append(
            f"| {row['network']} | {row['method']} | {row['x_standard']:.1f} | "
            + " | ".join(_percent(value) for value in values)
            + f" | {row['batches']} × {row['seeds']} |"
        )
    continual = [
        f"| network | method | × Standard's time | stepped | first five | last five | all | {discrete} |",
        "|---|---|" + "---:|" * 6,
    ]
    for row in found["continual"]:
        values = [row[key] for key in ("stepped_fraction", "first_five", "last_five", "offline", "discrete")]
        continual.append(
            f"| {row['network']} | {row['method']} | {row['x_standard']:.1f} | "
            + " | ".join(_percent(value) for value in values)
            + " |"
        )
    return {
        "under pressure": "\n".join(single),
        "continual": "\n".join(continual),
        "against tent": _against_tent(found["continual"]),
    }


def _against_tent(streams: list[dict[str, Any]]) -> str:
    """What each gains on its network's stream, what that costs, and how it ends."""
    tent = {row["network"]: row for row in streams if row["method"] == "tent"}
    lines = ["| network | method | offline | last five | × Tent's time |", "|---|---|---:|---:|---:|"]
    for row in streams:
        base = tent[row["network"]]
        if row["method"] not in ("tent", "standard"):
            points = (f"{100 * (row[key] - base[key]):+.1f}" for key in ("offline", "last_five"))
            slower = row["x_standard"] / base["x_standard"]
            lines.append(f"| {row['network']} | {row['method']} | {' | '.join(points)} | {slower:.1f} |")
    return "\n".join(lines)


MADE_FOR = {
    "eata": "is to forget less than ETA: it holds on to what mattered on clean images",
    "rdumb": "is never to collapse: it starts over now and then",
    "cotta": "is to survive long streams: a slow teacher, averaged views, a few weights put back",
    "rotta": "is to stand correlated classes, which this stream has not: a balanced memory, slow statistics",
    "roid": "is to steer clear of collapse: it weights samples and mixes in source weights",
}


def _verdicts(found: dict[str, Any]) -> list[str]:
    """A line each: what it was made for, and what came of it here."""
    streams = {(row["network"], row["method"]): row for row in found["continual"]}
    networks = list(dict.fromkeys(network for network, _ in streams))
    lines = []
    for name, purpose in MADE_FOR.items():
        told = []
        for network in networks:
            own, tent = (streams[network, other]["offline"] for other in (name, "tent"))
            floor = streams[network, "standard"]["offline"]
            below = ", below Standard" if own < floor else ""
            told.append(f"{100 * (own - tent):+.1f} against Tent on {network}{below}")
        lines.append(f"- **{name}** {purpose}. Here {'; '.join(told)}.")
    collapsed = [
        f"{row['method']} on {row['network']}"
        for row in found["continual"]
        if row["last_five"] < streams[row["network"], "standard"]["last_five"] - 0.02
    ]
    told = ", ".join(collapsed) or "no method"
    lines += [
        "",
        f"Over the last five corruptions {told} ended more than two points below Standard. Where nothing collapses,",
        "what guards against it costs time and, as RDumb shows, some of what was learned.",
    ]
    return lines


def write_page(found: dict[str, Any]) -> None:
    """docs/all-methods.md, all of it."""
    made = tables(found)
    discrete, continuous, amortised = found["scenarios"]
    shifts, every = ", ".join(found["shifts"]), found["continual_settings"]["rdumb"]["reset_every"]
    lines = [
        "# All methods on the bundled benchmark",
        "",
        "Made by `python benchmarks/bundled.py`. Utilities in percent, means over",
        f"{shifts} (severity 5, batches of 64) and over seeds.",
        f"Times are those of {found['device']}, and the clock of every scenario:",
        f"{discrete}, {continuous}, {amortised}. Settings are those of `src/tempora_tta/models/recipes.json`,",
        "where there are any. *Stepped* is the share of batches that a method learned from when it might have",
        "learned from all.",
        "",
        "The networks are small: on a GPU their forward takes about a millisecond, most of it spent on starting",
        "kernels, so whatever a method does besides weighs more than it would on a large network (for those see",
        "[Benchmarks](benchmarks.md)).",
        "",
        "## Offline and under pressure",
        "",
        made["under pressure"],
        "",
        "## On streams that never reset",
        "",
        f"The fifteen corruptions one after the other, {found['segment_batches']} batches each, in an order that the",
        f"seed decides. RDumb starts over every {every} batches; with its usual 1000 it would be ETA here.",
        "",
        made["continual"],
        "",
        "### Does each do what it was made for?",
        "",
        "Points over the whole stream against Tent, and time against Tent's:",
        "",
        made["against tent"],
        "",
        *_verdicts(found),
        "",
    ]
    PAGE.write_text("\n".join(lines), encoding="utf-8")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


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
    write_page(found)


if __name__ == "__main__":
    typer.run(main)
