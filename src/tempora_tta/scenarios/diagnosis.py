"""Diagnosis of wins and losses: break-even accuracy, insolvency and failure modes (paper, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tempora_tta._numbers import percent
from tempora_tta.errors import TemporaError, counted
from tempora_tta.scenarios import _validate as check

TRACKED = 0.9
"""Share of their past that tracked statistics keep with each batch, as published."""
STILL_UNRIPE = 0.1
"""Share of their beginning: with more than this in them they say little about the stream."""
NEVER_ADAPTED, UNRIPE, DURABLE_GAIN = "never adapted", "unripe statistics", "durable gain"
COLLAPSED = 0.75
"""Share of its accuracy: a model that keeps more than this when it freezes did not lose its statistics."""


def break_even_accuracy(competitor_utility: float, factor: float) -> float:
    """The accuracy a method would need to match a competitor's utility.

    `factor` is what the deployment leaves of its accuracy: availability (then the answer is a served
    accuracy) or responsiveness, at zero covariance.

    >>> round(break_even_accuracy(0.308, 0.410), 3)   # ETA against AdaBN, the paper's discrete case
    0.751
    """
    check.non_negative("competitor_utility", competitor_utility)
    check.non_negative("factor", factor)
    if factor > 1:
        raise TemporaError(f"factor={factor!r}: availability and responsiveness are fractions from 0 to 1")
    if factor == 0:
        return 0.0 if competitor_utility == 0 else float("inf")
    return competitor_utility / factor


def is_insolvent(competitor_utility: float, factor: float) -> bool:
    """Computational insolvency: even predicting everything right would not match the competitor."""
    return break_even_accuracy(competitor_utility, factor) > 1


@dataclass(frozen=True)
class Finding:
    """One thing that adaptation did to a deployment, the numbers that show it, and a sentence for people."""

    mode: str
    """availability collapse | accuracy erosion | late where right | lost accuracy | never adapted |
    unripe statistics | harmful adaptation | durable gain | drift"""
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def diagnose(
    utility: float,
    terms: Mapping[str, float | None],
    standard_accuracy: float,
    standard_utility: float | None = None,
    offline_accuracy: float | None = None,
) -> list[Finding]:
    """Name the cause of a loss against standard inference, and what the frozen model gained or lost.

    A utility is a product: accuracy offline, times availability, times responsiveness, times the accuracy of what was
    served over that offline; covariance is the rest. The smallest factor is the cause. A method that is worse than
    standard inference even offline is compared with `standard_accuracy` instead, as is one whose `offline_accuracy`
    is not known. Standard's utility is its accuracy unless it is given: in a deployment that is too much for it, too,
    it is less.

    >>> from tempora_tta.scenarios import Discrete
    >>> score = Discrete(interval_ms=40).score(accuracy=[0.5] * 100, service_ms=200)
    >>> [finding.mode for finding in diagnose(score.utility, score.terms, standard_accuracy=0.3)]
    ['availability collapse']
    """
    to_match = standard_accuracy if standard_utility is None else standard_utility
    findings = []
    if utility < to_match and not math.isclose(utility, to_match, abs_tol=1e-9):
        offline = max(standard_accuracy, offline_accuracy or 0.0)
        findings.append(_cause(utility, terms, standard_accuracy, to_match, offline))
    frozen = terms["frozen_accuracy"]
    # A loss that is due to where statistics began says all about the frozen model: it did not drift there.
    explained = any(finding.mode in (NEVER_ADAPTED, UNRIPE) for finding in findings)
    if frozen is not None and not explained and not math.isclose(frozen, standard_accuracy, abs_tol=1e-9):
        findings.append(_after_freezing(frozen, standard_accuracy))
    return findings


def _cause(
    utility: float, terms: Mapping[str, float | None], standard: float, to_match: float, offline: float
) -> Finding:
    accuracy, availability, responsiveness = (
        terms[name] or 0.0 for name in ("served_accuracy", "availability", "responsiveness")
    )
    expected = availability * accuracy * responsiveness
    factors = {
        "availability": availability,
        "responsiveness": responsiveness,
        "accuracy": accuracy / offline if offline else 1.0,
        "covariance": utility / expected if expected else 1.0,
    }
    smallest = min(factors, key=lambda name: factors[name])
    needed = break_even_accuracy(to_match, availability * responsiveness)
    if smallest == "availability":
        return _collapse(availability, accuracy, standard, needed)
    if smallest == "responsiveness":
        return _erosion(responsiveness, accuracy, standard, needed)
    if smallest == "covariance":
        return _late_where_right(factors[smallest], accuracy, standard)
    if accuracy < standard:
        return _loss(terms, accuracy, standard)
    return _lost_accuracy(accuracy, offline)


def _breaking_even(needed: float) -> str:
    """No accuracy is above 100 %: then none would do."""
    return f"breaking even takes {percent(needed)}" if needed <= 1 else "no accuracy would break even"


def _compared(accuracy: float, standard: float) -> tuple[str, str]:
    """A method's accuracy next to Standard's, and how a loss by time goes on from there."""
    if math.isclose(accuracy, standard, abs_tol=1e-9):
        return f"as accurate as standard inference ({percent(accuracy)})", "but"
    numbers = f"({percent(accuracy)} against {percent(standard)})"
    if accuracy < standard:
        return f"less accurate than standard inference {numbers}", "and"
    return f"more accurate than standard inference {numbers}", "but"


def _collapse(availability: float, accuracy: float, standard: float, needed: float) -> Finding:
    compared, but = _compared(accuracy, standard)
    return Finding(
        "availability collapse",
        f"{compared} on what it serves, {but} it serves only {percent(availability)} of the "
        f"batches; {_breaking_even(needed)}",
        {"availability": availability, "served_accuracy": accuracy, "break_even_accuracy": needed},
    )


def _erosion(responsiveness: float, accuracy: float, standard: float, needed: float) -> Finding:
    compared, but = _compared(accuracy, standard)
    return Finding(
        "accuracy erosion",
        f"{compared}, {but} late answers keep only {percent(responsiveness)} of their value; "
        f"{_breaking_even(needed)}",
        {"responsiveness": responsiveness, "accuracy": accuracy, "break_even_accuracy": needed},
    )


def _late_where_right(kept: float, accuracy: float, standard: float) -> Finding:
    compared, but = _compared(accuracy, standard)
    return Finding(
        "late where right",
        f"{compared}, {but} the late batches are those with many right answers: this takes another "
        f"{percent(1 - kept)} of their value",
        {"kept": kept, "accuracy": accuracy},
    )


def _lost_accuracy(accuracy: float, offline: float) -> Finding:
    return Finding(
        "lost accuracy",
        f"{percent(accuracy)} of what it serves is right, against {percent(offline)} without pressure",
        {"served_accuracy": accuracy, "offline_accuracy": offline},
    )


def _loss(terms: Mapping[str, float | None], accuracy: float, standard: float) -> Finding:
    """Explain why served batches are less accurate than standard inference.

    A model that was better for as long as it adapted and is worse frozen has not learned badly: the statistics
    that it froze with had not been tracked for long.
    """
    frozen, adapting, cutoff = (terms.get(name) for name in ("frozen_accuracy", "adapt_accuracy", "cutoff"))
    known = cutoff is not None and not math.isnan(cutoff)
    if known and frozen is not None and frozen < standard:
        if cutoff == 0:
            return _never_adapted(frozen, standard)
        began = TRACKED**cutoff if cutoff else 1.0
        fell = adapting is not None and adapting > standard and frozen < COLLAPSED * adapting
        if adapting is not None and fell and began > STILL_UNRIPE:
            return _unripe(adapting, frozen, standard, int(cutoff or 0), began)
    return _harm(accuracy, standard)


def _never_adapted(frozen: float, standard: float) -> Finding:
    return Finding(
        NEVER_ADAPTED,
        f"the budget pays for no batch, so the frozen model was never adapted; by the published rule it predicts "
        f"with statistics that were reset ({percent(frozen)}, against {percent(standard)} for standard inference "
        "at no cost). With the setting frozen_stats=averaged it would predict with those of training",
        {"frozen_accuracy": frozen, "standard_accuracy": standard, "cutoff": 0.0},
    )


def _unripe(adapting: float, frozen: float, standard: float, cutoff: int, began: float) -> Finding:
    return Finding(
        UNRIPE,
        f"better than standard inference while it adapts ({percent(adapting)} against {percent(standard)}), but "
        f"frozen after {counted(cutoff, 'batch')} it gets {percent(frozen)}: statistics tracked as published still "
        f"hold {percent(began, 0)} of where they began (mean 0, variance 1). With the setting frozen_stats=averaged "
        "they are the mean of all batches so far, from the first on",
        {"adapt_accuracy": adapting, "frozen_accuracy": frozen, "cutoff": float(cutoff), "unripe": began},
    )


def _harm(accuracy: float, standard: float) -> Finding:
    return Finding(
        "harmful adaptation",
        f"the overhead bought a loss: {percent(accuracy)} of what it serves is right, against {percent(standard)} "
        "for standard inference",
        {"served_accuracy": accuracy, "standard_accuracy": standard},
    )


def _after_freezing(frozen: float, standard: float) -> Finding:
    gain = frozen > standard
    return Finding(
        DURABLE_GAIN if gain else "drift",
        f"frozen, the model is {'better' if gain else 'worse'} than standard inference "
        f"({percent(frozen)} against {percent(standard)})",
        {"frozen_accuracy": frozen, "standard_accuracy": standard},
    )
