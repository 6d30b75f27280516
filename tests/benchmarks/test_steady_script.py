"""benchmarks/steady.py: whatever it has time for works, and what it has no time for is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "steady.py"


@pytest.mark.slow
def test_no_step_fails(tmp_path: Path) -> None:
    sizes = ("--seconds", "30", "--batches", "2", "--batch-size", "4", "--only", "standard,tent")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path), *sizes], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "steady.json").read_text(encoding="utf-8"))["steps"]
    assert list(steps) == ["steady", "service", "measured", "lived", "naive"]
    assert {step["end"] for step in steps.values()} <= {"done", "time was up"}
