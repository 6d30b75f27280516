"""Blocks of the docs that are marked to run: those of the tutorial and of the page on methods do run, each page in a
process and a folder of its own; all others are understood.

A comment before a block says what becomes of it: `<!-- run -->` runs it (Python blocks of a page share their names,
`tempora` lines of a bash block are given to the command line), `<!-- file: NAME -->` writes it to a file first, and
`<!-- output -->` after a block is what that block must have printed: to the letter after Python; after a command its
numbers may differ, as predictions do between processors.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from tempora_tta.cli import app

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(
    r"^<!-- (?P<order>run|output|file: (?P<name>[\w./-]+)) -->\n+```(?P<language>\w+).*\n(?P<code>[\s\S]*?)^```$",
    re.MULTILINE,
)
PAGES = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
RUN = ["tutorial.md", "extend/add-a-method.md"]


class Page:
    """Runs the marked blocks of one page, in order."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {"__name__": "__docs__"}
        self.printed = ""
        self.form: Callable[[str], str] = str

    def handle(self, block: re.Match[str]) -> None:
        if block["name"]:
            Path(block["name"]).write_text(block["code"], encoding="utf-8")
        elif block["order"] == "output":
            assert self.form(self.printed) == self.form(block["code"]), self.printed
        else:
            run: dict[str, Callable[[str], None]] = {"python": self.python, "bash": self.bash}
            run[block["language"]](block["code"])

    def python(self, code: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "docs", "exec"), self.names)
        self.printed, self.form = printed.getvalue(), str

    def bash(self, code: str) -> None:
        for words in commands(code):
            result = CliRunner(env={"COLUMNS": "80"}).invoke(app, words)
            assert result.exit_code == 0, f"{words}\n{result.output}\n{result.exception!r}"
            self.printed, self.form = result.stdout, without_numbers


def commands(code: str) -> Iterator[list[str]]:
    for line in code.replace("\\\n", " ").splitlines():
        command, *words = shlex.split(line, comments=True) or ["tempora"]
        assert command == "tempora", f"only tempora runs here, not {line!r}"
        if words:
            yield words


def without_numbers(text: str) -> str:
    """Every number as #, every stretch of white space as one space; lines of progress come in no order, and go."""
    lines = (line for line in text.splitlines() if not re.match(r" *\d+\.\d s  ", line))
    return " ".join(re.sub(r"\d[\d.,]*", "#", " ".join(lines)).split())


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_the_marked_blocks_run(page: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, __file__, page], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from tempora_tta import models

    monkeypatch.chdir(tmp_path)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(8, 16, 1, 28, 28, generator=generator), torch.arange(128).view(8, 16) % 10
    names = {"model": models.load("fashion_resnet"), "batches": list(zip(inputs, labels, strict=True))}
    (code,) = re.findall(
        r"^```python\n([\s\S]*?)^```$", (DOCS.parent / "README.md").read_text(), re.MULTILINE
    )
    exec(code, names)
    assert names["results"].utilities["status"].eq("ok").all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", sorted(page for page in PAGES if BLOCK.search(PAGES[page])))
def test_marked_blocks_are_understood(page: str) -> None:
    for block in BLOCK.finditer(PAGES[page]):
        if block["order"] == "output":
            continue
        if block["language"] == "python":
            compile(block["code"], page, "exec")
        elif block["language"] == "yaml":
            assert yaml.safe_load(block["code"])
        else:
            for words in commands(block["code"]):
                command = typer.main.get_command(app)
                while inner := getattr(command, "commands", None):
                    command = inner[words.pop(0)]
                command.make_context("tempora", words)  # raises where an option or an argument is none


def test_every_task_page_has_something_to_run_and_every_mark_is_understood() -> None:
    """A mistyped comment before a block, or a mark without a block, would silently test nothing."""
    for page, text in PAGES.items():
        understood = len(BLOCK.findall(text))
        assert understood or not page.startswith("tasks/"), page
        marks = re.findall(r"^<!-- (?:run|output|file)\b.*-->$", text, re.MULTILINE)
        before_blocks = re.findall(r"^<!-- (?!end\b).*-->(?=\n+```)", text, re.MULTILINE)
        assert len(marks) == len(before_blocks) == understood, page


if __name__ == "__main__":
    sys.path.insert(0, "")
    reader = Page()
    for block in BLOCK.finditer(PAGES[sys.argv[1]]):
        reader.handle(block)
