"""Where the wall time of a short run goes: `python benchmarks/overhead.py --device cuda --model resnet50`.

Two shifts of random images, the relative grid, every method that fits. Each second is booked once, on the innermost
of the parts below that it fell into; `rest` is what none of them explains.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from unittest import mock

import torch
import typer
from rich.table import Table

import tempora_tta as tempora
from common import Device, JsonFile, console, write
from engine import fitting, synthetic
from methods import OPEN
from tempora_tta import models
from tempora_tta._numbers import percent
from tempora_tta.engine.executors import local
from tempora_tta.engine.job import Job
from tempora_tta.engine.own_profile import OwnProfile
from tempora_tta.engine.passes import Pass
from tempora_tta.engine.run import Run
from tempora_tta.engine.sentinel import Sentinel
from tempora_tta.methods import Method
from tempora_tta.methods.testing import sharpened
from tempora_tta.scenarios import relative_grid
from tempora_tta.store import RunFolder

PARTS: dict[str, tuple[tuple[Any, str], ...]] = {
    "service": ((Pass, "_serve_adapting"),),
    "frozen service": ((Pass, "_serve_frozen"),),
    "profile": ((OwnProfile, "ready"), (OwnProfile, "learn")),
    "lambda": ((local, "settle"), (local, "calibrate"), (local, "remeasure")),
    "warm-up": ((Pass, "warm_up"),),
    "sentinels": ((Sentinel, "look"),),
    "snapshots": ((Method, "snapshot"), (Method, "restore"), (Method, "reset")),
    "making methods": ((Job, "create"),),
    "writing": (
        (RunFolder, "write_pass"),
        (RunFolder, "write_utilities"),
        (RunFolder, "write_manifest"),
    ),
    "reading back": ((RunFolder, "trace"), (RunFolder, "passes")),
    "scoring": ((Run, "_score"),),
}


class Ledger:
    """Books every second on the innermost part that it fell into."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._open: list[str] = ["rest"]
        self._since = time.perf_counter()

    def book(self) -> None:
        now = time.perf_counter()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def within(self, part: str) -> Iterator[None]:
        self.book()
        self.calls[part] += 1
        self._open.append(part)
        try:
            yield
        finally:
            self.book()
            self._open.pop()

    def watched(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*given: Any, **options: Any) -> Any:
            with self.within(part):
                return function(*given, **options)

        return watched


def main(
    device: Device = "cpu",
    model: Annotated[
        str, typer.Option(help="Any name that tempora_tta.models.load takes.")
    ] = "fashion_resnet",
    batches: int = 78,
    batch_size: int = 64,
    shifts: int = 2,
    only: Annotated[str, typer.Option(help="Methods, with commas; default all that fit.")] = "",
    clock: Annotated[str, typer.Option(help="As tempora run takes it.")] = "steady",
    json_file: JsonFile = None,
) -> None:
    torch.manual_seed(0)
    classifier = models.load(model, pretrained=False).to(device)
    given = synthetic(classifier, batches, batch_size)
    classifier = sharpened(classifier, given[0][0].to(device))
    names = [name for name in fitting(classifier) if not only or name in only.split(",")]
    ledger = Ledger()
    patches = [
        mock.patch.object(owner, name, ledger.watched(getattr(owner, name), part))
        for part, functions in PARTS.items()
        for owner, name in functions
    ]
    for patch in patches:
        patch.start()
    try:
        tempora.evaluate(
            classifier,
            {f"shift {number}": given for number in range(shifts)},
            [(name, OPEN.get(name, {})) for name in names],
            relative_grid(),
            device=device,
            clock=clock,
        )
    except KeyboardInterrupt:
        console.print("stopped early: the figures are those until then")
    finally:
        for patch in patches:
            patch.stop()
    ledger.book()
    total = sum(ledger.seconds.values())
    figures = {
        "model": model,
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "methods": names,
        "clock": clock,
        "total_s": total,
        "seconds": {part: ledger.seconds[part] for part in (*PARTS, "rest")},
        "calls": dict(ledger.calls),
    }
    write(figures, json_file)
    table = Table("part", "calls", "seconds", "share", box=None)
    for part, seconds in figures["seconds"].items():
        table.add_row(part, str(ledger.calls[part]), f"{seconds:.1f}", percent(seconds / total, 0))
    console.print(table)
    console.print(f"{total:.0f} s in all")


if __name__ == "__main__":
    typer.run(main)
