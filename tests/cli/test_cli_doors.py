"""Names from outside, and paths for output: none steers a terminal, opens a file or ends in a traceback."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from made_runs import METHODS, write_run
from tempora_tta import progress
from tempora_tta._plain_text import no_formula, visible
from tempora_tta.cli import app
from tempora_tta.cli.terminal import console
from tempora_tta.errors import TemporaError
from tempora_tta.report import tables
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline
from tempora_tta.store import open_run

FEW = (Offline(), Discrete(interval_ms=10.0), Continuous(threshold_ms=15.0), Amortised(budget_ms=60.0))
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
EVIL = "evil\x1b[2J\x1b]0;owned\x07\x9b31m\u202e[bold]=[/]"
FORMULA = "=HYPERLINK(1)"


def said(*words: str | Path) -> str:
    result = CliRunner(env={"COLUMNS": "100", "TERM": "xterm-256color"}).invoke(
        app, [str(word) for word in words]
    )
    if isinstance(result.exception, TemporaError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


# -- names ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose method, shift and machine have hostile names."""
    folder = tmp_path_factory.mktemp("named") / "run"
    methods = {**METHODS, EVIL: METHODS["tent"], FORMULA: METHODS["sar"]}
    machine = {"cpu": EVIL, "threads": 2, "device": "cpu", "versions": {"torch": EVIL}}
    write_run(folder, scenarios=FEW, methods=methods, shifts=("fog", f"-{EVIL}", "@SUM"), machine=machine)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        *(("show", "--table", name) for name in ("offline", "sweep", "winners", "overhead")),
        *(
            ("show", "--table", "offline", "--by-shift", "--format", kind)
            for kind in ("markdown", "csv", "latex", "json")
        ),
        ("recommend", "--interval-ms", "50"),
        *(("recommend", "--p99-ms", "60", "--format", kind) for kind in ("terminal", "json")),
    ],
    ids=" ".join,
)
def test_no_name_steers_the_terminal(named: Path, words: tuple[str, ...]) -> None:
    text = said(words[0], named, *words[1:])
    assert not CONTROL.search(text)
    assert "evil" in text


@pytest.mark.parametrize("kind", ["table", "markdown", "csv", "latex", "json"])
def test_nor_do_two_runs_that_are_compared(named: Path, kind: str) -> None:
    assert not CONTROL.search(said("compare", named, named, *(() if kind == "table" else ("--format", kind))))


def test_nor_does_a_table_made_in_python(named: Path) -> None:
    table = tables.build("sweep", open_run(named).utilities)
    for kind in tables.FORMATS:
        assert not CONTROL.search(tables.render(table, kind)), kind


def test_json_still_holds_the_very_name(named: Path) -> None:
    found = json.loads(said("compare", named, named, "--format", "json"))
    assert EVIL in {record["method"] for record in found}


def test_an_error_is_plain_text(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tempora_tta", "show", str(tmp_path / EVIL)]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "is not a run folder" in " ".join(ended.stderr.split())
    assert not CONTROL.search(ended.stderr)


def test_markup_in_a_name_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("[bold]tent[/bold] [/] :smile:")
    assert capsys.readouterr().out == "[bold]tent[/bold] [/] :smile:\n"


def test_a_name_with_brackets_does_not_end_the_progress_bar() -> None:
    """On a terminal the bar would read it as markup, and `[/]` closes what was never opened."""
    drawn = Console(file=io.StringIO(), force_terminal=True, width=100)
    with progress.Progress(drawn, live=True).drawing() as bars:
        bars.task_started("[/]", "fog", 1)
        bars.pass_started("offline", 3)
    assert "[/]" in drawn.file.getvalue()  # type: ignore[attr-defined]


@given(st.text())
def test_visible_text_has_no_control_characters_and_says_which_there_were(text: str) -> None:
    shown = visible(text)
    assert not CONTROL.search(shown)
    assert visible(shown) == shown
    if "\\" not in text:
        assert re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), shown) == text


# -- spreadsheets --------------------------------------------------------------------------------------------


def test_no_cell_of_a_csv_is_a_formula(named: Path) -> None:
    for text in (
        said("show", named, "--table", "offline", "--by-shift", "--format", "csv"),
        said("compare", named, named, "--format", "csv"),
    ):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert f"'{FORMULA}" in cells
        assert "shift" not in cells or "'@SUM" in cells
        for cell in cells:
            assert not cell.startswith(("=", "@", "+", "-")) or float(cell) < 0, cell


