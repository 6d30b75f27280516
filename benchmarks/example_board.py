"""Make the example board that the docs show: six runs of two suites, under four clocks, at two commits.

    python benchmarks/example_board.py --out /tmp/board [--before COMMIT --after COMMIT]

The clocks are recorded, so the numbers are the same on every machine; only how long it takes differs. A few methods
of each suite run, with the suite's own settings: which methods run is free, so these are results of the suites.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import yaml

from common import console
from tempora_tta.names import SUITES, file_of

ROOT = Path(__file__).resolve().parent.parent


class Part(NamedTuple):
    """One run of the example."""

    suite: str
    clock: str
    methods: tuple[str, ...]
    before: bool = False
    """At the earlier commit."""

    @property
    def name(self) -> str:
        clock = self.clock.partition(":")[2]
        return f"{self.suite.replace('/', '-')}-{clock}{'-before' if self.before else ''}"


RESNET, VIT = "tempora-fashion-v1/resnet", "tempora-fashion-v1/vit"
STREAM = "tempora-fashion-streams-v1/resnet-continual"
FEW = ("standard", "adabn", "neo")
PARTS = (
    Part(RESNET, "published:rn50_inc", FEW, before=True),
    Part(RESNET, "published:rn50_inc", FEW),
    Part(RESNET, "library:h200-resnet50", FEW),
    Part(VIT, "published:vit_inc", ("standard", "neo")),
    Part(VIT, "library:h200-vit_b_16", ("standard", "neo")),
    Part(STREAM, "published:rn50_inc", FEW),
)


def main(
    out: Annotated[Path, typer.Option(help="Runs, packs and the site go here.")],
    before: Annotated[str, typer.Option(help="The earlier commit.")] = "HEAD~1",
    after: Annotated[str, typer.Option(help="The later one.")] = "HEAD",
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        checked_out(before, place) as earlier,
        checked_out(after, place) as later,
    ):
        packs = [made(part, out, earlier if part.before else later) for part in PARTS]
    site = out / "site"
    tempora(ROOT, "board", *map(str, packs), "--out", str(site), "--title", "The bundled suites")
    console.print(f"{site / 'index.html'}")


@contextmanager
def checked_out(commit: str, place: str) -> Iterator[Path]:
    """The repository at a commit, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(dir=place)) / "tempora"
    git("worktree", "add", "--detach", str(folder), commit)
    try:
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


def made(part: Part, out: Path, source: Path) -> Path:
    """The pack of one run; runs that are there already are not made again."""
    folder, packed = out / part.name, out / f"{part.name}.tempora"
    if not packed.exists():
        methods = json.dumps([entry for entry in settings(part.suite) if _name(entry) in part.methods])
        tempora(
            source,
            "run",
            part.suite,
            "--clock",
            part.clock,
            "--set",
            f"methods={methods}",
            "--out",
            str(folder),
        )
        tempora(ROOT, "pack", str(folder), "--out", str(packed))
    return packed


def settings(suite: str) -> list[Any]:
    """The methods of a suite, with its settings."""
    told = yaml.safe_load(file_of(SUITES[suite]).read_text(encoding="utf-8"))
    return list(told["methods"])


def _name(entry: Any) -> str:
    return str(entry["name"] if isinstance(entry, dict) else entry)


def tempora(source: Path, *words: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "tempora_tta", *words], check=True, env=environment)


def git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True)


if __name__ == "__main__":
    typer.run(main)
