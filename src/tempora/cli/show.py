"""`tempora show`: what a run found, on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def show_overview(folder: Path, console: Console) -> None:
    """The verdict, the machine and who wins where."""
    from tempora.store import open_run

    results = open_run(folder)
    console.print(results.manifest["verdict"]["text"])
    console.print(
        results.utilities.pivot_table(index="method", columns="label", values="utility").round(3).to_string()
    )
