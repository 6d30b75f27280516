"""The generated pages are what the code says now, and the reference has every public name."""

from __future__ import annotations

import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import tempora_tta as tempora
import tempora_tta.analysis
from tempora_tta import __version__
from tempora_tta.report.html.glossary import WORDS

ROOT = Path(__file__).parents[2]


CURRENT = """
import runpy
for path, text in runpy.run_path("docs/generate.py")["pages"]().items():
    assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: run python docs/generate.py"
"""


def test_the_generated_pages_are_current():
    """In a process of its own: other tests register methods in this one."""
    done = subprocess.run([sys.executable, "-c", CURRENT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_word_is_explained_in_two_ways():
    """The docs quote the report's explanations (`generate`), and explain only other words themselves."""
    page = (ROOT / "docs" / "concepts" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", page.partition("<!-- end -->")[2], re.MULTILINE)
    by_hand = {word for row in rows for word in row.lower().split(", ")}
    assert {"queue", "stream"} <= by_hand
    assert by_hand.isdisjoint({word.lower() for word in WORDS})
    assert by_hand.isdisjoint({"winner", "wins", "champion", "cell", "pressured cell", "baseline latency"})


def _documented() -> list[str]:
    pages = (ROOT / "docs" / "reference" / "python").glob("*.md")
    return [
        name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
    ]


@pytest.mark.parametrize("package", [tempora, tempora_tta.analysis], ids=lambda package: package.__name__)
def test_every_public_name_is_in_the_reference(package):
    listed = {name.rpartition(".")[2] for name in _documented()}
    assert set(package.__all__) - {"__version__"} <= listed


def test_everything_in_the_reference_is_there_and_says_what_it_is():
    for name in _documented():
        assert inspect.getdoc(pkgutil.resolve_name(name)), name


def test_the_citation_names_this_version_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert citation["references"][0]["title"].endswith("Utility of Online Test-Time Adaptation")
