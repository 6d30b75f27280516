"""Random deployments of every knob against the plain restatement of the rules in `naive.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from naive import expected

from tempora_tta.scenarios import Bursty, Deployment, Periodic, Poisson, Recorded

KNOBS = ("queue", "threshold_ms", "deadline_ms", "budget_ms", "fallback", "fallback_cost", "rule")


def random_case(rng: np.random.Generator) -> tuple[Deployment, dict[str, Any]]:
    """A deployment and a stream; in every third case all times are whole numbers, so that instants coincide."""
    count, baseline_ms = int(rng.integers(1, 41)), float(rng.uniform(20, 60))
    whole = rng.random() < 1 / 3

    def times(low: float, high: float) -> list[float]:
        values = rng.uniform(low, high, count)
        return [float(value) for value in (np.round(values / 10) * 10 if whole else values)]

    loop = str(rng.choice(["on_completion", "on_prediction"])) if rng.random() < 0.2 else None
    fallback = None if loop else rng.choice([None, "latest", "standard"], p=[0.3, 0.4, 0.3])
    value = rng.choice(["none", "threshold_ms", "deadline_ms"])
    budget = rng.choice(["none", "zero", "some"])
    pauses = rng.choice([0.0, 0.0, 1.0], count) * np.array(times(0, 200)) + np.array(
        times(0, 5 * baseline_ms / 3)
    )
    case: dict[str, Any] = {
        "baseline_ms": baseline_ms,
        "arrivals": loop,
        "arrivals_ms": None if loop else [float(ms) for ms in np.cumsum(pauses)],
        "queue": int(rng.choice([0, 1, 1, 2, 3, 8])),
        "threshold_ms": baseline_ms * float(rng.uniform(1.01, 10)) if value == "threshold_ms" else None,
        "deadline_ms": baseline_ms * float(rng.uniform(0.5, 6)) if value == "deadline_ms" else None,
        "budget_ms": {"none": None, "zero": 0.0, "some": float(rng.uniform(0, baseline_ms * count))}[budget],
        "fallback": None if fallback is None else str(fallback),
        "fallback_cost": None if fallback is None else str(rng.choice(["free", "charged"])),
        "rule": "strict" if loop == "on_completion" and rng.random() < 0.5 else "overshoot",
        "predict_ms": times(0.8 * baseline_ms, 1.6 * baseline_ms),
        "adapt_ms": [float(ms) for ms in np.array(times(0, 3 * baseline_ms)) * (rng.random(count) < 0.7)],
        "frozen_ms": times(0.7 * baseline_ms, 1.1 * baseline_ms),
        "fallback_ms": times(0.7 * baseline_ms, 1.1 * baseline_ms),
        **{
            name: rng.integers(0, 65, count) / 64
            for name in ("accuracy", "frozen_accuracy", "fallback_accuracy")
        },
    }
    when = loop or _schedule(rng, case, count)
    return Deployment(arrivals=when, **{name: case[name] for name in KNOBS}), case


def _schedule(rng: np.random.Generator, case: dict[str, Any], count: int) -> Any:
    """The arrivals of the case, or those of a kind that draws its own, which the case then takes."""
    pace = {"utilisation": float(rng.uniform(0.2, 2))}
    kinds = [
        Recorded(case["arrivals_ms"]),
        Periodic(**pace),
        Poisson(**pace),
        Bursty(**pace, burst=3, length=4),
    ]
    kind = kinds[int(rng.choice(4, p=[0.7, 0.1, 0.1, 0.1]))]
    case["arrivals_ms"] = kind.times(count, seed=7, shift="fog", baseline_ms=case["baseline_ms"]).tolist()
    return kind


STREAM = (
    *("accuracy", "predict_ms", "adapt_ms", "frozen_accuracy", "frozen_ms"),
    *("fallback_accuracy", "fallback_ms", "baseline_ms"),
)


def check(seed: int) -> None:
    deployment, case = random_case(np.random.default_rng([16, seed]))
    score = deployment.score(**{name: case[name] for name in STREAM}, seed=7, shift="fog")
    wanted = expected(case)
    assert score.course.phase == wanted.pop("phase"), case
    found = {"utility": score.utility, **score.terms}
    for term, value in wanted.items():
        assert found[term] == (None if value is None else pytest.approx(value, abs=1e-12, rel=1e-12)), (
            term,
            case,
        )


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_a_hundred_random_deployments_are_what_the_rules_say(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)


def test_the_random_deployments_reach_every_phase_and_every_knob() -> None:
    """So that agreement above means something."""
    drawn = [random_case(np.random.default_rng([16, seed])) for seed in range(300)]
    phases = {phase for _, case in drawn for phase in expected(case)["phase"]}
    assert phases == {"adapt", "frozen", "fallback", "skipped"}
    assert {case["queue"] for _, case in drawn} == {0, 1, 2, 3, 8}
    assert {(case["fallback"], case["fallback_cost"]) for _, case in drawn} == {
        (None, None),
        *((who, cost) for who in ("latest", "standard") for cost in ("free", "charged")),
    }
    schedules = [case["arrivals_ms"] for _, case in drawn if case["arrivals_ms"]]
    coincide = [times for times in schedules if len(set(times)) < len(times)]
    assert len(coincide) > 20
