"""Worth of single frames and small batches: `python benchmarks/frames.py sizes`, and `... cells`.

sizes: accuracy at batch sizes 1, 4, 16 and 64 on single shifts, on a stream that goes from shift to shift and on one
that returns to them, three orders of the images, without a clock: on both bundled networks and on one of timm's that
is trained here for half a minute. It adds to benchmarks/results/frames-sizes.json; two working trees are compared so.

cells: the best method and size by load and deadline, next to batches of 64 and to frames that are answered at once,
on both bundled networks, three shifts, with times of this machine. It writes benchmarks/results/frames-cells.json.

live: frames in real time, in batches or at once, next to a simulation of the same frames.

`python benchmarks/frames.py page` writes benchmarks/results/frames.md from both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import timm
import torch
import typer
from torch import Tensor

import tempora_tta as tempora
from common import RESULTS, committed, console, in_percent, markdown_table, script, write
from tempora_tta import data, models
from tempora_tta.analysis.replays import answer
from tempora_tta.analysis.sizes import factors, works
from tempora_tta.data import open_stream
from tempora_tta.engine.build import build_job
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.run import Run
from tempora_tta.methods import create
from tempora_tta.methods.contract import UNTOLD, adapt_at, predict_at
from tempora_tta.models import Classifier
from tempora_tta.scenarios import Deployment, to_spec
from tempora_tta.store import RunFolder

SIZES = (1, 4, 16, 64)
NETWORKS = ("fashion_resnet", "fashion_vit", "test_resnet")
CONTINUAL = ("clean", "gaussian_noise", "contrast", "motion_blur", "fog", "pixelate")
RECURRING = ("clean", "gaussian_noise", "contrast")
STREAMS: dict[str, list[str]] = {
    **{name: [name] * 2 for name in ("clean", "gaussian_noise", "contrast", "motion_blur")},
    "continual": list(CONTINUAL),
    "recurring": [*RECURRING, *RECURRING, *RECURRING],
}
"""Each entry is 640 images of a shift."""
PART = 640
Images = tuple[Tensor, Tensor]

app = typer.Typer(add_completion=False)


@app.callback()
def main() -> None:
    """Frames and batches."""
    torch.set_num_threads(1)


@app.command()
def sizes(
    methods: str = "standard,settle,pace,shot_im_at_once",
    networks: str = ",".join(NETWORKS),
    of: Annotated[str, typer.Option(help="Batch sizes.")] = ",".join(map(str, SIZES)),
    seeds: int = 3,
    to: Annotated[Path, typer.Option(help="Where the figures go.")] = RESULTS / "frames-sizes.json",
) -> None:
    """Accuracy by size, on every stream."""
    earlier = json.loads(to.read_text()) if to.exists() else {"accuracy": {}}
    found: dict[str, dict[str, dict[str, list[float]]]] = earlier["accuracy"]
    for network in networks.split(","):
        for method in methods.split(","):
            rows = found.setdefault(network, {}).setdefault(method, {})
            for size in map(int, of.split(",")):
                rows[str(size)] = [accuracies(network, method, size, name, seeds) for name in STREAMS]
                console.print(network, method, size, *(f"{100 * value:.1f}" for value in rows[str(size)]))
            write({"streams": list(STREAMS), "seeds": seeds, "accuracy": found}, to)


def accuracies(network: str, name: str, size: int, stream: str, seeds: int) -> float:
    """The mean over orders."""
    model = made(network)
    return float(np.mean([accuracy(model, name, size, STREAMS[stream], seed) for seed in range(seeds)]))


def accuracy(model: Classifier, name: str, size: int, shifts: list[str], seed: int) -> float:
    plain = name.removesuffix("_at_once")
    method = create(plain, model, seed=seed, at_once=None if plain == name else 64)
    order, right = np.random.default_rng(seed), []
    shifts = list(order.permutation(shifts)) if len(set(shifts)) == len(shifts) else shifts
    for visit, shift in enumerate(shifts):
        images, labels = opened(shift)
        chosen = np.random.default_rng(seed).permutation(len(images))
        first = PART * shifts[:visit].count(shift)
        own = chosen[first : first + PART]
        for x, y in zip(images[own].split(size), labels[own].split(size), strict=True):
            right.append(predict_at(method, x, UNTOLD).argmax(dim=1) == y)
            adapt_at(method, UNTOLD)
    return float(torch.cat(right).float().mean())


@cache
def opened(shift: str, dataset: str = "fashion") -> Images:
    settings = {"shifts": [shift]} if dataset == "fashion" else {}
    shifts = data.open(dataset, **settings)
    preprocessing = models.load("fashion_resnet").preprocessing
    stream = open_stream(shifts[shift], preprocessing, batch_size=100, workers=0)
    batches = range(stream.num_batches)
    labels = [torch.from_numpy(stream.labels(index)).long() for index in batches]
    return torch.cat([stream.batch(index) for index in batches]), torch.cat(labels)


@cache
def made(name: str) -> Classifier:
    """A bundled network, or one of timm's trained on the 2,000 images of fashion_train."""
    if name.startswith("fashion"):
        return models.load(name)
    torch.manual_seed(0)
    images, labels = opened("train", "fashion_train")
    network = timm.create_model(name, in_chans=1, num_classes=10).train()
    steps = 25 * (len(images) // 64)
    optimiser = torch.optim.AdamW(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=steps)
    for _ in range(steps):
        drawn = torch.randint(len(images), (64,))
        x = torch.where(torch.rand(64, 1, 1, 1) < 0.5, images[drawn].flip(3), images[drawn])
        loss = torch.nn.functional.cross_entropy(network(x), labels[drawn], label_smoothing=0.1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return models.wrap(network.eval(), mean=(0.286,), std=(0.353,))


# -- load and deadline ---------------------------------------------------------------------------------------

LOADS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
"""Frames per second over what Standard classifies in batches of 64."""
DEADLINES = (2, 8, 40, 200)
"""Times lambda of these batches."""
COMPARED = ("standard", "settle", "shot_im")


@app.command()
def cells(
    networks: str = "fashion_resnet,fashion_vit",
    out: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/frames"),
    batches: int = 20,
    profile_s: float = 60.0,
    to: Annotated[Path, typer.Option(help="Where the figures go.")] = RESULTS / "frames-cells.json",
) -> None:
    """The best pair of method and size in each cell."""
    found = json.loads(to.read_text()) if to.exists() else {}
    for network in networks.split(","):
        for size in sorted(SIZES, reverse=True):
            flags = {
                "model": network,
                "data.shifts": ["gaussian_noise", "contrast", "motion_blur"],
                "methods": [*COMPARED, *(["adabn"] if network == "fashion_resnet" else [])],
                "batch_size": size,
                "batches": batches * max(SIZES) // size,
                "grid": "none",
                "device": "cpu",
                "threads": 1,
                "profile_s": profile_s,
                "scenarios": [] if size > 1 else at_once(baseline_of(out / network)),
            }
            console.print(f"{network} in batches of {size} ...")
            with RunFolder.for_writing(out / network / f"batch-{size}") as folder:
                Run(build_job(load_config(None, flags=flags)), folder).execute()
        found[network] = grid(out / network)
        write(found, to)


def baseline_of(run: Path) -> float:
    """Lambda of batches of 64."""
    return float(tempora.open_run(run / f"batch-{max(SIZES)}").manifest["baseline"]["baseline_ms"])


def camera_at(load: float, deadline: float, baseline_ms: float) -> Deployment:
    return Deployment(fps=1000 * load * max(SIZES) / baseline_ms, deadline_ms=deadline * baseline_ms)


def at_once(baseline_ms: float) -> list[dict[str, Any]]:
    """The cells, answered at once."""
    cells = (camera_at(load, deadline, baseline_ms) for load in LOADS for deadline in DEADLINES)
    return [to_spec(replace(one, answer="at_once")) for one in cells]


def grid(run: Path) -> dict[str, Any]:
    sizes = {int(size): results for size, results in tempora.open_run(run).items()}
    baseline_ms = baseline_of(run)
    work = {size: works(results) for size, results in sizes.items()}
    rows = []
    for load in LOADS:
        for deadline in DEADLINES:
            camera = camera_at(load, deadline, baseline_ms)
            exact = {
                (name, size): float(own["utility"].mean())
                for size, results in sizes.items()
                for name, own in answer(results, camera).rows.groupby("method")
            }
            come = (
                answer(sizes[1], replace(camera, answer="at_once")).rows.groupby("method")["utility"].mean()
            )
            formed = {
                (name, size): factors(
                    work[size][name], size, (camera.fps or 0) / 1000, camera.deadline_ms or 0
                ).utility
                for name, size in exact
            }
            best, picked = max(exact, key=lambda one: exact[one]), max(formed, key=lambda one: formed[one])
            forced = {pair: value for pair, value in exact.items() if pair[1] == 64}
            rows.append(
                {
                    "load": load,
                    "deadline": deadline,
                    "best": [*best, exact[best]],
                    "formed": [*picked, exact[picked]],
                    "at_64": [max(forced, key=lambda one: forced[one])[0], max(forced.values())],
                    "at_once": [come.idxmax(), float(come.max())],
                }
            )
    return {"baseline_ms": baseline_ms, "cells": rows}


# -- live ----------------------------------------------------------------------------------------------------


@app.command()
def live(
    method: str = "settle",
    fps: float = 30.0,
    cameras: int = 1,
    size: int = 4,
    deadline_ms: float = 200.0,
    frames: int = 640,
    at_once: Annotated[
        bool, typer.Option(help="Answer at once, and learn from batches of this size.")
    ] = False,
) -> None:
    """Live frames in real time through `tempora.deploy`, and simulate the same frames with times of this machine."""
    model, (images, labels) = made("fashion_resnet"), opened("gaussian_noise")
    camera: dict[str, Any] = {"fps": fps, "cameras": cameras, "deadline_ms": deadline_ms}
    if at_once:
        camera["answer"] = "at_once"
    with tempora.deploy(
        model, method, batch_size=size, device="cpu", example=images[:size], **camera
    ) as pipeline:
        start_s, futures = time.perf_counter(), []
        for number in range(frames):
            time.sleep(max(0.0, start_s + number / (fps * cameras) - time.perf_counter()))
            futures.append(pipeline.submit(images[number]))
        answers = [future.result() for future in futures]
        served = pipeline.stats()["mean_size"]
    lived = np.array(
        [
            one.scores is not None and one.response_ms <= deadline_ms and int(one.scores.argmax()) == label
            for one, label in zip(answers, labels.tolist(), strict=False)
        ]
    )
    offline, correct, took_ms = create(method, model, at_once=size if at_once else None), [], []
    for x, y in zip(images[:frames].split(size), labels[:frames].split(size), strict=True):
        scores, predicts_ms = [], []
        for part in x.split(1 if at_once else size):
            begun_s = time.perf_counter()
            scores.append(predict_at(offline, part))
            predicts_ms.append(1000 * (time.perf_counter() - begun_s))
            adapt_at(offline)  # of frames, the last of a batch alone is learned from
            adapt_ms = 1000 * (time.perf_counter() - begun_s) - predicts_ms[-1]
        took_ms.append([float(np.median(predicts_ms)), adapt_ms])
        correct.append((torch.cat(scores).argmax(dim=1) == y).numpy())
    predict_ms, adapts_ms = np.array(took_ms).T
    score = Deployment(**camera).score(correct=correct, predict_ms=predict_ms, adapt_ms=adapts_ms)
    how = f"at once, learning from {size}" if at_once else f"in batches of {size}"
    console.print(
        f"{method}, {cameras} x {fps:g} frames/s {how} (served: {served:.1f}), {deadline_ms:g} ms: "
        f"lived {in_percent(float(lived.mean()))}, simulated {in_percent(score.utility)} % right in time"
    )


def page() -> Iterator[str]:
    yield "Frames and batches"
    for network, rows in committed("frames-cells")["frames-cells"].items():
        yield from _page_of_cells(network, rows["cells"], rows["baseline_ms"])
    (found,) = committed("frames-sizes").values()
    yield f"## Accuracy by batch size (%), {found['seeds']} orders"
    for network, methods in found["accuracy"].items():
        yield f"### {network}"
        yield markdown_table(
            ("", *found["streams"]),
            (
                (f"{method}, {size}", *(in_percent(value) for value in values))
                for method, by_size in methods.items()
                for size, values in by_size.items()
            ),
        )


def _page_of_cells(network: str, rows: list[dict[str, Any]], baseline_ms: float) -> Iterator[str]:
    yield f"## {network}, λ = {baseline_ms:.2f} ms for 64 images"
    hits = [row["best"][:2] == row["formed"][:2] for row in rows]
    lost = [row["best"][2] - row["formed"][2] for row in rows]
    forced = [row["best"][2] - row["at_64"][1] for row in rows]
    yield (
        f"The closed form picks the best pair in {sum(hits)} of {len(rows)} cells, and elsewhere loses at most "
        f"{in_percent(max(lost))} points. Batches of 64 lose {in_percent(float(np.mean(forced)))} points on average."
    )
    come = [row["at_once"][1] - row["best"][2] for row in rows]
    yield (
        f"Answering at once gets {100 * float(np.mean(come)):+.1f} points on average next to the best pair, "
        f"{100 * min(come):+.1f} to {100 * max(come):+.1f}."
    )
    yield "Right in time, %: the best method and size; in brackets the best in batches of 64, and the best at once."
    texts = {
        (row["load"], row["deadline"]): f"{row['best'][0]} {row['best'][1]}: {in_percent(row['best'][2])} "
        f"({in_percent(row['at_64'][1])}; {row['at_once'][0]}: {in_percent(row['at_once'][1])})"
        for row in rows
    }
    yield markdown_table(
        ("load", *(f"D = {deadline} λ" for deadline in DEADLINES)),
        ((f"{100 * load:.0f} %", *(texts[load, deadline] for deadline in DEADLINES)) for load in LOADS),
    )


if __name__ == "__main__":
    script(app, page)
