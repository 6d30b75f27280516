"""What each method costs against standard inference, from a profile."""

from __future__ import annotations

from typing import Any

from tempora_tta.timing import Profile
from tempora_tta.timing.profile import Spent
from tempora_tta.timing.work import ADAPT, PREDICT


def overhead_rows(profile: Profile) -> list[dict[str, Any]]:
    """delta, e, e - lambda, l and the slowdown by method: the rows of the paper's Table 2, of steady times."""
    rows = []
    for method in dict.fromkeys(entry.method for entry in profile.entries):
        predict_ms, adapt_ms = (_usual(profile, method, phase) for phase in (PREDICT, ADAPT))
        service_ms = predict_ms + adapt_ms
        rows.append(
            {
                "method": method,
                "service_ms": service_ms,
                "predict_ms": predict_ms,
                "intrinsic_ms": max(0.0, predict_ms - profile.baseline_ms),
                "adapt_ms": adapt_ms,
                "error": profile.uncertainty(method),
                "slowdown": service_ms / profile.baseline_ms,
                "spent": profile.spent.get(method, Spent()),
            }
        )
    return rows


def _usual(profile: Profile, method: str, phase: str) -> float:
    """Mean over what the method did in the rounds."""
    own = [entry for entry in profile.entries if (entry.method, entry.phase) == (method, phase)]
    count = sum(entry.samples for entry in own)
    return sum(entry.samples * entry.steady_ms for entry in own) / count if count else 0.0
