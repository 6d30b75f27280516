"""How large a board is and how long it takes: packs of made-up runs, as many as you like.

    python benchmarks/board.py --packs 200 --json benchmarks/results/board.json

Each run has 5 methods, 2 shifts and 17 scenarios of 40 batches (numpy streams scored by the real scenarios), under
the clock of a device of its own; a fifth of them repeat a configuration at a second commit. Packing is timed, then
`tempora board` without its reports, each of which is a page of its own (benchmarks/report.py times one). CPU seconds:
waiting for a core is no part of them.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from common import JsonFile, console, timed, write

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from made_runs import WIDE_GRID, write_run
from tempora_tta.report.board import gather, write_board
from tempora_tta.store import RunFolder, pack
from tempora_tta.store.suite_claims import departures_of


def main(
    packs: Annotated[
        int, typer.Option(min=10, help="How many; also a tenth of them, to see how it grows.")
    ] = 200,
    json_: JsonFile = None,
) -> None:
    with tempfile.TemporaryDirectory() as place:
        made = write_run(Path(place) / "made", scenarios=WIDE_GRID).path
        files, packing = [], 0.0
        for number in range(packs):
            folder = copied(made, Path(place) / f"run-{number}", number)
            file, seconds = timed(lambda folder=folder: pack(folder))
            files.append(file)
            packing += seconds
            shutil.rmtree(folder)
        boards = [board_of(files[:count], Path(place) / f"site-{count}") for count in (packs // 10, packs)]
        figures = {
            "pack_s": round(packing / packs, 4),
            "pack_bytes": round(sum(file.stat().st_size for file in files) / packs),
            "folder_bytes": _bytes(made),
            "boards": boards,
        }
    console.print(figures)
    write(figures, json_)


def copied(made: Path, place: Path, number: int) -> Path:
    """The same run under the clock of another device, or at another commit."""
    folder = RunFolder(shutil.copytree(made, place))
    manifest, again = folder.manifest(), number % 5 == 4
    machine = manifest["machine"] | {"commit": ("b" if again else "a") * 40}
    config = (manifest["config"] or {}) | {"clock": f"library:device-{number - again}"}
    folder.write_manifest(manifest | {"machine": machine, "config": config})
    return folder.path


def board_of(files: list[Path], site: Path) -> dict[str, float]:
    gathered, opening = timed(lambda: gather(files, departures_of))
    board, writing = timed(lambda: write_board(gathered, site, reports=False))
    return {
        "packs": len(files),
        "opening_and_checking_s": round(opening, 2),
        "writing_s": round(writing, 2),
        "page_bytes": board.page.stat().st_size,
        "json_bytes": (site / "board.json").stat().st_size,
        "rows": sum(len(entry.rows) for entry in gathered.entries),
        "most_memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    typer.run(main)
