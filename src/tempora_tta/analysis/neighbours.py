"""What was evaluated on either side of a deployment that was not: no answer, but none may contradict it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from tempora_tta._numbers import percent
from tempora_tta.analysis.cells import ALL, cells
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.scenarios import Scenario


@dataclass(frozen=True)
class Neighbours:
    """A method's utility at the nearest evaluated points of the same kind, from the smaller value to the larger."""

    labels: tuple[str, ...]
    utilities: tuple[float, ...]
    """One or two."""
    bounded: bool = True
    """Whether one of them is at least as strict as the deployment. Below the strictest that was measured a method may
    lose everything at once."""

    @property
    def lo(self) -> float:
        return min(self.utilities)

    @property
    def hi(self) -> float:
        return max(self.utilities)

    @property
    def least(self) -> float:
        """What they let one expect at least."""
        return self.lo if self.bounded else 0.0

    def span(self) -> str:
        """In a few words.

        >>> Neighbours(("B 0.25 s", "B 1 s"), (0.74, 0.766)).span()
        'between 74.0 % and 76.6 % at B 0.25 s and B 1 s'
        >>> Neighbours(("T 15 ms",), (0.74,), bounded=False).span()
        '74.0 % at T 15 ms, which is more relaxed'
        """
        found = (
            f"between {percent(self.lo)} and {percent(self.hi)}" if len(self.labels) > 1 else percent(self.hi)
        )
        return f"{found} at {' and '.join(self.labels)}{'' if self.bounded else ', which is more relaxed'}"

    def sentence(self) -> str:
        """
        >>> Neighbours(("B 0.25 s", "B 1 s"), (0.74, 0.766)).sentence()
        'between 74.0 % and 76.6 % (B 0.25 s: 74.0 %, B 1 s: 76.6 %)'
        >>> Neighbours(("B 0.25 s",), (0.74,)).sentence()
        '74.0 % at B 0.25 s, the only neighbour'
        """
        found = [f"{percent(utility)}" for utility in self.utilities]
        if len(found) == 1:
            return f"{found[0]} at {self.labels[0]}, the only neighbour"
        points = ", ".join(f"{label}: {text}" for label, text in zip(self.labels, found, strict=True))
        return f"between {percent(self.lo)} and {percent(self.hi)} ({points})"


def neighbours(
    utilities: pd.DataFrame,
    scenario: Scenario,
    value: float | None,
    methods: Iterable[str],
    cards: Cards = CATALOGUE,
) -> dict[str, Neighbours]:
    """Of those methods that were evaluated nearby: the same protocol, queue and rule, another `value` of its knob.

    utilities: the cells of the shifts that are asked about.
    """
    wanted = set(methods)
    if value is None or not scenario.parameter or not wanted:
        return {}
    rows = cells(utilities, cards)
    rows = rows[(rows["shift"] == ALL) & ~rows["incomplete"] & rows["method"].isin(wanted)]
    rows = rows[_alike(rows, scenario)]
    rising = cards.scenario(scenario.protocol).rising
    found = {str(method): _nearest(own, value, rising) for method, own in rows.groupby("method")}
    return {method: near for method, near in found.items() if near is not None}


def rivals(near: Mapping[str, Neighbours], best: float) -> list[str]:
    """Who was better at a neighbour than the best is here, the most promising first."""
    return sorted((name for name, one in near.items() if one.hi > best), key=lambda name: -near[name].hi)


def favourite(near: Mapping[str, Neighbours], best: float) -> str | None:
    """Who can be expected to get more than the best has here, whichever way its neighbours are read."""
    above = [name for name, one in near.items() if one.least > best]
    return max(above, key=lambda name: near[name].least, default=None)


def _alike(rows: pd.DataFrame, scenario: Scenario) -> pd.Series[bool]:
    deployment = scenario.deployment()
    alike = rows["protocol"] == scenario.protocol
    if "queue" in rows and not deployment.waits:
        alike &= rows["queue"] == deployment.queue
    if "rule" in rows and deployment.has_budget:
        alike &= rows["rule"] == deployment.rule
    return alike


def _nearest(rows: pd.DataFrame, value: float, rising: bool) -> Neighbours | None:
    rows = rows[rows["value"].notna()].sort_values("value")
    below, above = rows[rows["value"] <= value].tail(1), rows[rows["value"] >= value].head(1)
    near = pd.concat([below, above]).drop_duplicates("value")
    if near.empty:
        return None
    return Neighbours(
        tuple(near["label"].astype(str)),
        tuple(float(one) for one in near["utility"]),
        bounded=not (above if rising else below).empty,
    )
