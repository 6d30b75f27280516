"""A verdict on a measurement: can these times be trusted, why not, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tempora_tta._numbers import percent
from tempora_tta.errors import counted
from tempora_tta.store.verdicts import INVALID, VALID, WARN, Verdict, worst
from tempora_tta.timing.baseline import Baseline


@dataclass(frozen=True)
class Limits:
    """Where a measurement is worth a warning, and where it is invalid."""

    drift: tuple[float, float] = (0.05, 0.15)
    """Change of the sentinel's median against the baseline's."""
    dispersion: tuple[float, float] = (1.15, 1.5)
    """lambda / median."""
    stolen: tuple[float, float] = (0.01, 0.05)
    """Share of the processor time wanted that the hypervisor took."""
    outliers: tuple[float, float] = (0.02, 0.10)
    """Share of batches that took more than twice the median of those on which the method did the same."""
    faults: tuple[float, float] = (200.0, 5000.0)
    """Median page faults per timed batch."""


def judge(observations: Mapping[str, tuple[float, tuple[float, float], str]]) -> Verdict:
    """Compare each observed value with its two limits; the worst decides, the reasons are all that exceed one."""
    status, reasons = VALID, []
    for value, (warn_above, invalid_above), sentence in observations.values():
        if value > warn_above:
            reasons.append(sentence)
            status = worst([status, INVALID if value > invalid_above else WARN])
    return Verdict(status, tuple(reasons))


def judge_pass(
    drift: float,
    services_ms: np.ndarray,
    actions: np.ndarray,
    faults: np.ndarray,
    stolen_share: float,
) -> Verdict:
    """Judge one pass by the sentinels around it, its own outliers, page faults and stolen time.

    `drift` is the relative distance of the sentinels from the baseline. `actions` says what the method did on each
    batch: a step may well take twice as long as keeping no sample.
    """
    limits = Limits()
    outliers = _outlier_share(services_ms, actions)
    median_faults = float(np.median(faults[faults >= 0])) if (faults >= 0).any() else 0.0
    return judge(
        {
            "drift": (
                drift,
                limits.drift,
                f"standard inference drifted {percent(drift, 0)} from the baseline",
            ),
            "outliers": (
                outliers,
                limits.outliers,
                f"{percent(outliers, 0)} of batches took over twice the median",
            ),
            "faults": (median_faults, limits.faults, f"{median_faults:.0f} page faults per batch"),
            "stolen": (
                stolen_share,
                limits.stolen,
                f"{percent(stolen_share, 0)} of processor time was stolen",
            ),
        }
    )


def _outlier_share(services_ms: np.ndarray, actions: np.ndarray) -> float:
    timed = ~np.isnan(services_ms)
    times, actions = services_ms[timed], actions[timed]
    outliers = 0
    for action in np.unique(actions):
        alike = times[actions == action]
        outliers += int((alike > 2 * np.median(alike)).sum())
    return outliers / times.size if times.size else 0.0


def judge_baseline(baseline: Baseline, final_median_ms: float | None) -> Verdict:
    """How much lambda's batches vary, and how far standard inference is from it at the end."""
    limits = Limits()
    observed = {}
    if baseline.dispersion is not None and baseline.source == "measured":
        observed["dispersion"] = (
            baseline.dispersion,
            limits.dispersion,
            f"standard inference varies: lambda is {baseline.dispersion:.2f} times its median",
        )
    if final_median_ms is not None and baseline.median_ms:
        drift = abs(final_median_ms / baseline.median_ms - 1)
        observed["drift"] = (drift, limits.drift, f"baseline drifted {percent(drift, 0)} during the run")
    return judge(observed)


def judge_run(own: Verdict, passes: Iterable[Verdict]) -> Verdict:
    """The run's verdict: its baseline's, and the worst of its passes."""
    found = list(passes)
    status, reasons = own.status, list(own.reasons)
    for grade in (INVALID, WARN):
        count = sum(verdict.status == grade for verdict in found)
        if count:
            status = worst([status, grade])
            reasons.append(
                f"{count} of {counted(len(found), 'pass')} {'is' if count == 1 else 'are'} {grade}"
            )
    return Verdict(status, tuple(reasons))
