"""The grids of scenarios that a run evaluates. Offline is not in them: it is always run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tempora_tta import names
from tempora_tta.errors import unknown
from tempora_tta.scenarios.arrivals import Bursty, Periodic, Poisson
from tempora_tta.scenarios.deployment import LATEST, Deployment, Scenario
from tempora_tta.scenarios.paper import Amortised, Continuous, Discrete
from tempora_tta.scenarios.resolved import RANDOM

UTILISATIONS = {"100": 0, "70": 1, "50": 2, "35": 3, "25": 4}
"""The paper's printed percentages and the half octaves behind them: lambda / interval = 2 ** (-k / 2)."""

_BUDGET_BASELINES = (25, 50, 100, 200)
"""Budgets of CIFAR-10-C in λ: what its two machines share."""


@dataclass(frozen=True)
class Printed:
    """The paper's temporal scenarios on one network and machine, in milliseconds as it printed and ran them."""

    intervals_ms: tuple[float, ...]
    thresholds_ms: tuple[float, ...]
    budgets_ms: tuple[float, ...]
    budgets_in_baselines: bool = False
    """The paper names the budgets by λ."""


_RN50 = Printed(
    intervals_ms=(39.9, 56.4, 79.8, 112.8, 159.6),
    thresholds_ms=(50.0, 100.0, 200.0, 400.0, 1000.0),
    budgets_ms=(1e3, 2e3, 4e3, 8e3, 16e3, 32e3),
)
_VIT = Printed(
    intervals_ms=(105.3, 148.9, 210.6, 297.8, 421.2),
    thresholds_ms=(200.0, 400.0, 1000.0, 2000.0),
    budgets_ms=(2.5e3, 5e3, 10e3, 20e3, 40e3, 80e3),
)
PRINTED = {
    "rn50_inc": _RN50,
    "vit_inc": _VIT,
    "rn50_inr": _RN50,
    "rn50_inv2": _RN50,
    "vit_inr": _VIT,
    "vit_inv2": _VIT,
    "rn18_c10c_rpi5": Printed(
        (486.6, 688.2, 973.2, 1376.3, 1946.4), (), (12e3, 24e3, 48e3, 96e3), budgets_in_baselines=True
    ),
    "rn18_c10c_rtx4080": Printed(
        (1.5, 2.1, 3.0, 4.2, 6.0), (), (37.0, 74.0, 148.0, 296.0), budgets_in_baselines=True
    ),
}
"""By setup of the paper. The published code ran the rounded intervals; those of the Raspberry Pi are not printed."""


