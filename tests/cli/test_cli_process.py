"""The command as a process: exit status, stderr, broken outputs, and terminals of every kind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tempora_tta import __version__
from tempora_tta.store import open_run

TEMPORA = [sys.executable, "-m", "tempora_tta"]
FULL = "/dev/full"
EVIL = "evil\x1b[2J\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("words", "env", "status", "printed", "complained"),
    [
        (["--version"], {}, 0, [f"tempora {__version__}\n"], []),
        (["--help"], {"COLUMNS": "0"}, 0, ["worth its time"], []),
        (["shwo"], {}, 2, [], ["shwo"]),
        (["list", "methods", "--colour"], {}, 2, [], ["--colour"]),
        (["compare", "one"], {}, 1, [], ["error: ", "--published"]),
        (["show", f"nowhere/{EVIL}"], {}, 1, [], ["error: ", "evil", "run folder"]),
        (["list", "clocks"], {"PYTHONIOENCODING": "ascii"}, 0, [r"\u03bb 39.9"], []),
    ],
    ids=["version", "no width", "command", "option", "mistake", "hostile name", "ascii"],
)
def test_mistakes_end_on_stderr_with_their_status_and_the_rest_on_stdout(
    words: list[str], env: dict[str, str], status: int, printed: list[str], complained: list[str]
) -> None:
    done = subprocess.run([*TEMPORA, *words], env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    for text, parts in ((done.stdout, printed), (done.stderr, complained)):
        assert bool(text) == bool(parts)
        assert all(part in text for part in parts), text
        assert "\x1b" not in text
        assert "Traceback" not in text


@pytest.mark.skipif(not Path(FULL).exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize(
    ("output", "status", "complained"),
    [
        (f">{FULL}", 1, "No space left on device"),
        ("| :", 0, ""),
        ("2>&-", 0, ""),
        pytest.param(">&-", 0, "", marks=pytest.mark.slow),
        pytest.param(">&- 2>&-", 0, "", marks=pytest.mark.slow),
    ],
)
def test_an_output_that_takes_nothing_is_a_sentence_or_nothing(
    run: Path, output: str, status: int, complained: str
) -> None:
    """A full disk, a reader that leaves, and closed streams."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {output}', "sh", *TEMPORA, "show", str(run)], capture_output=True, text=True
    )
    assert done.returncode == status
    assert complained in done.stderr
    assert bool(done.stderr) == bool(complained)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path(FULL).exists(), reason="no /dev/full on this system")
def test_a_run_whose_output_cannot_be_written_stops_and_goes_on_later(tmp_path: Path) -> None:
    """The pass that was being made did nothing wrong: it is not recorded as failed."""
    folder = tmp_path / "run"
    words = (
        "run --shifts contrast --methods standard,adabn --batches 2 --batch-size 8 --threads 1 --grid none "
        f"--set data.workers=0 --clock published:rn50_inc --out {folder}"
    ).split()
    with open(FULL, "w") as full:
        ended = subprocess.run([*TEMPORA, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
    subprocess.run([*TEMPORA, *words], capture_output=True, check=True)
    assert set(open_run(folder).utilities["status"]) == {"ok"}


def test_python_without_docstrings_says_why_it_draws_nothing(run: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*TEMPORA, "report", str(run), "--out", str(tmp_path / "page.html")],
        env={**os.environ, "PYTHONOPTIMIZE": "2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "PYTHONOPTIMIZE" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "page.html").exists()


def on_a_terminal(columns: int, *words: str, **env: str) -> str:
    """Run a command on a terminal of that width and return what it prints."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", **env}
    child = subprocess.Popen([*TEMPORA, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
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


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}], ids=str)
def test_errors_on_a_terminal_are_wrapped_between_words_and_coloured_where_it_has_colours(
    env: dict[str, str],
) -> None:
    text = on_a_terminal(60, "compare", "one", **env)
    assert bool(re.search(r"\x1b\[[\d;]*3\dm", text)) == (not env)
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 60
    assert "--published rn50_inc" in " ".join(lines)
