"""Energy and memory that work takes from its device, where the profile behind its times knows them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

from tempora_tta.scenarios import Course

MB = 1e6
FACT = "resources"
"""Under this name a pass keeps them."""


@dataclass(frozen=True)
class Resources:
    """Energy and memory of a method on the target device. None: not counted there."""

    watts: float | None = None
    """Mean power while it predicts and adapts."""
    standard_watts: float | None = None
    """Mean power of standard inference, and of frozen batches, which are the same work."""
    memory_bytes: int | None = None
    """The most that it holds, its network included."""

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Resources:
        """As a pass keeps them; none of a pass whose times were measured, or come from a profile without any."""
        told = facts.get(FACT)
        if not isinstance(told, Mapping):
            return cls()
        memory = _amount(told.get("memory_bytes"))
        return cls(
            _amount(told.get("watts")),
            _amount(told.get("standard_watts")),
            None if memory is None else int(memory),
        )

    def to_facts(self) -> dict[str, Any]:
        return {FACT: asdict(self)}

    def columns(self, course: Course, baseline_ms: float) -> dict[str, float | None]:
        """`energy_j` of all served batches, `overhead_j` of the adapting ones above lambda, and `memory_mb`.

        Energy is busy time x mean power. What the device draws while it waits is not in it.
        """
        memory_mb = None if self.memory_bytes is None else self.memory_bytes / MB
        service_ms = course.predict_ms + course.adapt_ms
        if self.watts is None or self.standard_watts is None or not all(map(math.isfinite, service_ms)):
            return {"energy_j": None, "overhead_j": None, "memory_mb": memory_mb}
        adapting_j = self.watts * service_ms[course.adapted] / 1000
        frozen_j = self.standard_watts * service_ms[~course.adapted] / 1000
        provided_j = self.standard_watts * baseline_ms / 1000
        return {
            "energy_j": float(adapting_j.sum() + frozen_j.sum()),
            "overhead_j": float((adapting_j - provided_j).clip(min=0.0).sum()),
            "memory_mb": memory_mb,
        }


def _amount(value: Any) -> float | None:
    """A finite number, 0 or above; None for anything else."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= float(value) < math.inf else None
