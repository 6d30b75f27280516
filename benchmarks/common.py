"""Shared by the benchmark scripts: console, options, stopwatch, files of figures and the pages made of them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
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
    """Run `work` and return its result and the seconds that it took.

    On a GPU the seconds last until the device is done. On a CPU they are this process's CPU seconds, over all its
    threads: waiting for a core that another process holds does not count.
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


def committed(pattern: str) -> dict[str, Any]:
    """Return the figures of every matching file in benchmarks/results, by its name."""
    found = sorted(RESULTS.glob(f"{pattern}.json"), key=lambda path: path.stem)
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in found}


def markdown_table(head: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table with its first column on the left and the others on the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (head, rule, *rows))


def in_percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def script(run: Callable[[], Any], page: Callable[[], Iterable[str]]) -> None:
    """Run the benchmark; with the one argument `page`, write results/NAME.md from the committed figures instead.

    `page` gives the title first, then the paragraphs.
    """
    if sys.argv[1:] != ["page"]:
        run()
        return
    name = Path(sys.argv[0]).stem
    title, *parts = page()
    made = f"Made by `python benchmarks/{name}.py page` from the figures next to this file."
    text = "\n\n".join([f"# {title}", made, *parts])
    (RESULTS / f"{name}.md").write_text(f"{text}\n", encoding="utf-8")
