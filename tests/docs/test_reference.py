"""The generated pages are what the code says now, and the whole site builds without a warning."""

from __future__ import annotations

import importlib.util
import inspect
import os
import pkgutil
import re
import runpy
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


@pytest.fixture(scope="module")
def generate() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "docs" / "generate.py"))


def test_the_generated_pages_are_current(generate):
    for path, text in generate["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: run python docs/generate.py"


def test_a_page_without_a_place_for_generated_text_is_an_error(generate):
    with pytest.raises(ValueError, match="has 0 places for 'limits', expected 1"):
        generate["filled"]("published.md", {"limits": "| a |"})


def test_the_command_line_page_has_every_command_and_option(generate):
    page = generate["cli"]()
    for words in (
        "## tempora run",
        "## tempora data corrupt",
        "`--dry-run`",
        "`--realtime`",
        "`--set`",
    ):
        assert words in page
    assert "inspect._empty" not in page
    assert "- `--out` (required): The new run folder." in page


def test_no_word_is_explained_in_two_ways(generate):
    """The docs quote the report's explanations (`generate`), and explain only other words themselves."""
    page = (ROOT / "docs" / "concepts" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", page.partition("<!-- end -->")[2], re.MULTILINE)
    by_hand = {word for row in rows for word in row.lower().split(", ")}
    assert {"queue", "stream"} <= by_hand
    assert by_hand.isdisjoint({word.lower() for word in WORDS})
    assert by_hand.isdisjoint({"winner", "wins", "champion", "cell", "pressured cell", "baseline latency"})


def test_the_glossary_defines_what_the_analysis_counts():
    """`analysis.cells` decides what a cell, a win and a champion are."""
    decides = " ".join(inspect.getdoc(sys.modules["tempora_tta.analysis.cells"]).split())
    assert "A *cell* is one shift under one scenario, its seeds taken together" in decides
    assert WORDS["Cell"] == "One shift under one scenario, its seeds taken together."
    assert "The *champion* of a scenario wins it over all shifts together" in decides
    assert WORDS["Champion"] == "Of a scenario: the method that wins it over all shifts together."


def _documented() -> list[str]:
    pages = sorted((ROOT / "docs" / "reference" / "python").glob("*.md"))
    assert len(pages) > 5
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


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra `docs`")
def test_the_site_builds_without_a_warning(tmp_path):
    build = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(
        build, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}
    )
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site" / "reference" / "python").rglob("index.html"))
    page = "".join(each.read_text(encoding="utf-8") for each in pages)
    assert all(f"<code>{name}</code>" in page for name in ("batches", "methods", "observer"))
    assert "fonts.googleapis.com" not in page


def test_the_citation_names_this_version_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert citation["references"][0]["title"].endswith("Utility of Online Test-Time Adaptation")
