"""The English of code, tests and docs: no banned word on any line, no docstring that opens with a question word."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BANNED = ("whoever", "nobody", "somebody", "beside", "so many", "anew", "whatever")
"""Words to replace: name the actor; "next to" or "besides"; "as many" or a number; "again"; "any" or "all"."""
QUESTIONS = ("What", "How", "Where", "Whether", "When", "Which", "Who", "Why")
THE_QUESTION = "Which test-time adaptation method is worth its time in your deployment?"
"""The product's question, with which `tempora --help` opens."""

WORD = "|".join(BANNED).replace(" ", r"\s+")
PATTERN = re.compile(rf"(?<!/)\b(?:{WORD})\b", re.IGNORECASE)
"""A slash before the word makes it part of a path, such as /proc/nobody."""

PYTHON = sorted(
    path
    for folder in ("src", "benchmarks", "tests", "examples", "docs")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__)
)
PROSE = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def banned(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the word of each banned word."""
    for found in PATTERN.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found[0]


def questions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of all that is documented by a question."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            said = ast.get_docstring(node) or ""
            if re.match(rf"(?:{'|'.join(QUESTIONS)})\b", said) and said != THE_QUESTION:
                yield getattr(node, "name", "the module"), said


def test_no_banned_word() -> None:
    found = {path: list(banned(path.read_text(encoding="utf-8"))) for path in [*PYTHON, *PROSE]}
    assert {path.relative_to(ROOT): lines for path, lines in found.items() if lines} == {}


def test_no_docstring_is_a_question() -> None:
    """Functions open with a verb, modules and classes with a noun, tests with a plain sentence."""
    found = {path: list(questions(path.read_text(encoding="utf-8"))) for path in PYTHON}
    assert {path.relative_to(ROOT): said for path, said in found.items() if said} == {}
