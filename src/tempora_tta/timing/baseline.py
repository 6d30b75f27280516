"""lambda: the latency of standard inference that a deployment provisions for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Baseline:
    """lambda = mean + provision * sigma of standard inference over a calibration sweep."""

    baseline_ms: float
    mean_ms: float | None = None
    sigma_ms: float | None = None
    median_ms: float | None = None
    provision: float | None = None
    batches: int = 0
    source: str = "measured"
    """measured, given, or the recorded clock that brought it."""

    @classmethod
    def from_times(cls, times_ms: Sequence[float], provision: float) -> Baseline:
        """
        >>> Baseline.from_times([10.0, 10.0, 13.0], provision=6).median_ms
        10.0
        """
        times = np.asarray(times_ms)
        mean, sigma = float(times.mean()), float(times.std())
        return cls(mean + provision * sigma, mean, sigma, float(np.median(times)), provision, times.size)

    def provision_ms(self, num_batches: int) -> float | None:
        """lambda's provision over a stream, (lambda - mean) N: overhead that costs no budget, to print next to B."""
        return None if self.mean_ms is None else (self.baseline_ms - self.mean_ms) * num_batches

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
