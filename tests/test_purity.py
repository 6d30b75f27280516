"""Pure packages never import torch, and the command answers before anything heavy is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

PURE = ["errors", "config", "scenarios", "published", "store", "analysis", "report"]
HEAVY = ["torch", "pandas", "pyarrow", "numpy", "pydantic", "scipy", "matplotlib"]


@pytest.mark.parametrize(
    ("rooms", "absent"),
    [
        (PURE, ["torch"]),
        (["cli"], HEAVY),
    ],
    ids=["pure", "light"],
)
def test_what_is_imported_stays_light(rooms: list[str], absent: list[str]) -> None:
    """One process for all rooms, in the order of the layers: the first that imports it is named."""
    checked = f"if loaded := set(sys.modules) & set({absent}): sys.exit(f'{{loaded}} by {{room}}')"
    loop = f"for room in {rooms}:\n importlib.import_module(f'tempora_tta.{{room}}')\n {checked}"
    ended = subprocess.run(
        [sys.executable, "-c", f"import importlib, sys\n{loop}"], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
