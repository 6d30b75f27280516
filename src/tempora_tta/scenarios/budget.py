"""How much overhead may be spent before the model freezes (the paper's amortised protocol)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tempora_tta.scenarios import _validate as check
from tempora_tta.scenarios._validate import BoolArray, FloatArray


class Budget:
    """Charges each adapting batch with its overhead, max(0, service - baseline), until the budget is used up.

    `strict` (the paper's equation) never exceeds the budget: the batch that would is undone.
    `overshoot` adapts while less than the budget is spent, which any live system can follow.
    """

    def __init__(self, budget_ms: float, baseline_ms: float | None, rule: str) -> None:
        self.budget_ms = budget_ms
        self.spent_ms = 0.0
        self._baseline_ms = math.inf if baseline_ms is None else baseline_ms
        self._strict = rule == "strict"
        self._exhausted = False

    @property
    def undoes(self) -> bool:
        """Whether a batch may turn out not to fit after it ran."""
        return self._strict

    @property
    def allows_adaptation(self) -> bool:
        if self._strict:
            return not self._exhausted
        return self.spent_ms < self.budget_ms

    def charge(self, service_ms: float) -> bool:
        """Charge an adapted batch. False (`strict`): it does not fit, is not charged and must be undone."""
        spent_ms = self.spent_ms + max(0.0, service_ms - self._baseline_ms)
        if self._strict and spent_ms > self.budget_ms:
            self._exhausted = True
            return False
        self.spent_ms = spent_ms
        return True

    def afforded(self, service_ms: FloatArray, adapted: BoolArray) -> BoolArray:
        """Charge a whole stream at once: which of its batches may adapt, the first ones up to some batch.

        The same sums in the same order as `charge` batch by batch. `adapted`: those that want to.
        """
        may, spent_ms = afforded(
            service_ms, adapted, self.budget_ms, self._baseline_ms, "strict" if self._strict else "overshoot"
        )
        count = int(may.sum())
        self.spent_ms = float(spent_ms[count - 1]) if count else 0.0
        return may


def afforded(
    service_ms: FloatArray,
    adapted: BoolArray,
    budget_ms: float | FloatArray,
    baseline_ms: float | FloatArray,
    rule: str,
) -> tuple[BoolArray, FloatArray]:
    """Which batches of a stream (or of many: a row each) the budget lets adapt, and what is spent after each."""
    overhead_ms = np.fmax(0.0, service_ms - baseline_ms)
    spent_ms = np.cumsum(np.where(adapted, overhead_ms, 0.0), axis=-1)
    if rule == "strict":
        overruns = adapted & (spent_ms > budget_ms)
    else:
        before_ms = np.concatenate([np.zeros_like(spent_ms[..., :1]), spent_ms[..., :-1]], axis=-1)
        overruns = before_ms >= budget_ms
    return ~np.logical_or.accumulate(overruns, axis=-1), spent_ms


def budget_cutoff(service_ms: ArrayLike, baseline_ms: float, budget_ms: float, rule: str = "strict") -> int:
    """The cut-off m: how many batches of a stream adapt before the budget freezes the model.

    >>> budget_cutoff([100, 100, 100], baseline_ms=40, budget_ms=100)
    1
    >>> budget_cutoff([100, 100, 100], baseline_ms=40, budget_ms=100, rule="overshoot")
    2
    """
    budget = Budget(
        check.non_negative("budget_ms", budget_ms),
        check.positive("baseline_ms", baseline_ms),
        check.budget_rule(rule),
    )
    services = check.times("service_ms", service_ms).tolist()
    for cutoff, service in enumerate(services):
        if not (budget.allows_adaptation and budget.charge(service)):
            return cutoff
    return len(services)
