"""The cards of a run: titles, labels and colours of its scenarios and methods.

They travel with the results, as plain data in run.json. What a run does not say of a name the catalogue says, or the
name itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import FAMILIES, Family, MethodCard, card_of, order
from tempora_tta.scenarios import Scenario, ScenarioCard
from tempora_tta.scenarios.specs import KINDS

OVERALL, TEMPORAL = "overall", "temporal"
"""Groups of cells besides those of one protocol: all of them, and those under pressure."""

OURS = {protocol: ScenarioCard.of(protocol, kind.parameter, kind.card) for protocol, kind in KINDS.items()}
"""The cards of the scenarios that ship with Tempora."""


@dataclass(frozen=True)
class Cards:
    """Scenario cards by protocol and method cards by the name that the run gives a method."""

    scenarios: Mapping[str, ScenarioCard] = field(default_factory=dict)
    methods: Mapping[str, MethodCard] = field(default_factory=dict)

    # -- scenarios ---------------------------------------------------------------------------------------------

    def scenario(self, protocol: str) -> ScenarioCard:
        """Return the card of a protocol; a name without a card is its own title."""
        return self.scenarios.get(protocol) or OURS.get(protocol) or ScenarioCard.of(protocol)

    def title(self, group: str) -> str:
        """Return the title above the columns of a protocol, or of all of them."""
        return group.capitalize() if group in (OVERALL, TEMPORAL) else self.scenario(group).title

    def protocol_order(self, group: str) -> tuple[int, str]:
        """Return a sort key: overall, the reference, then as the cards say."""
        return (-1, group) if group in (OVERALL, TEMPORAL) else (self.scenario(group).place, group)

    def in_protocol_order(self, groups: Iterable[str]) -> list[str]:
        return sorted(set(groups), key=self.protocol_order)

    @cached_property
    def references(self) -> frozenset[str]:
        """Protocols without pressure, which the others are compared with."""
        known = {**OURS, **self.scenarios}
        return frozenset(protocol for protocol, card in known.items() if card.reference)

    # -- methods -----------------------------------------------------------------------------------------------

    def method(self, name: str) -> MethodCard:
        return self.methods.get(name) or card_of(name)

    def label(self, method: str) -> str:
        return self.method(method).label

    def family(self, method: str) -> Family:
        return self.method(method).family

    def in_order(self, methods: Iterable[str]) -> list[str]:
        """Methods by family, within it in the paper's order."""
        return sorted(set(methods), key=lambda name: (FAMILIES.index(self.family(name)), order(name)))

    # -- plain data --------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "scenarios": {protocol: card.to_json() for protocol, card in self.scenarios.items()},
            "methods": {name: card.to_json() for name, card in self.methods.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cards:
        """Return the cards of run.json; raises TemporaError where they are none."""
        return cls(
            {name: ScenarioCard.from_json(name, card) for name, card in _entries(data, "scenarios")},
            {name: MethodCard.from_json(name, card) for name, card in _entries(data, "methods")},
        )


CATALOGUE = Cards()
"""Cards that are known without a run: the paper's scenarios and methods."""


def scenario_cards(scenarios: Iterable[Scenario]) -> dict[str, ScenarioCard]:
    """Return the cards of scenarios by protocol, each of which means one kind of scenario."""
    cards: dict[str, ScenarioCard] = {}
    for scenario in scenarios:
        card = scenario.full_card()
        if card.protocol in (OVERALL, TEMPORAL):
            raise TemporaError(f"protocol {card.protocol!r}: tables use this word for groups; choose another")
        if cards.setdefault(card.protocol, card) != card:
            raise TemporaError(
                f"two kinds of scenarios call themselves {card.protocol!r}: give one of them another protocol"
            )
    return cards


def _entries(data: Mapping[str, Any], kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    cards = data.get(kind, {})
    if not isinstance(cards, dict) or not all(isinstance(card, dict) for card in cards.values()):
        raise TemporaError(f"its cards of {kind} are {cards!r:.60}")
    return list(cards.items())
