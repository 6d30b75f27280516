"""The timing rules of docs/concepts/scenarios.md, restated from their text as one plain loop: an oracle for tests.

It shares no code and no idea with `scenarios`: batches are dealt with one by one, times are Python floats,
and the terms are the sums that define them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answers:
    """Outcomes of all batches; service order is the order of the dict."""

    phase: dict[int, str] = field(default_factory=dict)
    response_ms: dict[int, float] = field(default_factory=dict)
    spent_ms: float = 0.0


def simulate(case: Mapping[str, Any]) -> Answers:
    """Run a deployment on a schedule (`arrivals_ms`), or on a loop that waits (`arrivals`)."""
    return _on_schedule(case) if case.get("arrivals_ms") is not None else _waiting(case)


def _on_schedule(case: Mapping[str, Any]) -> Answers:
    arrivals, queue, charged = case["arrivals_ms"], case["queue"], case["fallback_cost"] == "charged"
    upcoming, waiting, lost, told = list(range(len(arrivals))), [], [], Answers()

    def arrive_while_busy(batch: int) -> None:
        if queue == 0:
            lose(batch, arrivals[batch])
            return
        if len(waiting) == queue:
            lose(waiting.pop(0), arrivals[batch])
        waiting.append(batch)

    def lose(batch: int, instant: float) -> None:
        if case["fallback"] is None:
            return
        if charged:
            lost.append(batch)
        else:
            answer(batch, "fallback", instant + case["fallback_ms"][batch] - arrivals[batch])

    def answer(batch: int, phase: str, response_ms: float) -> None:
        told.phase[batch], told.response_ms[batch] = phase, response_ms

    def serve(batch: int, start: float) -> float:
        """Until when the pipeline is busy with it."""
        if told.spent_ms < _budget(case):
            predict, adapt = case["predict_ms"][batch], case["adapt_ms"][batch]
            told.spent_ms += max(0.0, predict + adapt - case["baseline_ms"])
            answer(batch, "adapt", start + predict - arrivals[batch])
            return float(start + (predict + adapt))
        answer(batch, "frozen", start + case["frozen_ms"][batch] - arrivals[batch])
        return float(start + case["frozen_ms"][batch])

    now, had_a_turn = 0.0, False
    while upcoming or waiting or lost:
        # The pipeline is free at `now`. All that came while it was busy has been dealt with.
        if queue > 0:
            while upcoming and arrivals[upcoming[0]] == now and (waiting or lost or now > 0):
                arrive_while_busy(upcoming.pop(0))
        # Without a queue, one that comes at the very end of a turn is what "a waiting batch" can mean.
        next_in_line = bool(waiting) or (bool(upcoming) and arrivals[upcoming[0]] == now)
        if lost and not (had_a_turn and next_in_line):
            while upcoming and arrivals[upcoming[0]] == now:
                arrive_while_busy(upcoming.pop(0))
            turn, had_a_turn = list(lost), True
            lost.clear()
            for batch in turn:
                now += case["fallback_ms"][batch]
                answer(batch, "fallback", now - arrivals[batch])
            end = now
        else:
            had_a_turn = False
            if waiting:
                batch, start = waiting.pop(0), now
            elif upcoming:
                batch = upcoming.pop(0)
                start = max(now, arrivals[batch])
            else:
                break
            end = serve(batch, start)
        while upcoming and arrivals[upcoming[0]] < end:
            arrive_while_busy(upcoming.pop(0))
        now = end
    return told


def _waiting(case: Mapping[str, Any]) -> Answers:
    """Nothing is lost; who asks with each prediction waits while the last batch is adapted on."""
    told, waits, frozen = Answers(), 0.0, False
    for batch in range(len(case["accuracy"])):
        predict, adapt = case["predict_ms"][batch], case["adapt_ms"][batch]
        cost = max(0.0, predict + adapt - case["baseline_ms"])
        if case["rule"] == "strict":
            frozen = frozen or told.spent_ms + cost > _budget(case)
        else:
            frozen = told.spent_ms >= _budget(case)
        if frozen:
            predict, adapt, cost = case["frozen_ms"][batch], 0.0, 0.0
        told.spent_ms += cost
        told.phase[batch] = "frozen" if frozen else "adapt"
        told.response_ms[batch] = waits + predict
        waits = adapt if case["arrivals"] == "on_prediction" else 0.0
    return told


def _budget(case: Mapping[str, Any]) -> float:
    return math.inf if case["budget_ms"] is None else float(case["budget_ms"])


def expected(case: Mapping[str, Any]) -> dict[str, Any]:
    """Utility, the six terms, the fallback's two and the phase of every batch."""
    told, count = simulate(case), len(case["accuracy"])
    columns = {"adapt": "accuracy", "frozen": "frozen_accuracy", "fallback": "fallback_accuracy"}
    right = {batch: case[columns[phase]][batch] for batch, phase in told.phase.items()}
    worth = {batch: _kappa(case, response) for batch, response in told.response_ms.items()}
    served = len(right)
    responsiveness = math.fsum(worth.values()) / served
    mean = math.fsum(right.values()) / served
    covariance = math.fsum((right[b] - mean) * (worth[b] - responsiveness) for b in right) / served
    adapted = [right[batch] for batch, phase in told.phase.items() if phase == "adapt"]
    others = [right[batch] for batch, phase in told.phase.items() if phase != "adapt"]
    rescued = [right[batch] for batch, phase in told.phase.items() if phase == "fallback"]
    return {
        "utility": math.fsum(right[batch] * worth[batch] for batch in right) / count,
        "availability": served / count,
        "adapted_fraction": len(adapted) / served,
        "adapt_accuracy": _mean(adapted),
        "frozen_accuracy": _mean(others),
        "responsiveness": responsiveness,
        "covariance": covariance,
        "fallback_fraction": len(rescued) / count,
        "fallback_accuracy": _mean(rescued),
        "spent_ms": told.spent_ms,
        "phase": [told.phase.get(batch, "skipped") for batch in range(count)],
    }


def _kappa(case: Mapping[str, Any], response_ms: float) -> float:
    if case["deadline_ms"] is not None:
        return 1.0 if response_ms <= case["deadline_ms"] else 0.0
    if case["threshold_ms"] is None:
        return 1.0
    late = max(0.0, response_ms - case["baseline_ms"])
    return float(1 / (1 + late / (case["threshold_ms"] - case["baseline_ms"])))


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
