"""Every block of the docs that is marked to run does run, page by page, in a folder of its own.

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
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tempora_tta.cli import app

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(
    r"^<!-- (?P<order>run|output|file: (?P<name>[\w./-]+)) -->\n+```(?P<language>\w+).*\n(?P<code>[\s\S]*?)^```$",
    re.MULTILINE,
)
PAGES = sorted(path.relative_to(DOCS) for path in DOCS.rglob("*.md") if BLOCK.search(path.read_text("utf-8")))

LONG = {
    "concepts/sharing.md",
    "concepts/streams.md",
    "tasks/choose-for-my-deployment.md",
    "tasks/deploy-it.md",
    "extend/add-a-method.md",
    "tasks/evaluate-on-my-data.md",
    "tutorial.md",
}
"""Pages that take seconds run with the slow tests."""


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
            assert self.form(self.printed) == self.form(block["code"])
        else:
            run: dict[str, Callable[[str], None]] = {"python": self.python, "bash": self.bash}
            run[block["language"]](block["code"])

    def python(self, code: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "docs", "exec"), self.names)
        self.printed, self.form = printed.getvalue(), str

    def bash(self, code: str) -> None:
        for line in code.replace("\\\n", " ").splitlines():
            command, *arguments = shlex.split(line, comments=True) or [""]
            if command:
                assert command == "tempora", f"only tempora runs here, not {line!r}"
                result = CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments)
                assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"
                self.printed, self.form = result.stdout, without_numbers


def without_numbers(text: str) -> str:
    """Every number as #, every stretch of white space as one space; lines of progress come in no order, and go."""
    lines = (line for line in text.splitlines() if not re.match(r" *\d+\.\d s  ", line))
    return " ".join(re.sub(r"\d[\d.,]*", "#", " ".join(lines)).split())


@pytest.fixture
def new_user(tmp_path, monkeypatch):
    """An empty folder; modules that a page wrote there are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page.as_posix() in LONG else ()) for page in PAGES],
    ids=str,
)
def test_the_marked_blocks_run(page, new_user):
    reader = Page()
    for block in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        reader.handle(block)


def test_every_task_page_has_something_to_run():
    tasks = {path.relative_to(DOCS) for path in (DOCS / "tasks").glob("*.md")}
    assert tasks
    assert tasks <= set(PAGES)
    assert {page.as_posix() for page in PAGES} >= LONG


def test_every_mark_is_understood():
    """A mistyped comment before a block, or a mark without a block, would silently test nothing."""
    for path in DOCS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        marks = re.findall(r"^<!-- (?:run|output|file)\b.*-->$", text, re.MULTILINE)
        before_blocks = re.findall(r"^<!-- (?!end\b).*-->(?=\n+```)", text, re.MULTILINE)
        understood = len(BLOCK.findall(text))
        assert len(marks) == len(before_blocks) == understood, f"{path}: {marks} {before_blocks}"
