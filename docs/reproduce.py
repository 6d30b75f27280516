"""Make docs/reproduced.md: every element of the paper, its command, and what came of running it without data.

python docs/reproduce.py
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from tempora_tta.cli import app
from tempora_tta.published.elements import elements

PAGE = Path(__file__).parent / "reproduced.md"
MADE = (
    "Made by `python docs/reproduce.py`, which ran `tempora reproduce all --times published --quick` without data "
    "and then `tempora reproduce show` for each table: all of them print."
)

ONE = "`tempora reproduce LABEL` makes an element, and `tempora reproduce show LABEL` prints a table. Made here:"


def main() -> None:
    """Run every command; one that fails ends the script."""
    with tempfile.TemporaryDirectory() as scratch:
        run(["reproduce", "all", "--times", "published", "--quick", "--out", scratch])
        page = (Path(scratch) / "REPRODUCED.md").read_text(encoding="utf-8").replace(f"{scratch}/", "")
        for label, one in elements().items():
            if not one.figure:
                run(["reproduce", "show", label, "--out", scratch, "--format", "markdown"])
    heading, _, rest = condensed(page).partition("\n\n")
    PAGE.write_text(f"{heading}\n\n{MADE}\n\n{rest}", encoding="utf-8")


def condensed(page: str) -> str:
    """The page with its elements in two lists: those with numbers, and those that need data, by what they need."""
    before, _, table = page.partition("| element | command |")
    table, _, differing = table.partition("\n\n")
    made, needed = [], dict[str, list[str]]()
    for label, state in re.findall(r"^\| (\S+:\S+) \| [^|]* \| ([^|]*) \|$", table, re.MULTILINE):
        done, _, need = state.partition("not run: needs ")
        if need:
            needed.setdefault(need, []).append(f"`{label}`")
        if found := re.sub(r"[;\s\d]*$", "", done):
            made.append(f"- `{label}`: {found}")
    waiting = [f"- {need}: {', '.join(labels)}" for need, labels in needed.items()]
    parts = [f"{before}{ONE}", "\n".join(made), "## Waiting for data", "\n".join(waiting), differing.strip()]
    return "\n\n".join(filter(None, parts)) + "\n"


def run(arguments: list[str]) -> None:
    """Run one command."""
    done = CliRunner().invoke(app, arguments)
    if done.exit_code:
        sys.exit(f"tempora {' '.join(arguments)}: {done.output} {done.exception}")


if __name__ == "__main__":
    main()
