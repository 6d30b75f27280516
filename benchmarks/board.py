"""How large a board is and how long it takes: packs of made-up runs, as many as you like.

    python benchmarks/board.py --packs 200 --json benchmarks/results/board.json

Each run has 5 methods, 2 shifts and 17 scenarios of 40 batches (numpy streams scored by the real scenarios), under
the name of a machine of its own; a fifth of them repeat a configuration at a second commit. Packing is timed, then
`tempora board` without its reports, each of which is a page of its own (benchmarks/report.py times one). CPU seconds:
waiting for a core is no part of them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from common import JsonFile, console, timed, write

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from made_runs import WIDE_GRID, write_run
from tempora.report.board import gather, write_board
from tempora.store import RunFolder, pack
from tempora.store.suite_claims import departures_of


def main(
    packs: Annotated[int, typer.Option(help="How many.")] = 200,
    json_: JsonFile = None,
) -> None:
    with tempfile.TemporaryDirectory() as place:
        files, packing = [], 0.0
        made = write_run(Path(place) / "made", scenarios=WIDE_GRID).path
        for number in range(packs):
            folder = RunFolder(shutil.copytree(made, Path(place) / f"run-{number}"))
            manifest = folder.manifest()
            again = number % 5 == 4
            machine = {"cpu": f"Processor {number - again}", "commit": ("b" if again else "a") * 40}
            folder.write_manifest(manifest | {"machine": manifest["machine"] | machine})
            file, seconds = timed(lambda folder=folder: pack(folder.path))
            files.append(file)
            packing += seconds
        gathered, opening = timed(lambda: gather(files, departures_of))
        site = Path(place) / "site"
        board, writing = timed(lambda: write_board(gathered, site, reports=False))
        figures = {
            "packs": packs,
            "pack_s": round(packing / packs, 4),
            "pack_bytes": round(sum(file.stat().st_size for file in files) / packs),
            "folder_bytes": _bytes(made),
            "opening_and_checking_s": round(opening, 2),
            "writing_s": round(writing, 2),
            "page_bytes": board.page.stat().st_size,
            "json_bytes": (site / "board.json").stat().st_size,
            "rows": sum(len(entry.rows) for entry in gathered.entries),
        }
    for name, value in figures.items():
        console.print(f"{name:24} {value:>12,}")
    write(figures, json_)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    typer.run(main)
