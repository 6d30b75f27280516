"""Output of the commands: within the window, plain in a log, errors on stderr, and the exit status."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from made_runs import write_run
from tempora_tta import names, progress
from tempora_tta.cli import app, main
from tempora_tta.cli.list_ import LISTS
from tempora_tta.cli.terminal import resumable, steps
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline

FEW = (Offline(), Discrete(interval_ms=10.0), Continuous(threshold_ms=15.0), Amortised(budget_ms=60.0))
SMALL = ("--batches", "4", "--batch-size", "8", "--threads", "1", "--set", "data.workers=0", "--grid", "none")
RUN = ("run", "--shifts", "contrast", "--methods", "standard,adabn", *SMALL, "--clock", "published:rn50_inc")
NOT_OF_THIS_RUN = {"settings", "buffering", "segments", "stream", "seeds"}
"""Tables that need oracles, two queues, a stream of many shifts, or several seeds."""
CURSOR = re.compile(r"\x1b\[(\?25|\d*[ABCDGJK])|\r")
"""Codes that move the cursor or erase: a log that holds one is unreadable."""


def said(*words: str | Path, columns: int = 80, **env: str | None) -> str:
    """Run a command into a pipe and return what it prints."""
    plain = {"COLUMNS": str(columns), "FORCE_COLOR": None, "NO_COLOR": None, "TERM": "xterm-256color"}
    result = CliRunner(env={**plain, **env}).invoke(app, [str(word) for word in words])
    if isinstance(result.exception, TemporaError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def fits(text: str, columns: int) -> bool:
    return all(cell_len(line.rstrip()) <= columns for line in text.splitlines())


def commands(group: typer.Typer = app, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield above
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*above, command.name or command.callback.__name__)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, (*above, str(inner.typer_instance.info.name)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("look") / "run"
    write_run(folder, scenarios=FEW, shifts=("gaussian_noise", "elastic_transform"))
    return folder


# -- the window ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
@pytest.mark.parametrize("columns", [80, 200])
def test_help_fits_the_window(words: tuple[str, ...], columns: int) -> None:
    text = said(*words, "--help", columns=columns)
    assert fits(text, columns)
    assert "\x1b" not in text
    assert "…" not in text, "something is cut off"


@pytest.mark.parametrize("words", [("list", what) for what in LISTS])
@pytest.mark.parametrize("columns", [80, 200])
def test_lists_fit_the_window(words: tuple[str, ...], columns: int) -> None:
    text = said(*words, columns=columns)
    assert fits(text, columns)
    assert "\x1b" not in text
    assert "…" not in text


@pytest.mark.parametrize("table", [None, *sorted(set(names.TABLES) - NOT_OF_THIS_RUN)])
@pytest.mark.parametrize("columns", [80, 200])
def test_tables_fit_the_window(run: Path, table: str | None, columns: int) -> None:
    text = said("show", run, *(["--table", table] if table else []), columns=columns)
    assert fits(text, columns)
    assert "\x1b" not in text
    assert "…" not in text


# -- a log -----------------------------------------------------------------------------------------------------


def test_colours_forced_into_a_log_bring_no_moving_bars(tmp_path: Path) -> None:
    text = said(*RUN, "--out", tmp_path / "run", FORCE_COLOR="1")
    assert "\x1b[1m" in text, "colours were asked for"
    assert not CURSOR.search(text)
    assert re.search(r"\d s  contrast adabn \(seed 2025\) done", text)


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress, "SAY_EVERY_S", 0.0)
    text = said(*RUN, "--out", tmp_path / "run")
    assert re.search(r"\d s  contrast adabn: \w+: 75 %", text)
    log = Console(file=StringIO(), force_terminal=True, highlight=False)
    with steps(log) as show:
        show("big.tar", 1, 4)
        show("other.tar", 2000, 0)
    assert isinstance(log.file, StringIO)
    said_of = [line.split(" s  ")[1] for line in log.file.getvalue().splitlines()]
    assert said_of == ["big.tar: 25 % done", "other.tar: 2,000 done"]


def test_nothing_is_said_more_often_than_needed() -> None:
    log = Console(file=StringIO())
    with steps(log) as show:
        show("big.tar", 1, 4)
    assert isinstance(log.file, StringIO)
    assert log.file.getvalue() == ""


def test_quiet_is_quiet(tmp_path: Path) -> None:
    assert said(*RUN, "--quiet", "--out", tmp_path / "run") == ""


# -- errors and the exit status --------------------------------------------------------------------------------


def tempora(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tempora_tta", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("compare", "one"), 1, "error: compare takes one other thing"),
        (("merge", "one", "--out", "two"), 1, "error: "),
        (("shwo",), 2, "No such command 'shwo'"),
        (("list",), 2, "Missing argument"),
        (("list", "methods", "--colour"), 2, "No such option"),
    ],
)
def test_mistakes_go_to_stderr_with_their_exit_status(
    words: tuple[str, ...], status: int, message: str, tmp_path: Path
) -> None:
    done = tempora(*words, cwd=tmp_path)
    assert done.returncode == status
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


def test_a_place_that_cannot_be_used_is_a_mistake_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write() -> None:
        raise PermissionError(13, "Permission denied", "/etc/report.html")

    monkeypatch.setattr(sys.modules["tempora_tta.cli.app"], "app", write)
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err.startswith(
        "error: /etc/report.html: Permission denied; name another place"
    )


def on_a_terminal(columns: int, *words: str, **env: str) -> str:
    """Run a command on a terminal of that width and return what it prints."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    known = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "tempora_tta", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**known, "TERM": "xterm-256color", **env},
    )
    os.close(theirs)
    text = b""
    try:
        while block := os.read(ours, 65536):
            text += block
    except OSError:  # how Linux says that the other side is closed
        pass
    child.wait()
    os.close(ours)
    return text.decode()


def test_errors_on_a_terminal_are_coloured_and_wrapped_between_words() -> None:
    text = on_a_terminal(60, "compare", "one")
    assert "\x1b[1;31merror:\x1b[0m" in text
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    assert len(lines) > 1
    assert fits("\n".join(lines), 60)
    assert "--published rn50_inc" in " ".join(lines)


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=str)
def test_terminals_without_colour_get_none(env: dict[str, str]) -> None:
    text = on_a_terminal(80, "compare", "one", **env)
    assert "one other thing" in text
    assert not re.search(r"\x1b\[[\d;]*3\dm", text)


# -- Ctrl-C ----------------------------------------------------------------------------------------------------


def test_ctrl_c_stops_a_run_and_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(progress.Progress, "task_finished", interrupt)
    words = [*RUN, "--out", str(tmp_path / "a run")]
    monkeypatch.setattr(sys, "argv", ["tempora", *words])
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, words)
    assert result.exit_code == 130
    assert result.output.splitlines()[-1] == shlex.join(["tempora", *words])
    monkeypatch.undo()
    assert "4 batches of" in said(*words)


def test_ctrl_c_in_what_is_no_run() -> None:
    log = Console(file=StringIO())
    with pytest.raises(typer.Exit) as stopped, resumable(log, "what was fetched is kept"):
        raise KeyboardInterrupt
    assert isinstance(log.file, StringIO)
    assert (
        log.file.getvalue().splitlines()[0] == "stopped; what was fetched is kept. This goes on from there:"
    )
    assert stopped.value.exit_code == 130
