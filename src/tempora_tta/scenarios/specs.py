"""Scenarios as plain data, for configuration files and run folders, and back.

A configuration names a class: by its protocol, or `module:Class` for one of the user's own. A run folder also keeps
what a user's scenario stands for, so that results are read without importing, or trusting, the module that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from tempora_tta._own_code import find, is_own
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.scenarios.arrivals import Arrivals, to_plain
from tempora_tta.scenarios.cards import ScenarioCard
from tempora_tta.scenarios.deployment import Deployment, Scenario
from tempora_tta.scenarios.paper import Amortised, Continuous, Discrete, Offline
from tempora_tta.scenarios.resolved import Resolved

KINDS: dict[str, type[Scenario]] = {
    kind.protocol: kind for kind in (Offline, Discrete, Continuous, Amortised, Deployment)
}
_DESCRIBED = "described"


def to_spec(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain data: its protocol, or a user's class, and the knobs that were set.

    >>> to_spec(Discrete(utilisation=0.5))
    {'protocol': 'discrete', 'utilisation': 0.5}
    """
    if isinstance(scenario, _Described):
        return dict(scenario.spec)
    kind = type(scenario)
    spec: dict[str, Any] = {"scenario": f"{kind.__module__}:{kind.__qualname__}"}
    if KINDS.get(kind.protocol) is kind:
        spec = {"protocol": kind.protocol}
    for knob in fields(_as_dataclass(kind)):
        value = getattr(scenario, knob.name)
        if value != knob.default:
            spec[knob.name] = _plain_knob(value)
    return spec


def _plain_knob(value: Any) -> Any:
    if isinstance(value, Arrivals):
        return to_plain(value)
    return list(value) if isinstance(value, tuple) else value


def from_spec(spec: Mapping[str, Any] | str) -> Scenario:
    """The scenario that plain data describes; a text is the name of a class that needs no settings.

    >>> from_spec({"protocol": "discrete", "utilisation": 0.5}).label
    'ρ 50 %'
    """
    knobs = {"scenario": spec} if isinstance(spec, str) else dict(spec)
    kind, name = _kind(knobs)
    allowed = [knob.name for knob in fields(_as_dataclass(kind)) if knob.init]
    for knob in knobs:
        if knob not in allowed:
            raise (
                unknown(f"{name} setting", str(knob), allowed, about=str(knob))
                if allowed
                else TemporaError(f"{name} takes no settings; got {knob}", about=str(knob))
            )
    try:
        return kind(**knobs)
    except TypeError as error:
        if kind.__module__.startswith("tempora_tta."):
            raise
        raise TemporaError(f"scenario {name!r}: {error}") from error


def _kind(knobs: dict[str, Any]) -> tuple[type[Scenario], str]:
    """Takes the name of the class out of the knobs."""
    if "scenario" not in knobs:
        protocol = knobs.pop("protocol", None)
        if not isinstance(protocol, str) or protocol not in KINDS:
            raise unknown("protocol", str(protocol), KINDS, about="protocol")
        return KINDS[protocol], protocol
    name = knobs.pop("scenario")
    if isinstance(name, str) and name in KINDS:
        return KINDS[name], name
    if not isinstance(name, str) or not is_own(name):
        raise TemporaError(
            f"scenario {name!r}: write module:Class for one of your own, or a protocol: {', '.join(KINDS)}"
        )
    found = find("scenario", name, "class", lambda one: isinstance(one, type) and issubclass(one, Scenario))
    if not (isinstance(found, type) and issubclass(found, Scenario)):
        raise TemporaError(
            f"scenario {name!r}: is not a subclass of tempora_tta.scenarios.Scenario: write class Mine(Scenario)"
        )
    return found, name


def _as_dataclass(kind: Any) -> Any:
    if not is_dataclass(kind):
        raise TemporaError(
            f"scenario {kind.__name__}: its settings are the fields of a dataclass; write "
            "@dataclass(frozen=True, kw_only=True) above the class"
        )
    return kind


# -- run folders ---------------------------------------------------------------------------------------------


def to_record(scenario: Scenario) -> dict[str, Any]:
    """The scenario as a run folder keeps it: what a user's class stands for is next to its name."""
    spec = to_spec(scenario)
    if "scenario" not in spec or _DESCRIBED in spec:
        return spec
    own = getattr(scenario, scenario.parameter, None) if scenario.parameter else None
    return {
        **{name: _plain(value) for name, value in spec.items()},
        _DESCRIBED: {
            "protocol": scenario.protocol,
            "parameter": scenario.parameter,
            "label": scenario.label,
            "value": None if own is None else float(own),
            "deployment": to_spec(scenario.deployment()),
        },
    }


def from_record(record: Mapping[str, Any], card: ScenarioCard | None = None) -> Scenario:
    """The scenario of a run folder; imports nothing of the user's. `card` is the run's."""
    if _DESCRIBED not in record:
        if "scenario" in record:
            raise TemporaError(f"scenario {record['scenario']!r}: the run does not say what it stands for")
        return from_spec(record)
    told = record[_DESCRIBED]
    try:
        protocol, parameter, label = (str(told[name]) for name in ("protocol", "parameter", "label"))
        deployment = from_spec(told["deployment"])
    except (KeyError, TypeError) as error:
        raise TemporaError(f"scenario {record.get('scenario')!r}: described by {told!r:.60}") from error
    names = {"protocol": protocol, "parameter": parameter, "card": card}
    kind: type[_Described] = type("Described", (_Described,), names)
    return kind(record, label, deployment.deployment(), told.get("value"))


class _Described(Scenario):
    """A user's scenario as its run describes it: the same name, deployment and value, without its class."""

    def __init__(
        self, spec: Mapping[str, Any], label: str, deployment: Deployment, value: float | None
    ) -> None:
        self.spec = spec
        self._label, self._deployment, self._value = label, deployment, value

    @property
    def label(self) -> str:
        return self._label

    def deployment(self) -> Deployment:
        return self._deployment

    def value(self, resolved: Resolved) -> float | None:
        found = super().value(resolved)
        return self._value if found is None else found


def _plain(value: Any) -> Any:
    """As JSON can hold it; what cannot be held is written out for people."""
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
