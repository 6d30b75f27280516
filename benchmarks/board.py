"""How large a board is and how long it takes: packs of made-up runs, as many as you like.

    python benchmarks/board.py --packs 200 --json benchmarks/results/board.json

Each run has 5 methods, 2 shifts and 17 scenarios of 40 batches (numpy streams scored by the real scenarios); a fifth
of them repeat a configuration at a second commit. Packing is timed, then `tempora board` without its reports, each of
which is a page of its own (benchmarks/report.py times one). CPU seconds: waiting for a core is no part of them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from common import JsonFile, console, timed, write

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from report.made_run import make_run
from tempora.report.board import gather, write_board
from tempora.store import pack
from tempora.store.suite_claims import departures_of


def main(
    packs: Annotated[int, typer.Option(help="How many.")] = 200,
    json_: JsonFile = None,
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folders, files, packing = [], [], 0.0
        for number in range(packs):
            folder = Path(place) / f"run-{number}"
            again = number % 5 == 4
            same = number - again
            machine = {"cpu": f"Processor {same}", "commit": ("b" if again else "a") * 40}
            make_run(
                folder,
                model=f"net_{number % 3}" if number % 5 != 4 else f"net_{(number - 1) % 3}",
                machine=machine,
            )
            file, seconds = timed(lambda folder=folder: pack(folder))
            folders.append(_bytes(folder))
            files.append(file)
            packing += seconds
        gathered, opening = timed(lambda: gather(files, departures_of))
        site = Path(place) / "site"
        board, writing = timed(lambda: write_board(gathered, site, reports=False))
        figures = {
            "packs": packs,
            "pack_s": round(packing / packs, 4),
            "pack_bytes": round(sum(file.stat().st_size for file in files) / packs),
            "folder_bytes": round(sum(folders) / packs),
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
