"""Every script of benchmarks/ starts: what it imports of the package exists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.slow
def test_every_script_can_be_imported() -> None:
    """In one process of its own, which ends where one cannot be."""
    scripts = sorted(path.stem for path in FOLDER.glob("*.py"))
    code = f"import importlib\nfor script in {scripts}: print(importlib.import_module(script).__name__)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True)
    assert ran.stdout.split() == scripts, ran.stderr
