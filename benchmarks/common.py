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
    """What came out, and the seconds that it took.

    On a GPU until the device was done with it. On a CPU the processor's seconds for this process, of all its threads:
    waiting for a core, while somebody else's work has it, is not part of them.
    """
    clock = _gpu_clock if device.startswith("cuda") else time.process_time
    start = clock()
    result = work()
    return result, clock() - start


def _gpu_clock() -> float:
    import torch  # here, so that the scripts without a network start quickly

    torch.cuda.synchronize()
    return time.perf_counter()


def write(figures: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
