"""Images per second, decoded and delivered: Tempora's streams next to torch's DataLoader, in one run.

    python benchmarks/data.py --images 2000 --workers 2 --json data.json

Both read the same JPEG files with the same number of workers, resize, crop and normalise them for a ResNet-50 and
put them on the device in batches of 64. The DataLoader does so in every pass; Tempora decodes once, in its first
pass (starting its workers included), and later ones read what it kept. The two take turns, and each ratio is the
median over turns: other work on the machine disturbs both alike.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import torch
import typer
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

import tempora_tta.data as data
from common import Device, JsonFile, console, write
from tempora_tta.data.threads import default_workers
from tempora_tta.models import Preprocessing

PREPROCESSING = Preprocessing((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), input_size=(3, 224, 224))
BATCH_SIZE = 64
CLASSES = ["a", "b"]


def write_photographs(folder: Path, count: int) -> None:
    """JPEG files of ImageNet's usual size (500 x 375 pixels, about 110 kB)."""
    rng = np.random.default_rng(0)
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), np.int16)
        grain = rng.normal(0, 12, smooth.shape).astype(np.int16)
        path = folder / CLASSES[i % 2] / f"{i:06}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(path, quality=90)


def consume(batches: Callable[[int], torch.Tensor], count: int, device: torch.device) -> None:
    """Look at every batch on the device, so that none of the work can be put off."""
    total = torch.zeros((), device=device)
    for i in range(count):
        total += batches(i).mean()
    total.item()


def tempora_passes(folder: Path, workers: int, device: torch.device) -> tuple[float, float]:
    """Seconds of the first pass (decoding included) and of a later one."""
    start = time.perf_counter()
    shift = data.open("folder", folder, classes=CLASSES)[folder.name]
    stream = data.open_stream(shift, PREPROCESSING, BATCH_SIZE, device=device, workers=workers)
    consume(stream.batch, stream.num_batches, device)
    first = time.perf_counter()
    consume(stream.batch, stream.num_batches, device)
    later = time.perf_counter()
    stream.close()
    return first - start, later - first


def dataloader_pass(folder: Path, workers: int, device: torch.device) -> float:
    """Seconds of one pass. Every pass decodes, so the first is like any other."""
    start = time.perf_counter()
    transform = transforms.Compose(
        [
            transforms.Resize(256),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize(PREPROCESSING.mean, PREPROCESSING.std),
        ]
    )
    loader = DataLoader(
        ImageFolder(str(folder), transform),
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=workers,
        drop_last=True,
        pin_memory=device.type == "cuda",
    )
    batches = iter(loader)
    consume(lambda _: next(batches)[0].to(device, non_blocking=True), len(loader), device)
    return time.perf_counter() - start


def measure(images: int, workers: int, repeats: int, device: torch.device) -> dict[str, float | int | str]:
    """Medians over `repeats`: images per second of each kind of pass, and how they compare."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "photographs"
        folder.mkdir()
        write_photographs(folder, images)
        seconds = [
            (*tempora_passes(folder, workers, device), dataloader_pass(folder, workers, device))
            for _ in range(repeats)
        ]
    delivered = images // BATCH_SIZE * BATCH_SIZE
    return {
        "images": images,
        "workers": workers,
        "repeats": repeats,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "first_pass_images_per_s": median(delivered / first for first, _, _ in seconds),
        "later_pass_images_per_s": median(delivered / later for _, later, _ in seconds),
        "dataloader_images_per_s": median(delivered / loader for _, _, loader in seconds),
        "first_pass_ratio": median(loader / first for first, _, loader in seconds),
        "later_pass_ratio": median(loader / later for _, later, loader in seconds),
    }


def main(
    images: int = 2000,
    workers: Annotated[int, typer.Option(help="Processes that decode, on either side.")] = default_workers(),
    repeats: Annotated[int, typer.Option(help="Turns to take the median over.")] = 5,
    device: Device = "cpu",
    json_file: JsonFile = None,
) -> None:
    """Print and write images per second, and how the two compare."""
    figures = measure(images, workers, repeats, torch.device(device))
    for name, value in figures.items():
        console.print(f"{name:28} {value:.3g}" if isinstance(value, float) else f"{name:28} {value}")
    write(figures, json_file)


if __name__ == "__main__":
    typer.run(main)
