"""Every script of benchmarks/ starts: what it imports of the package exists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(path.name for path in FOLDER.glob("*.py") if path.stem != "common"))
def test_a_script_starts(script: str) -> None:
    ran = subprocess.run([sys.executable, script, "--help"], cwd=FOLDER, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
