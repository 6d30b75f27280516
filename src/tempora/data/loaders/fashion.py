"""The bundled benchmark: Fashion-MNIST's test images, clean and under 15 corruptions."""

from __future__ import annotations

from collections.abc import Iterable

from tempora.data.groups import expand
from tempora.data.registry import dataset
from tempora.data.shift import Shift


@dataset(
    "fashion",
    what="Fashion-MNIST test images, clean and under 15 corruptions (and the tuning ones) at 5 severities",
    size="4.4 MB",
    licence="MIT",
    source="ships with tempora",
)
def fashion(severity: int, shifts: str | Iterable[str] | None) -> dict[str, Shift]:
    from tempora.data import bundled

    available = (*bundled.NAMES, *bundled.TUNING)
    return bundled.shifts(names=expand(shifts, available, default=bundled.NAMES), severity=severity)
