"""The eight setups of the paper: model, data, machine, baseline latency and the grid of deployments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from tempora_tta.errors import TemporaError, unknown
from tempora_tta.names import CORRUPTION_GROUPS

NOMINAL_RHO_PERCENT = (100, 70, 50, 35, 25)
"""Labels of the paper for utilisation lambda / interval = 2^(-k/2): "70" and "35" stand for 70.7 and 35.4 %."""

CORRUPTIONS = tuple(name for group in CORRUPTION_GROUPS.values() for name in group)


class Point(NamedTuple):
    """One deployment of a grid, in the columns of `utilities.parquet`."""

    protocol: str
    parameter: str
    value: float
    label: str


@dataclass(frozen=True)
class Setup:
    """One experiment of the paper."""

    name: str
    model: str
    dataset: str
    hardware: str
    baseline_ms: float
    """lambda. On ImageNet-R and -V2 the paper prints none; the ImageNet-C value is taken over."""
    batches: int
    """Batches of 64 per shift, the odd rest dropped. Printed for ImageNet-C, inferred for the others."""
    shifts: tuple[str, ...]
    thresholds_ms: tuple[float, ...]
    budgets_ms: tuple[float, ...]
    budget_labels: tuple[str, ...]

    @property
    def intervals_ms(self) -> tuple[float, ...]:
        """lambda * sqrt(2)^k, strictest first."""
        return tuple(self.baseline_ms * math.sqrt(2.0) ** k for k in range(len(NOMINAL_RHO_PERCENT)))

    @property
    def grid(self) -> tuple[Point, ...]:
        """All temporal scenarios, each protocol from strict to relaxed. Offline is left out."""
        discrete = [
            Point("discrete", "interval_ms", value, f"ρ {rho} %")
            for rho, value in zip(NOMINAL_RHO_PERCENT, self.intervals_ms, strict=True)
        ]
        continuous = [
            Point("continuous", "threshold_ms", value, f"T {value:g} ms") for value in self.thresholds_ms
        ]
        amortised = [
            Point("amortised", "budget_ms", value, text)
            for value, text in zip(self.budgets_ms, self.budget_labels, strict=True)
        ]
        return (*discrete, *continuous, *amortised)

    @property
    def strict(self) -> tuple[Point, ...]:
        """The strictest point of each protocol: the one whose terms the paper prints."""
        first: dict[str, Point] = {}
        for point in self.grid:
            first.setdefault(point.protocol, point)
        return tuple(first.values())


def _imagenet(name: str, dataset: str, batches: int, shifts: tuple[str, ...]) -> Setup:
    """The backbone (the name's first part) decides latency and grid, the data the length of the stream."""
    if name.startswith("rn50"):
        thresholds_ms: tuple[float, ...] = (50.0, 100.0, 200.0, 400.0, 1000.0)
        budgets_s: tuple[float, ...] = (1, 2, 4, 8, 16, 32)
        model, baseline_ms = "resnet50", 39.9
    else:
        thresholds_ms = (200.0, 400.0, 1000.0, 2000.0)
        budgets_s = (2.5, 5, 10, 20, 40, 80)
        model, baseline_ms = "vit_b16", 105.3
    return Setup(
        name=name,
        model=model,
        dataset=dataset,
        hardware="rtx4080",
        baseline_ms=baseline_ms,
        batches=batches,
        shifts=shifts,
        thresholds_ms=thresholds_ms,
        budgets_ms=tuple(1000.0 * budget for budget in budgets_s),
        budget_labels=tuple(f"B {budget:g} s" for budget in budgets_s),
    )


def _cifar(name: str, hardware: str, baseline_ms: float, budgets_ms: tuple[float, ...]) -> Setup:
    return Setup(
        name=name,
        model="resnet18",
        dataset="cifar10_c",
        hardware=hardware,
        baseline_ms=baseline_ms,
        batches=156,
        shifts=CORRUPTIONS,
        thresholds_ms=(),
        budgets_ms=budgets_ms,
        # The paper names these budgets by what the two machines share.
        budget_labels=tuple(f"B {multiple}λ" for multiple in (25, 50, 100, 200)),
    )


_SETUPS = {
    setup.name: setup
    for setup in (
        _imagenet("rn50_inc", "imagenet_c", 781, CORRUPTIONS),
        _imagenet("vit_inc", "imagenet_c", 781, CORRUPTIONS),
        _imagenet("rn50_inr", "imagenet_r", 468, ("imagenet_r",)),
        _imagenet("rn50_inv2", "imagenet_v2", 156, ("imagenet_v2",)),
        _imagenet("vit_inr", "imagenet_r", 468, ("imagenet_r",)),
        _imagenet("vit_inv2", "imagenet_v2", 156, ("imagenet_v2",)),
        _cifar("rn18_c10c_rpi5", "raspberry_pi_5", 486.6, (12000.0, 24000.0, 48000.0, 96000.0)),
        _cifar("rn18_c10c_rtx4080", "rtx4080", 1.5, (37.0, 74.0, 148.0, 296.0)),
    )
}


def setups() -> tuple[str, ...]:
    """Return the names of the published setups.

    >>> setups()[:2]
    ('rn50_inc', 'vit_inc')
    """
    return tuple(_SETUPS)


def setup(name: str) -> Setup:
    """Return one published setup by name.

    >>> setup("rn50_inc").baseline_ms
    39.9
    """
    if name not in _SETUPS:
        raise unknown("published setup", name, _SETUPS)
    return _SETUPS[name]


def point(setup_name: str, parameter: str, printed: str) -> Point:
    """Return the grid point behind a printed parameter: ("rn50_inc", "B_s", "1") is a budget of 1000 ms."""
    grid = setup(setup_name).grid
    if parameter == "rho_percent":
        return grid[NOMINAL_RHO_PERCENT.index(int(printed))]
    name, scale = {"T_ms": ("threshold_ms", 1.0), "B_s": ("budget_ms", 1000.0)}[parameter]
    matches = [
        candidate
        for candidate in grid
        if candidate.parameter == name and math.isclose(candidate.value, scale * float(printed))
    ]
    if len(matches) != 1:
        raise TemporaError(f"{parameter} = {printed} is not on the grid of {setup_name}")
    return matches[0]
