"""What stands behind the slowest responses: queueing, and the device's own variation where that is known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tempora_tta.scenarios import Scenario
from tempora_tta.scenarios.utility import PERCENTILES
from tempora_tta.store import ADAPTED, Results, Trace

FloatArray = NDArray[np.float64]
QUEUEING_ONLY = "queueing only"


def varies(trace: Trace) -> bool:
    """Whether the device's own variation is known behind a trace: apart from its times, or within them."""
    if trace.steady:
        return bool((np.nan_to_num(trace.residual, nan=1.0) != 1.0).any())
    rows = (trace.phase == ADAPTED) & ~np.isnan(trace.predict_ms)
    return any(np.unique(trace.predict_ms[rows & (trace.mode == mode)]).size > 1 for mode in set(trace.mode))


def with_variation(results: Results, scenario: Scenario) -> Scenario:
    """The deployment with the device's own variation in it, where the run's clock keeps that apart: for whoever asks
    about the tail. A deployment that leaves it out by its own word is left alone."""
    deployment = scenario.deployment()
    passes = results.utilities["adapting_pass"].dropna()
    if deployment.residuals is not None or passes.empty:
        return scenario
    apart = results.folder.trace(str(passes.iloc[0]), predictions=False).steady
    return replace(deployment, residuals=True) if apart else scenario


def tail_note(results: Results, percent: int, known: bool) -> str:
    """What to know about a percentile of this run; nothing where the device's own tail is in it.

    `known`: the device's own variation is behind the times.
    """
    if not known:
        return f"{QUEUEING_ONLY}: this clock knows nothing of the device's own variation"
    samples = _clean_samples(results)
    if samples is not None and samples < PERCENTILES[percent]:
        return (
            f"the device's own p{percent} is not known on this machine: its profile has {samples} clean samples, "
            f"it takes {PERCENTILES[percent]}"
        )
    return ""


def _clean_samples(results: Results) -> int | None:
    """That the residuals of the run's own profile come from; None where it has no profile of its own."""
    try:
        told = json.loads((results.path / "profile.json").read_text(encoding="utf-8"))
        return int(told["residuals"]["clean_samples"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
