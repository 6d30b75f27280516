"""The grids of scenarios that a run evaluates. Offline is not in them: it is always run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tempora_tta import names
from tempora_tta.errors import unknown
from tempora_tta.scenarios.arrivals import Bursty, Periodic, Poisson
from tempora_tta.scenarios.deployment import LATEST, Deployment, Scenario
from tempora_tta.scenarios.paper import Amortised, Continuous, Discrete

UTILISATIONS = {"100": 0, "70": 1, "50": 2, "35": 3, "25": 4}
"""The paper's printed percentages and the half octaves behind them: lambda / interval = 2 ** (-k / 2)."""

_PAPER_THRESHOLDS_MS = {"resnet50": (50, 100, 200, 400, 1000), "vit": (200, 400, 1000, 2000), "resnet18": ()}
_PAPER_BUDGETS_S = {"resnet50": (1, 2, 4, 8, 16, 32), "vit": (2.5, 5, 10, 20, 40, 80)}
_PAPER_BUDGET_BASELINES = (25, 50, 100, 200)


def paper_grid(setup: str, rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """The temporal scenarios of the paper: `resnet50` (16), `vit` (15) or `resnet18` (9, CIFAR-10-C).

    >>> len(paper_grid("resnet50")), len(paper_grid("vit")), len(paper_grid("resnet18"))
    (16, 15, 9)
    """
    if setup not in _PAPER_THRESHOLDS_MS:
        raise unknown("paper grid", str(setup), _PAPER_THRESHOLDS_MS)
    budgets: list[Scenario]
    if setup in _PAPER_BUDGETS_S:
        budgets = [Amortised(budget_ms=1000.0 * s, rule=rule) for s in _PAPER_BUDGETS_S[setup]]
    else:
        budgets = [Amortised(budget_baselines=float(count), rule=rule) for count in _PAPER_BUDGET_BASELINES]
    return [
        *_utilisations(queue),
        *(Continuous(threshold_ms=float(ms)) for ms in _PAPER_THRESHOLDS_MS[setup]),
        *budgets,
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


def _grid_at(path: str) -> Grid:
    make: Callable[[str, int], list[Scenario]] = globals()[path.partition(":")[2]]
    return Grid((make.__doc__ or "").strip().removesuffix("."), make)


GRIDS: dict[str, Grid] = {name: _grid_at(path) for name, path in names.GRIDS.items()}
"""Every grid by its name. `rule` and `queue` turn the paper's knobs; a preset has its own."""


def grid(name: str, rule: str = "strict", queue: int = 1) -> list[Scenario]:
    """The scenarios of a grid.

    >>> [scenario.label for scenario in grid("kiosk")]
    ['on_prediction, T 2λ', 'on_prediction, T 5λ', 'on_prediction, T 10λ']
    """
    if name not in GRIDS:
        raise unknown("grid", str(name), GRIDS)
    return GRIDS[name].make(rule, queue)
