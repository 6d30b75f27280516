"""What the benchmark scripts share: their console, their common options, a stopwatch, and writing figures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

T = TypeVar("T")
RESULTS = Path(__file__).parent / "results"
console = Console(highlight=False)

Device = Annotated[str, typer.Option(help="cpu or cuda.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]


def timed(work: Callable[[], T], device: str = "cpu") -> tuple[T, float]:
    """What came out, and the seconds until the device was done with it."""
    _finish(device)
    start = time.perf_counter()
    result = work()
    _finish(device)
    return result, time.perf_counter() - start


def _finish(device: str) -> None:
    if device.startswith("cuda"):
        import torch  # here, so that the scripts without a network start quickly

        torch.cuda.synchronize()


def write(figures: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