@given(st.text(), st.floats())
def test_only_text_that_begins_a_formula_changes(text: str, number: float) -> None:
    assert str(no_formula(number)) == str(number)
    assert no_formula(str(number)) == str(number)
    assert no_formula(text) in (text, f"'{text}")
    assert not str(no_formula(f"={text}")).startswith("=")


# -- where output goes ---------------------------------------------------------------------------------------

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
PRINTING = {
    "a table": ("show", "RUN"),
    "text to paste": ("show", "RUN", "--table", "offline", "--format", "csv"),
    "help": ("--help",),
}
PRINTED = pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=name, marks=pytest.mark.slow if name == "text to paste" else ())
        for name, words in PRINTING.items()
    ],
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doors") / "run"
    write_run(folder, scenarios=FEW)
    return folder


def command(run: Path, words: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "tempora_tta", *(str(run) if word == "RUN" else word for word in words)]


@needs_full
@PRINTED
def test_a_full_disk_behind_the_output_is_said(run: Path, words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        ended = subprocess.run(command(run, words), stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    message = " ".join(ended.stderr.split())
    assert message.startswith("error: cannot write: No space left on device. Send the output elsewhere")
    assert "Traceback" not in message
    assert "Exception ignored" not in message


@needs_full
@pytest.mark.slow
def test_a_run_whose_output_cannot_be_written_stops_and_goes_on_later(tmp_path: Path) -> None:
    """The pass that was being made did nothing wrong: it is not recorded as failed."""
    words = (
        *(
            "run",
            "--shifts",
            "contrast",
            "--methods",
            "standard,adabn",
            "--batches",
            "2",
            "--batch-size",
            "8",
        ),
        *("--threads", "1", "--set", "data.workers=0", "--grid", "none", "--clock", "published:rn50_inc"),
        *("--out", str(tmp_path / "run")),
    )
    with FULL.open("w") as full:
        ended = subprocess.run(command(tmp_path, words), stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert "error: cannot write: No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
    ended = subprocess.run(command(tmp_path, words), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert set(open_run(tmp_path / "run").utilities["status"]) == {"ok"}


@PRINTED
def test_a_reader_that_leaves_is_no_error(run: Path, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(command(run, words), stdout=writing, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writing)
    assert ended.returncode == 1
    assert ended.stderr == ""


@pytest.mark.skipif(os.name == "nt", reason="no shell that closes a stream")
@pytest.mark.parametrize("closed", [pytest.param(">&-", marks=pytest.mark.slow), "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_traceback(run: Path, closed: str) -> None:
    words = shlex.join(command(run, ("show", "RUN")))
    ended = subprocess.run(["sh", "-c", f"{words} {closed}"], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_message_is_no_book(capsys: pytest.CaptureFixture[str]) -> None:
    from tempora_tta.cli.terminal import print_error

    print_error("x" * 3_000_000)
    assert len(capsys.readouterr().err) < 11_000


# -- what the environment says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("show", "RUN"), ("show", "--help"), ("show", "/nowhere")], ids=" ".join)
def test_a_window_without_a_width_is_no_window_without_room(run: Path, words: tuple[str, ...]) -> None:
    ended, usual = (
        subprocess.run(command(run, words), capture_output=True, text=True, env={**os.environ, **more})
        for more in ({"COLUMNS": "0"}, {})
    )
    assert ended.stdout + ended.stderr == usual.stdout + usual.stderr
    assert (ended.stdout + ended.stderr).strip()


def test_python_without_docstrings_says_why_it_draws_nothing(run: Path, tmp_path: Path) -> None:
    bare = {**os.environ, "PYTHONOPTIMIZE": "2"}
    figures, page = (
        subprocess.run(command(run, ("report", "RUN", *more)), capture_output=True, text=True, env=bare)
        for more in (("--figures", str(tmp_path)), ("--out", str(tmp_path / "page.html")))
    )
    for ended in (figures, page):
        assert ended.returncode == 1
        assert "PYTHONOPTIMIZE" in ended.stderr
        assert "Traceback" not in ended.stderr
    assert not (tmp_path / "page.html").exists()
