"""Names from outside: none steers a terminal, ends in a traceback or becomes a formula."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from made_runs import METHODS, write_run
from tempora_tta import progress
from tempora_tta._plain_text import no_formula, visible
from tempora_tta.cli.terminal import print_error
from tempora_tta.report import tables
from tempora_tta.scenarios import Continuous, Discrete, Offline
from tempora_tta.store import open_run

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
EVIL = "evil\x1b[2J\x1b]0;owned\x07\x9b31m\u202e[bold]=[/]"
FORMULA = "=HYPERLINK(1)"


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose method, shift and machine have hostile names."""
    methods = {name: METHODS[name] for name in ("standard", "adabn")}
    machine = {"cpu": EVIL, "threads": 2, "device": "cpu", "versions": {"torch": EVIL}}
    return write_run(
        tmp_path_factory.mktemp("named") / "run",
        scenarios=(Offline(), Discrete(interval_ms=10.0), Continuous(threshold_ms=15.0)),
        methods={**methods, EVIL: METHODS["tent"], FORMULA: METHODS["sar"]},
        shifts=("fog", f"-{EVIL}", "@SUM"),
        machine=machine,
        batches=30,
    ).path


@pytest.mark.parametrize(
    "words",
    [
        "show RUN",
        *(f"show RUN --table offline --by-shift --format {kind}" for kind in ("markdown", "latex", "json")),
        "recommend RUN --interval-ms 50",
        "recommend RUN --p99-ms 60 --format json",
        *(f"compare RUN RUN --format {kind}" for kind in ("markdown", "csv", "json")),
        "compare RUN RUN",
    ],
)
def test_no_name_steers_the_terminal(named: Path, words: str, said) -> None:
    text = said(*(named if word == "RUN" else word for word in words.split()))
    assert not CONTROL.search(text)
    assert "evil" in text or words.endswith("RUN RUN")
    if words.startswith("compare") and "json" in words:
        assert EVIL in {record["method"] for record in json.loads(text)}, "the very name"


def test_nor_does_a_table_made_in_python_or_a_progress_bar(named: Path) -> None:
    table = tables.build("sweep", open_run(named).utilities)
    for kind in tables.FORMATS:
        assert not CONTROL.search(tables.render(table, kind)), kind
    drawn = io.StringIO()
    with progress.Progress(Console(file=drawn, force_terminal=True, width=100), live=True).drawing() as bars:
        bars.task_started("[/]", "fog", 1)
        bars.pass_started("offline", 3)
    assert "[/]" in drawn.getvalue(), "brackets are text, not markup"


@given(st.text())
def test_visible_text_has_no_control_characters_and_says_which_there_were(text: str) -> None:
    shown = visible(text)
    assert not CONTROL.search(shown)
    assert visible(shown) == shown
    if "\\" not in text:
        assert re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), shown) == text


def test_no_cell_of_a_csv_is_a_formula(named: Path, said) -> None:
    text = said("show", named, "--table", "offline", "--by-shift", "--format", "csv")
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert {f"'{FORMULA}", "'@SUM"} <= set(cells)
    assert all(not cell.startswith(("=", "@", "+", "-")) or float(cell) < 0 for cell in cells)


@given(st.text(), st.floats())
def test_only_text_that_begins_a_formula_changes(text: str, number: float) -> None:
    assert str(no_formula(number)) == str(number)
    assert no_formula(str(number)) == str(number)
    assert no_formula(text) in (text, f"'{text}")
    assert not str(no_formula(f"={text}")).startswith("=")


def test_a_message_is_no_book(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("x" * 3_000_000)
    assert len(capsys.readouterr().err) < 11_000
