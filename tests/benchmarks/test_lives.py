"""benchmarks/deploy.py: how many lived cells lie within a point of the simulated ones."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import deploy

sys.path.pop(0)  # benchmarks/ and tests/ have names in common


def cell(simulated: float, *lived: float) -> dict[str, object]:
    return {"simulated": {"utility": simulated}, "lives": [{"lived": {"utility": one}} for one in lived]}


def test_a_cell_is_judged_by_the_mean_of_its_lives() -> None:
    cells = [cell(0.5, 0.48, 0.52), cell(0.5, 0.508, 0.51), cell(0.5, 0.3, 0.5)]
    assert [round(deploy.apart(one), 6) for one in cells] == [0.0, 0.009, 0.1]
    assert deploy.within_a_point(cells).startswith("2 of 3 ")
    assert deploy.within_a_point([]).startswith("0 of 0 ")
