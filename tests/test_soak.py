"""A few rounds of tests/soak.py, which goes on for as long as one lets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="the soak forks and limits processes as Unix does")


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_changed():
    words = [sys.executable, str(Path(__file__).with_name("soak.py")), "--rounds", "2", "--seed", "4"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rounds" in done.stdout
