"""Make docs/reproduced.md: every element of the paper, its command, and what came of running it without data.

python docs/reproduce.py
"""

from __future__ import annotations

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


def main() -> None:
    """Run every command; one that fails ends the script."""
    with tempfile.TemporaryDirectory() as scratch:
        run(["reproduce", "all", "--times", "published", "--quick", "--out", scratch])
        page = (Path(scratch) / "REPRODUCED.md").read_text(encoding="utf-8").replace(f"{scratch}/", "")
        for label, one in elements().items():
            if not one.figure:
                run(["reproduce", "show", label, "--out", scratch, "--format", "markdown"])
    heading, _, rest = page.partition("\n\n")
    PAGE.write_text(f"{heading}\n\n{MADE}\n\n{rest}", encoding="utf-8")


def run(arguments: list[str]) -> None:
    """Run one command."""
    done = CliRunner().invoke(app, arguments)
    if done.exit_code:
        sys.exit(f"tempora {' '.join(arguments)}: {done.output} {done.exception}")


if __name__ == "__main__":
    main()
