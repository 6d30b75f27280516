"""The frame of the command: version, help, and user mistakes without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

from tempora_tta import __version__
from tempora_tta.errors import unknown


def tempora(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tempora_tta", *arguments], capture_output=True, text=True)


def test_version():
    assert tempora("--version").stdout.strip() == f"tempora {__version__}"


def test_help_says_what_it_is_for():
    result = tempora("--help")
    assert result.returncode == 0
    assert "worth its time" in result.stdout


def test_unknown_command_is_a_usage_error():
    result = tempora("dmeo")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_suggestions_find_the_nearest_name():
    assert "did you mean 'AdaBN'" in str(unknown("method", "adabm", ["AdaBN", "Tent"]))


def test_what_the_terminal_cannot_show_is_spelt_out():
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tempora_tta", "list", "clocks"]
    result = subprocess.run(command, capture_output=True, text=True, env=narrow)
    assert result.returncode == 0, result.stderr
    assert r"\u03bb 39.9" in result.stdout
