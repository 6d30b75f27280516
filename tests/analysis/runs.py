"""Small runs made up for tests: random streams scored by the real scenarios, and frames written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tempora_tta.scenarios import Amortised, Continuous, Deployment, Discrete, Offline, Scenario, Score

BASELINE_MS = 10.0
TIMES_MS = {"standard": (9.0, 0.0), "adabn": (10.5, 0.0), "tent": (10.0, 14.0), "sar": (10.0, 31.0)}
GRID: tuple[Scenario, ...] = (
    Offline(),
    Discrete(interval_ms=10.0, queue=1),
    Discrete(interval_ms=10.0, queue=0),
    Discrete(interval_ms=40.0, queue=1),
    Continuous(threshold_ms=15.0),
    Continuous(threshold_ms=100.0),
    Amortised(budget_ms=60.0, rule="strict"),
    Amortised(budget_ms=300.0, rule="strict"),
    Deployment(interval_ms=12.0, threshold_ms=30.0, budget_ms=80.0),
)


def a_run(
    seed: int = 0, shifts: tuple[str, ...] = ("fog", "snow", "mine"), batches: int = 40
) -> pd.DataFrame:
    """A utilities frame of four methods; the shifts differ in difficulty, speed and length."""
    generator = np.random.default_rng(seed)
    rows = []
    for number, shift in enumerate(shifts):
        length = batches + 7 * number
        for method, (predict_ms, adapt_ms) in TIMES_MS.items():
            gain = 0.0 if method == "standard" else 0.1
            accuracy = generator.uniform(0.1 + 0.2 * number + gain, 0.5 + 0.2 * number, length).clip(0, 1)
            frozen = generator.uniform(0.0, 0.4, length)
            pace = generator.uniform(0.9, 1.2 + 0.2 * number, length)
            for scenario in GRID:
                score = _score(scenario, accuracy, frozen, predict_ms * pace, adapt_ms * pace)
                rows.append(_row(scenario, score, method, shift, seed))
    return pd.DataFrame(rows)


def _score(scenario: Scenario, accuracy: Any, frozen: Any, predict_ms: Any, adapt_ms: Any) -> Score:
    return scenario.deployment().score(
        accuracy=accuracy,
        predict_ms=predict_ms,
        adapt_ms=adapt_ms,
        frozen_accuracy=frozen,
        frozen_ms=predict_ms,
        baseline_ms=BASELINE_MS,
    )


def _row(scenario: Scenario, score: Score, method: str, shift: str, seed: int) -> dict[str, Any]:
    deployment = scenario.deployment()
    return {
        "method": method,
        "model": "net",
        "shift": shift,
        "seed": seed,
        "protocol": scenario.protocol,
        "parameter": scenario.parameter or None,
        "value": getattr(deployment, scenario.parameter) if scenario.parameter else None,
        "label": scenario.label,
        "queue": deployment.queue,
        "rule": deployment.rule if deployment.has_budget else "",
        "utility": score.utility,
        "utility_lo": score.utility,
        "utility_hi": score.utility,
        "baseline_ms": BASELINE_MS,
        "batches": score.course.num_batches,
        "waitspan_ms": score.course.waitspan_ms,
        **{name: np.nan if term is None else term for name, term in score.terms.items()},
    }


def frame(utilities: dict[str, float], **columns: Any) -> pd.DataFrame:
    """One cell by hand: method -> utility."""
    given = {
        "protocol": "discrete",
        "parameter": "interval_ms",
        "value": 10.0,
        "label": "γ 10 ms",
        "shift": "fog",
    }
    rows = pd.DataFrame({"method": list(utilities), "utility": list(utilities.values())})
    return rows.assign(**{**given, **columns})
