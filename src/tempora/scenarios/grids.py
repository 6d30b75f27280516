"""The grids of scenarios that a run evaluates. Offline is not in them: it is always run."""

from __future__ import annotations

from tempora.errors import unknown
from tempora.scenarios.archetypes import Amortised, Continuous, Discrete
from tempora.scenarios.deployment import Scenario

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
    """A grid that means the same on any machine: every knob relative to its lambda."""
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
