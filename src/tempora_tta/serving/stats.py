"""Statistics of a live pipeline: counts, the terms of the equation, and percentiles, in memory that stays small."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from tempora_tta.scenarios import percentiles
from tempora_tta.scenarios.course import SIX_TERMS

WINDOW = 100_000
"""Requests that percentiles are of: the last ones."""


class Stats:
    """Counts of requests. A term is over all of them, an accuracy over those that were labelled.

    Not safe for threads: the pipeline calls it under its lock.
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(("answered", "dropped", "refused", "adapted", "fallback", "replaced"), 0)
        self.steps = 0
        """Batches adapted on."""
        self._batches = self._images = 0
        """Served, and the images in them."""
        self._kappa = 0.0
        self._responses_ms = array("d")
        self._oldest = 0
        self._labelled = {"adapted": [0, 0.0], "frozen": [0, 0.0], "fallback": [0, 0.0]}
        """Per kind of answer: how many were labelled, and the sum of their accuracies."""
        self._labelled_kappa = self._products = 0.0

    def answered(self, response_ms: float, kappa: float, **kinds: bool) -> None:
        """Count an answer; `kinds`: whether it was adapted, fallback, replaced."""
        for name, counts in {"answered": True, **kinds}.items():
            self._counts[name] += counts
        self._kappa += kappa
        self._respond(response_ms)

    def served(self, images: int) -> None:
        """Count a batch that was served."""
        self._batches += 1
        self._images += images

    def dropped(self) -> None:
        """Count a request that is never answered."""
        self._counts["dropped"] += 1
        self._respond(float("inf"))

    def refused(self) -> None:
        """Count a request that was wrong, or came after the end: no term counts it."""
        self._counts["refused"] += 1

    def labelled(self, accuracy: float, kappa: float, adapted: bool, fallback: bool) -> None:
        """Count an answer whose label is known."""
        kind = self._labelled["adapted" if adapted else "fallback" if fallback else "frozen"]
        kind[0] += 1
        kind[1] += accuracy
        self._labelled_kappa += kappa
        self._products += accuracy * kappa

    def summary(self) -> dict[str, Any]:
        """Counts, the six terms and the utility that they make, and percentiles of the response."""
        answered = self._counts["answered"]
        arrived = answered + self._counts["dropped"]
        terms = {
            "availability": _ratio(answered, arrived),
            "adapted_fraction": _ratio(self._counts["adapted"], answered),
            "adapt_accuracy": self._accuracy("adapted"),
            "frozen_accuracy": self._accuracy("frozen", "fallback"),
            "responsiveness": _ratio(self._kappa, answered),
            "covariance": self._covariance(),
        }
        responses = np.array(self._responses_ms)
        return {
            "arrived": arrived,
            **self._counts,
            "labelled": sum(int(count) for count, _ in self._labelled.values()),
            "steps": self.steps,
            "mean_size": _ratio(self._images, self._batches),
            "utility": _utility(terms),
            **terms,
            "accuracy": self._accuracy(*self._labelled),
            "fallback_fraction": _ratio(self._counts["fallback"], arrived),
            "fallback_accuracy": self._accuracy("fallback"),
            **percentiles(responses, responses.size),
        }

    def _respond(self, response_ms: float) -> None:
        if len(self._responses_ms) < WINDOW:
            self._responses_ms.append(response_ms)
        else:
            self._responses_ms[self._oldest] = response_ms
            self._oldest = (self._oldest + 1) % WINDOW

    def _accuracy(self, *kinds: str) -> float | None:
        return _ratio(*(sum(self._labelled[kind][place] for kind in kinds) for place in (1, 0)))

    def _covariance(self) -> float | None:
        """Covariance of accuracy and worth over the labelled answers."""
        count = sum(count for count, _ in self._labelled.values())
        if not count:
            return None
        accuracy = sum(total for _, total in self._labelled.values()) / count
        return self._products / count - accuracy * self._labelled_kappa / count


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _utility(terms: Mapping[str, float | None]) -> float | None:
    """The identity. With a sample of the labels it is an estimate; None where a term that counts has none."""
    availability, fraction, adapt, frozen, responsiveness, covariance = (terms[name] for name in SIX_TERMS)
    if availability is None or fraction is None or responsiveness is None or covariance is None:
        return None
    if (fraction > 0 and adapt is None) or (fraction < 1 and frozen is None):
        return None
    accuracy = fraction * (adapt or 0.0) + (1 - fraction) * (frozen or 0.0)
    return availability * (accuracy * responsiveness + covariance)


def prometheus(stats: Mapping[str, Any]) -> str:
    """Write `stats()` as Prometheus reads it.

    >>> print(prometheus({"answered": 3, "failure": None, "availability": 0.75}), end="")
    # TYPE tempora_answered gauge
    tempora_answered 3
    # TYPE tempora_availability gauge
    tempora_availability 0.75
    """
    numbers = {name: value for name, value in stats.items() if isinstance(value, (int, float))}
    return "".join(
        f"# TYPE tempora_{name} gauge\ntempora_{name} {value!r}\n" for name, value in numbers.items()
    )
