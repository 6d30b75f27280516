"""benchmarks/page.py: what the table of lived cells says of its file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import page

sys.path.pop(0)  # benchmarks/ and tests/ have names in common

from tempora_tta.measure import Profile, load_profile


def figures(utility: float, p90_ms: float | None = None) -> dict[str, float | None]:
    return {"utility": utility, "availability": 1.0, "response_p50_ms": 5.0, "response_p90_ms": p90_ms}


def cell(
    simulated: float, lived: list[float], not_judged: str | None = None, **figure: float
) -> dict[str, object]:
    return {
        "grid": "camera",
        "method": "tent",
        "label": "ρ 50 %",
        "not_judged": not_judged,
        "handover_us": 60.0,
        "simulated": {**figures(simulated, 7.0), **figure},
        "lives": [{"lived": figures(one), "replayed": figures(one)} for one in lived],
    }


def test_lived_cells_are_counted_by_what_the_issue_asks() -> None:
    cells = [
        cell(0.5, [0.49, 0.505]),
        cell(0.5, [0.4, 0.4], availability=0.9),
        cell(0.5, [0.1, 0.1], "no queue"),
    ]
    about = {
        "command": "python benchmarks/deploy.py lived",
        "model": "fashion_resnet",
        "batches": 8,
        "batch_size": 4,
        "baseline_ms": 5.0,
        "repeats": 2,
    }
    lines = page.lived_table("cpu-lived", "two cores", {**about, "load": 0.5, "seconds": 9.0, "cells": cells})
    assert lines[2].startswith(
        "`python benchmarks/deploy.py lived --json benchmarks/results/cpu-lived.json`: "
    )
    assert "Of the 2 cells" in lines[2]
    assert "1 are within 1 point of what the profile says (mean 5.12, largest 10.00)" in lines[2]
    assert (
        "of the 1 among them in which the method keeps up, so that nothing is lost, 1 (largest 0.25)"
        in lines[2]
    )
    assert "replayed differ by at most 0.0000 points" in lines[2]
    assert lines[6:9] == [
        "| camera: ρ 50 % | tent | 50.0 | 49.8 (49.0 to 50.5) | 100 %, 100 % | 5.0, 5.0 | 7.0, - | yes |",
        "| camera: ρ 50 % | tent | 50.0 | 40.0 (40.0 to 40.0) | 90 %, 100 % | 5.0, 5.0 | 7.0, - | no |",
        "| camera: ρ 50 % | tent | 50.0 | 10.0 (10.0 to 10.0) | 100 %, 100 % | 5.0, 5.0 | 7.0, - | no queue |",
    ]


def test_the_profiles_that_results_were_made_with_still_open() -> None:
    profiles = sorted(page.RESULTS.glob("*-profile.json"))
    assert profiles
    for path in profiles:
        assert isinstance(load_profile(path), Profile)