def paper_grid(setup: str, rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """The temporal scenarios of the paper: `resnet50` (16), `vit` (15) or `resnet18` (9, CIFAR-10-C).

    >>> len(paper_grid("resnet50")), len(paper_grid("vit")), len(paper_grid("resnet18"))
    (16, 15, 9)
    """
    if setup == "resnet18":
        budgets = [Amortised(budget_baselines=float(count), rule=rule) for count in _BUDGET_BASELINES]
        return [*_utilisations(queue), *budgets]
    known = {"resnet50": _RN50, "vit": _VIT}
    if setup not in known:
        raise unknown("paper grid", str(setup), [*known, "resnet18"])
    return [*_utilisations(queue), *_printed(known[setup], rule)]


def published_grid(setup: str, rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """One published setup in milliseconds as printed, for its clock `published:...` and the same machine."""
    printed = PRINTED[setup]
    intervals = zip(UTILISATIONS, printed.intervals_ms, strict=True)
    return [
        *(Discrete(interval_ms=ms, queue=queue, name=f"ρ {percent} %") for percent, ms in intervals),
        *_printed(printed, rule),
    ]


def _printed(printed: Printed, rule: str) -> list[Scenario]:
    names = [f"B {count}λ" if printed.budgets_in_baselines else None for count in _BUDGET_BASELINES]
    names += [None] * (len(printed.budgets_ms) - len(names))
    budgets = zip(printed.budgets_ms, names, strict=True)
    return [
        *(Continuous(threshold_ms=ms) for ms in printed.thresholds_ms),
        *(Amortised(budget_ms=ms, rule=rule, name=name) for ms, name in budgets),
    ]


def relative_grid(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """Any machine: every knob relative to its λ."""
    return [
        *_utilisations(queue),
        *(Continuous(threshold_x=x) for x in (1.25, 2.5, 5.0, 10.0, 25.0)),
        *(Amortised(budget_x=2.0**-k, rule=rule) for k in (5, 4, 3, 2, 1, 0)),
    ]


def _utilisations(queue: int) -> list[Scenario]:
    return [
        Discrete(utilisation=2.0 ** (-k / 2), queue=queue, name=f"ρ {percent} %")
        for percent, k in UTILISATIONS.items()
    ]


@dataclass(frozen=True)
class Grid:
    """A named grid: who needs it, and its scenarios for a budget rule and a queue of the paper's kind."""

    about: str
    make: Callable[[str, int], list[Scenario]]


SERVER_QUEUE = 16
"""Batches that wait at a server: more than its promise could use, so that hardly any is lost."""


def camera(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """A frame that is answered too late is worth nothing: inspection, robots, driving."""
    return [
        Deployment(arrivals=Periodic(utilisation=rho), queue=1, deadline_x=deadline)
        for rho in (1.0, 0.5, 0.25)
        for deadline in (1.5, 3.0)
    ]


def server(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """Requests come when they like, and the slowest of a hundred is promised (read response_p99_ms)."""
    return [
        Deployment(arrivals=Poisson(utilisation=rho), queue=SERVER_QUEUE, residuals=True)
        for rho in (0.7, 0.5, 0.25, 0.125)
    ]


def kiosk(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """One user who asks again with each answer and loses patience."""
    return [Deployment(arrivals="on_prediction", threshold_x=x) for x in (2.0, 5.0, 10.0)]


def drone(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """Frames on a clock, and a battery that pays for adapting only so long."""
    return [
        Deployment(arrivals=Periodic(utilisation=0.5), queue=1, budget_x=share)
        for share in (1 / 16, 1 / 4, 1.0)
    ]


def wearable(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """Bursts of activity, a wearer who waits, and a battery."""
    return [
        Deployment(
            arrivals=Bursty(utilisation=rho, burst=4, length=8), queue=2, threshold_x=5.0, budget_x=0.25
        )
        for rho in (0.5, 0.25, 0.125)
    ]


def alfarra(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """Alfarra et al.'s comparison: no queue, and a second device answers what the first has to skip."""
    return [
        Deployment(arrivals=Periodic(utilisation=2.0 ** (-k / 2)), queue=0, fallback=LATEST)
        for k in UTILISATIONS.values()
    ]


def alfarra_single(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """Alfarra et al.'s protocol with one model: no queue, and what is skipped counts as guessed at random."""
    return [
        Deployment(arrivals=Periodic(utilisation=2.0 ** (-k / 2)), queue=0, fallback=RANDOM)
        for k in UTILISATIONS.values()
    ]


def paper_resnet50(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """The paper's ResNet-50 tables."""
    return paper_grid("resnet50", rule, queue)


def paper_vit(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """The paper's ViT tables."""
    return paper_grid("vit", rule, queue)


def paper_resnet18(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """The paper's CIFAR-10-C tables."""
    return paper_grid("resnet18", rule, queue)


def no_grid(rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """Nothing but Offline and the scenarios given one by one."""
    return []


def _grid_at(name: str, path: str) -> Grid:
    """The grid of a function, which is handed what stands after a colon in its name."""
    make: Callable[..., list[Scenario]] = globals()[path.partition(":")[2]]
    about, setup = (make.__doc__ or "").strip().removesuffix("."), name.partition(":")[2]
    return Grid(about, partial(make, setup) if setup else make)


GRIDS: dict[str, Grid] = {name: _grid_at(name, path) for name, path in names.GRIDS.items()}
"""Every grid by its name. `rule` and `queue` turn the paper's knobs; a preset has its own."""


def grid(name: str, rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """The scenarios of a grid.

    >>> [scenario.label for scenario in grid("kiosk")]
    ['on_prediction, T 2λ', 'on_prediction, T 5λ', 'on_prediction, T 10λ']
    """
    if name not in GRIDS:
        raise unknown("grid", str(name), GRIDS)
    return GRIDS[name].make(rule, queue)
