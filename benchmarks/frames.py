"""What single frames and small batches are worth to methods: `python benchmarks/frames.py sizes`.

Accuracy at batch sizes 1, 4, 16 and 64 on single shifts, on a stream that goes from shift to shift and on one that
returns to them, three orders of the images, without a clock: on both bundled networks and on one of timm's that is
trained here for half a minute. It writes benchmarks/results/frames-sizes.json; run in two working trees it compares.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
import timm
import torch
import typer
from torch import Tensor

from common import RESULTS, console, write
from tempora_tta import data, models
from tempora_tta.data import open_stream
from tempora_tta.methods import create
from tempora_tta.methods.contract import UNTOLD, adapt_at, predict_at
from tempora_tta.models import Classifier

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
    methods: str = "standard,settle,pace",
    networks: str = ",".join(NETWORKS),
    seeds: int = 3,
    to: Annotated[Path, typer.Option(help="Where the figures go.")] = RESULTS / "frames-sizes.json",
) -> None:
    """Accuracy by size, on every stream."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for network in networks.split(","):
        for method in methods.split(","):
            rows = found.setdefault(network, {}).setdefault(method, {})
            for size in SIZES:
                rows[str(size)] = [accuracies(network, method, size, name, seeds) for name in STREAMS]
                console.print(network, method, size, *(f"{100 * value:.1f}" for value in rows[str(size)]))
            write({"streams": list(STREAMS), "seeds": seeds, "accuracy": found}, to)


def accuracies(network: str, name: str, size: int, stream: str, seeds: int) -> float:
    """The mean over orders."""
    model = made(network)
    return float(np.mean([accuracy(model, name, size, STREAMS[stream], seed) for seed in range(seeds)]))


def accuracy(model: Classifier, name: str, size: int, shifts: list[str], seed: int) -> float:
    method, order, right = create(name, model, seed=seed), np.random.default_rng(seed), []
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


if __name__ == "__main__":
    app()
