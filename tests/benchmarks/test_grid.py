"""benchmarks/grid.py: a second command goes on where the first ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

GRID = Path(__file__).resolve().parents[2] / "benchmarks" / "grid.py"


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    sizes = ("--batches", "4", "--batch-size", "8")
    files = ("--out", str(folder / "run"), "--json", str(folder / "figures.json"))
    return subprocess.run(
        [sys.executable, str(GRID), *sizes, *files, *arguments], capture_output=True, text=True
    )


def figures(folder: Path) -> dict:
    return json.loads((folder / "figures.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_in_two_commands(tmp_path: Path) -> None:
    first = command(tmp_path, "--only", "lame", "--naive", "none")
    assert first.returncode == 0, first.stderr
    before = figures(tmp_path)
    assert list(before["methods"]) == ["lame"]

    second = command(tmp_path, "--only", "standard,lame,tent", "--naive", "lame")
    assert second.returncode == 0, second.stderr
    after = figures(tmp_path)
    assert list(after["methods"]) == ["standard", "lame", "tent"]
    assert after["baseline_ms"] == before["baseline_ms"]
    lame = after["methods"]["lame"]
    assert lame["shared_s"] == before["methods"]["lame"]["shared_s"]
    # Measured times decide how many of the six budgets run out; each that does needs a frozen tail.
    assert 1 <= lame["shared_passes"] <= 1 + 6
    assert lame["naive_passes"] == 17
    assert after["commands"] == 2

    other = command(tmp_path, "--only", "lame", "--batches", "5")
    assert other.returncode == 1
    assert "holds other work" in other.stderr
