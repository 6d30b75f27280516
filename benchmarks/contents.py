"""Seconds to open a folder of many images: read whole at first sight, then remembered.

    python benchmarks/contents.py --files 50000 --kilobytes 20

What it writes is in the memory of the operating system when it is read, so this is the processor's part; a disk that
has to be read first adds its own, once. `listing` is what names and sizes alone would cost.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Annotated

import typer

import tempora_tta.data as data
from common import JsonFile, console, write
from tempora_tta.data import contents
from tempora_tta.data.class_folders import scan

PER_CLASS = 50


def write_files(root: Path, files: int, size_bytes: int) -> list[str]:
    """Files named as pictures, in class folders; the classes."""
    rng = Random(0)
    classes = [f"class{number:05}" for number in range(-(-files // PER_CLASS))]
    for number in range(files):
        folder = root / classes[number // PER_CLASS]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:07}.jpg").write_bytes(rng.randbytes(size_bytes))
    return classes


def seconds_to_open(root: Path, classes: list[str]) -> tuple[float, int]:
    """Seconds, and the number of files that were read."""
    read = 0

    def count(done: int, total: int) -> None:
        nonlocal read
        read = total

    start = time.perf_counter()
    data.open("folder", root, classes=classes, progress=count)
    return time.perf_counter() - start, read


def measure(files: int, kilobytes: int) -> dict[str, float | int]:
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["TEMPORA_CACHE"] = f"{temporary}/cache"
        root = Path(temporary) / "images"
        classes = write_files(root, files, kilobytes * 1000)
        time.sleep(1.5e-9 * contents._TICK_NS)  # what was written a moment ago is not remembered
        start = time.perf_counter()
        scan(root)
        listing_s = time.perf_counter() - start
        first_s, read = seconds_to_open(root, classes)
        again_s, read_again = seconds_to_open(root, classes)
        index_bytes = sum(path.stat().st_size for path in Path(f"{temporary}/cache").rglob("*.npz"))
    return {
        "files": files,
        "kilobytes_each": kilobytes,
        "listing_s": listing_s,
        "first_s": first_s,
        "first_files_read": read,
        "again_s": again_s,
        "again_files_read": read_again,
        "index_bytes_per_file": index_bytes / files,
    }


def main(
    files: Annotated[int, typer.Option(help="How many.")] = 50_000,
    kilobytes: Annotated[int, typer.Option(help="Size of each.")] = 20,
    json_file: JsonFile = None,
) -> None:
    """Print and write the seconds."""
    figures = measure(files, kilobytes)
    for name, value in figures.items():
        console.print(f"{name:22} {value:.3g}" if isinstance(value, float) else f"{name:22} {value}")
    write(figures, json_file)


if __name__ == "__main__":
    typer.run(main)
