"""benchmarks/noise.py: what counts as a winner that was lost, and as a utility that moved, on frames made up here."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import noise

sys.path.pop(0)  # no longer on the path: benchmarks/ and tests/ have names in common


def winners(method: str, verdict: str, equal_with: str = "") -> pd.DataFrame:
    row = {"shift": "fog", "protocol": "discrete", "label": "50 %"}
    return pd.DataFrame([{**row, "method": method, "verdict": verdict, "equal_with": equal_with}])


@pytest.mark.parametrize(
    ("there", "lost"),
    [
        (winners("tent", "holds"), 0),
        (winners("tent", "undecided"), 0),
        (winners("eta", "equal", "lame, tent"), 0),
        (winners("eta", "equal", "lame"), 1),
        (winners("eta", "undecided"), 1),
    ],
)
def test_a_winner_that_holds_is_winner_or_equal_in_the_other(there: pd.DataFrame, lost: int) -> None:
    found, held = noise.lost_winners(winners("tent", "holds"), there)
    assert (len(found), held) == (lost, 2 if there["verdict"].item() == "holds" else 1)
    assert noise.lost_winners(there, winners("tent", "holds")) == (found, held)


def test_two_winners_that_both_hold_and_differ_are_both_lost() -> None:
    found, held = noise.lost_winners(winners("tent", "holds"), winners("eta", "holds"))
    assert held == 2
    assert [(one["holds"], one["there"]) for one in found] == [("tent", "eta"), ("eta", "tent")]


def test_only_what_the_timing_intervals_leave_open_counts() -> None:
    def cells(*utilities: tuple[float, float, float]) -> pd.DataFrame:
        names = ["utility_lo", "utility", "utility_hi"]
        keys = {"method": "tent", "seed": 1, "shift": "fog", "protocol": "discrete"}
        frame = pd.DataFrame(utilities, columns=names)
        return frame.assign(**keys, label=[f"cell {number}" for number in range(len(frame))])

    nan = float("nan")
    first = cells((0.5, 0.5, 0.5), (0.4, 0.5, 0.52), (0.5, 0.5, 0.5), (nan, nan, nan))
    second = cells((0.5, 0.5, 0.5), (0.51, 0.6, 0.7), (0.45, 0.46, 0.47), (0.5, 0.5, 0.5))
    found = noise.distances(first, second)
    assert found["distance"].round(6).tolist() == [0.0, 0.1, 0.04]
    assert found["beyond"].round(6).tolist() == [0.0, 0.0, 0.03]
