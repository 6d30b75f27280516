"""benchmarks/bundled.py and methods.py: how passes are summed up, and what a method's work is held against."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tempora_tta.names import METHODS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bundled
import methods

sys.path.pop(0)  # benchmarks/ and tests/ have names in common


def single(method: str, shift: str, seed: int, utility: float) -> dict[str, Any]:
    cells = [
        {"protocol": protocol, "utility": utility, "stepped_fraction": 0.5}
        for protocol in ("offline", "discrete", "continuous", "amortised")
    ]
    task = bundled.Task("single", "fashion_resnet", method, shift, seed, 20)
    return vars(task) | {"cells": cells}


def test_only_seeds_that_have_all_shifts_count() -> None:
    times = [
        {
            "kind": "times",
            "network": "fashion_resnet",
            "method": name,
            "device": "a CPU",
            "predict_ms": ms,
            "adapt_ms": ms - 10,
        }
        for name, ms in (("standard", 10.0), ("tent", 20.0))
    ]
    whole = [single("tent", shift, 2025, 0.4) for shift in bundled.SHIFTS]
    begun = [single("tent", bundled.SHIFTS[0], 2026, 0.9)]
    (row,) = bundled.summed_up([*times, *whole, *begun])["rows"]
    assert (row["seeds"], row["offline"], row["x_standard"], row["stepped_fraction"]) == (1, 0.4, 3.0, 0.5)
    assert bundled.clock_of("fashion_resnet", times) == {
        "baseline_ms": pytest.approx(10.3),
        "standard": (10.0, 0.0),
        "tent": (20.0, 10.0),
    }


def test_every_method_is_somewhere_and_only_where_it_fits() -> None:
    asked = {name for names in bundled.NETWORKS.values() for name in names}
    of_the_field = set(METHODS) - {"settle", "pace"}
    assert asked == of_the_field
    tasks = bundled.tasks()
    assert len(tasks) == len(set(tasks))
    assert {task.seed for task in tasks if task.method in bundled.ONE_SEED} == {bundled.SEEDS[0]}


def test_work_is_counted_in_forwards_and_backwards() -> None:
    memo = SimpleNamespace(settings=SimpleNamespace(views=32))
    assert methods.counted("tent", None, 64, 0.0) == {methods.NORM: 1.0}
    assert methods.counted("roid", None, 64, 32.0) == {methods.NORM: 1.5}
    assert methods.counted("foa", None, 64, 28.0) == {methods.FORWARD: 28.0}
    assert methods.counted("memo", memo, 64, 0.0) == {methods.ALL: 2.0, methods.FORWARD: 0.0625}
    assert methods.counted("rotta", None, 64, 64.0) == {
        methods.FORWARD: 1.0,
        methods.STATISTICS: 1.0,
        methods.NORM: 1.0,
    }
