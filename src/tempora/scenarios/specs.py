"""Scenarios as plain data, for configuration files and run folders, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tempora.errors import TemporaError, unknown
from tempora.scenarios.archetypes import Amortised, Continuous, Discrete, Offline
from tempora.scenarios.arrivals import Arrivals, to_plain
from tempora.scenarios.deployment import Deployment, Scenario

KINDS: dict[str, type[Scenario]] = {
    kind.protocol: kind for kind in (Offline, Discrete, Continuous, Amortised, Deployment)
}


def to_spec(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain data: its protocol and the knobs that were set.

    >>> to_spec(Discrete(utilisation=0.5))
    {'protocol': 'discrete', 'utilisation': 0.5}
    """
    spec: dict[str, Any] = {"protocol": scenario.protocol}
    for knob in fields(scenario):  # type: ignore[arg-type]  # every concrete scenario is a dataclass
        value = getattr(scenario, knob.name)
        if value != knob.default:
            spec[knob.name] = _plain_knob(value)
    return spec


def _plain_knob(value: Any) -> Any:
    if isinstance(value, Arrivals):
        return to_plain(value)
    return list(value) if isinstance(value, tuple) else value


def from_spec(spec: Mapping[str, Any]) -> Scenario:
    """The scenario that plain data describes.

    >>> from_spec({"protocol": "discrete", "utilisation": 0.5}).label
    'ρ 50 %'
    """
    knobs = dict(spec)
    protocol = knobs.pop("protocol", None)
    if not isinstance(protocol, str) or protocol not in KINDS:
        raise unknown("protocol", str(protocol), KINDS)
    kind = KINDS[protocol]
    allowed = [knob.name for knob in fields(kind)]  # type: ignore[arg-type]
    for name in knobs:
        if name not in allowed:
            raise (
                unknown(f"{protocol} setting", str(name), allowed)
                if allowed
                else TemporaError(f"{protocol} takes no settings; got {name}")
            )
    return kind(**knobs)
