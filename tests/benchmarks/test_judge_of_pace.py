"""The judge of `pace`, on utilities that are made up."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import pace

sys.path.pop(0)  # benchmarks/ and tests/ have names in common


def made(**utilities: dict[str, float]) -> pd.DataFrame:
    """By method: utility under each scenario, the same in every stream but for what the seed adds."""
    return pd.DataFrame(
        [
            {
                "network": "net",
                "method": method,
                "protocol": label[0],
                "label": label,
                "batches": 20,
                "shift": shift,
                "seed": seed,
                "utility": utility + 0.001 * seed,
            }
            for method, values in utilities.items()
            for label, utility in values.items()
            for shift in ("clean", "fog")
            for seed in (1, 2, 3)
        ]
    )


GOOD = {
    "standard": {"a1": 0.50, "a2": 0.50, "b1": 0.50},
    "fast": {"a1": 0.60, "a2": 0.40, "b1": 0.60},
    "pace": {"a1": 0.60, "a2": 0.50, "b1": 0.598},
}


def test_a_method_that_is_nowhere_far_from_the_best_passes() -> None:
    found = pace.judged(made(**GOOD))
    assert [found[name]["holds"] for name in ("floor", "regret", "clean")] == [True, True, True]
    assert found["regret"]["best_single"] == "fast"
    assert found["regret"]["pace"] == pytest.approx((0.0 + 0.002) / 2)  # both protocols count equally
    assert found["regret"]["lead"] == pytest.approx(0.025 - 0.001)


@pytest.mark.parametrize(
    ("scenario", "utility", "fails"),
    [("a2", 0.48, {"floor", "regret", "clean"}), ("a2", 0.496, {"clean"}), ("b1", 0.55, {"regret"})],
)
def test_each_criterion_can_fail(scenario: str, utility: float, fails: set[str]) -> None:
    found = pace.judged(made(**{**GOOD, "pace": {**GOOD["pace"], scenario: utility}}))
    assert {name for name in ("floor", "regret", "clean") if not found[name]["holds"]} == fails


def test_the_best_is_chosen_on_the_other_seeds() -> None:
    frame = made(**GOOD)
    lucky = (frame["method"] == "standard") & (frame["seed"] == 1) & (frame["label"] == "b1")
    frame.loc[lucky, "utility"] = 0.9  # on seed 1 alone: the other seeds would not have chosen it
    assert pace.judged(frame)["regret"]["by_protocol"]["b"] < 0.1
