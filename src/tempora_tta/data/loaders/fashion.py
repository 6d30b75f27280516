"""The bundled benchmark: Fashion-MNIST's test images, clean and under 15 corruptions, and source samples for it."""

from __future__ import annotations

from collections.abc import Iterable

from tempora_tta.data.groups import expand
from tempora_tta.data.registry import dataset
from tempora_tta.data.shift import Shift


@dataset(
    "fashion",
    what="Fashion-MNIST test images, clean and under 15 corruptions (and the tuning ones) at 5 severities",
    size="4.4 MB",
    licence="MIT",
    pictures_travel=True,
    source="ships with tempora",
    as_stored=True,
)
def fashion(severity: int, shifts: str | Iterable[str] | None) -> dict[str, Shift]:
    from tempora_tta.data import bundled

    available = (*bundled.NAMES, *bundled.TUNING)
    return bundled.shifts(names=expand(shifts, available, default=bundled.NAMES), severity=severity)


@dataset(
    "fashion_train",
    what="2,000 Fashion-MNIST training images, clean: the source samples of runs on fashion",
    size="1.2 MB",
    licence="MIT",
    pictures_travel=True,
    source="ships with tempora",
    as_stored=True,
)
def fashion_train() -> dict[str, Shift]:
    from tempora_tta.data import bundled

    shift = bundled.source_shift()
    return {shift.name: shift}
