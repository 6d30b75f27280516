"""Nothing outside the rooms that define them decides by the name of a protocol or of a method: cards and terms do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tempora_tta as tempora
from tempora_tta.names import METHODS
from tempora_tta.scenarios.specs import KINDS

ROOT = Path(tempora.__file__).parent
ROOMS = ("scenarios", "methods", "published")
"""Rooms where the paper's scenarios and methods are at home. `names.py` lists them, for everyone."""
NAMES = {*KINDS, *METHODS} - {"standard"}
"""Standard inference is what every comparison is with."""

PYTHON = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ROOMS]
SCRIPTS = sorted(ROOT.rglob("*.js"))


def named(node: ast.AST) -> Iterator[str]:
    """The protocols and methods that are written in an expression, alone or in a list."""
    for part in [node, *getattr(node, "elts", [])]:
        if isinstance(part, ast.Constant) and part.value in NAMES:
            yield str(part.value)


def decisions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Comparisons, `match` cases and keys of dictionaries that name one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("isin", "eq", "ne", "get"):
            parts = list(node.args)
        else:
            continue
        for part in parts:
            for name in named(part):
                # The resolved knobs of a pass are stored under the key "deployment".
                if name != "deployment" or isinstance(node, (ast.Compare, ast.MatchValue, ast.Dict)):
                    yield getattr(node, "lineno", 0), name


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_python_asks_cards(path: Path) -> None:
    if path.name == "names.py":
        return  # the list itself
    found = list(decisions(ast.parse(path.read_text(encoding="utf-8"))))
    assert found == [], "a card or a term should answer"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_ask_cards(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    names = "|".join(sorted(NAMES))
    compared = re.findall(rf"""(?:[=!]==?|includes\(|case)\s*["'`](?:{names})["'`]""", text)
    keys = re.findall(rf"""(?:[{{,]|^)\s*["']?(?:{names})["']?\s*(?::|\()""", text, re.MULTILINE)
    assert compared + keys == []
