"""The eight setups of the paper: model, data, machine, baseline latency and the grid of deployments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from tempora_tta.errors import TemporaError, unknown
from tempora_tta.names import CORRUPTION_GROUPS
from tempora_tta.scenarios.grids import published_grid

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
    """lambda. On ImageNet-R and -V2 the paper prints none; its code ran with that of ImageNet-C."""
    batches: int
    """Batches of 64 per shift, the odd rest dropped. Printed for ImageNet-C, inferred for the others."""
    shifts: tuple[str, ...]

    @property
    def grid(self) -> tuple[Point, ...]:
        """All temporal scenarios, each protocol from strict to relaxed. Offline is left out."""
        return tuple(
            Point(one.protocol, one.parameter, float(getattr(one, one.parameter)), one.label)
            for one in published_grid(self.name)
        )

    @property
    def strict(self) -> tuple[Point, ...]:
        """The strictest point of each protocol: the one whose terms the paper prints."""
        first: dict[str, Point] = {}
        for point in self.grid:
            first.setdefault(point.protocol, point)
        return tuple(first.values())


def _imagenet(name: str, dataset: str, batches: int, shifts: tuple[str, ...]) -> Setup:
    """The backbone (the name's first part) decides latency and grid, the data the length of the stream."""
    model, baseline_ms = ("resnet50", 39.9) if name.startswith("rn50") else ("vit_b16", 105.3)
    return Setup(name, model, dataset, "rtx4080", baseline_ms, batches, shifts)


def _cifar(name: str, hardware: str, baseline_ms: float) -> Setup:
    return Setup(name, "resnet18", "cifar10_c", hardware, baseline_ms, 156, CORRUPTIONS)


_SETUPS = {
    setup.name: setup
    for setup in (
        _imagenet("rn50_inc", "imagenet_c", 781, CORRUPTIONS),
        _imagenet("vit_inc", "imagenet_c", 781, CORRUPTIONS),
        _imagenet("rn50_inr", "imagenet_r", 468, ("imagenet_r",)),
        _imagenet("rn50_inv2", "imagenet_v2", 156, ("imagenet_v2",)),
        _imagenet("vit_inr", "imagenet_r", 468, ("imagenet_r",)),
        _imagenet("vit_inv2", "imagenet_v2", 156, ("imagenet_v2",)),
        _cifar("rn18_c10c_rpi5", "raspberry_pi_5", 486.6),
        _cifar("rn18_c10c_rtx4080", "rtx4080", 1.5),
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
