"""A recorded clock for the engine's tests."""

from __future__ import annotations

# Constant latencies for every method, so that intervals skip, budgets run out and thresholds bite.
CLOCK = {
    "baseline_ms": 40,
    "standard": (38, 0),
    "adabn": (41, 0.1),
    "lame": (44, 0),
    "neo": (47, 0),
    "tent": (41, 56),
    "eta": (41, 57),
    "shot_im": (41, 80),
    "sar": (41, 154),
    "deyo": (41, 88),
    "cmf": (41, 119),
    "spa": (41, 300),
    "zerosiam": (41, 120),
    "alpha_bn": (43, 0),
    "t3a": (42, 0),
    "eata": (41, 58),
    "rdumb": (41, 57),
    "cotta": (80, 121),
    "rotta": (41, 160),
    "roid": (41, 110),
    "memo": (400, 0),
}
