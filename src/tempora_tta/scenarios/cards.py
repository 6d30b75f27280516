"""Cards: how tables and reports name and explain a kind of scenario.

Tables, figures, the report and the advice go over cards and terms, so a scenario of the user's own is named, ordered
and explained like the paper's. A class writes the fields that it wants to; the others follow from its protocol and
parameter. Cards travel with a run as plain data, so results open where the class cannot be imported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from tempora_tta._numbers import percent
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.scenarios.course import SIX_TERMS

TERMS = (*SIX_TERMS, "accuracy", "served_accuracy", "cutoff", "spent_ms", "served_batches")
"""Terms that the sentences of a card may name."""

_SLOT = re.compile(r"\{(\w+)(?::(\.[0-9][%fg]))?\}")
"""`{availability:.1%}`. Cards are read from run folders, so nothing more of Python's formats is understood."""

_UNSAID = 1000
"""The place of a kind that does not say where it belongs: after those that do."""


@dataclass(frozen=True, kw_only=True)
class ScenarioCard:
    """Name, order and explanation of one kind of scenario (a protocol). Empty fields are filled by `of`."""

    protocol: str = ""
    """As in the column `protocol`; the class's own."""
    parameter: str = ""
    """The knob that it varies, as in the column `parameter`; the class's own."""
    title: str = ""
    """Above its columns: Discrete."""
    situation: str = ""
    """Situation that a user would recognise: Batches arrive on a clock."""
    story: str = ""
    """Fate of a batch, shown next to a timeline."""
    knob: str = ""
    """The parameter in words, before a number: A batch every."""
    symbol: str = ""
    """Symbol of the parameter, with which labels begin: γ."""
    unit: str = ""
    """Axis title of the parameter."""
    axis: str = ""
    """The title of an axis along it: Arrival interval γ (ms)."""
    terms: tuple[str, ...] = ()
    """The terms that explain a utility, in the order of reading."""
    factor: str = ""
    """The term that its pressure acts on first."""
    sentences: tuple[str, ...] = ()
    """Half sentences on what became of a method's accuracy: `serves {availability:.1%} of the batches`.
    The first one whose terms all have a value is shown."""
    pace: str = ""
    """A few words on what the deployment left of accuracy or of adapting."""
    place: int = _UNSAID
    """Among the other kinds, lowest first."""
    rising: bool = False
    """A larger value of the parameter is more pressure."""
    reference: bool = False
    """Nothing presses: what the others are compared with."""

    def __post_init__(self) -> None:
        for term in (*self.terms, *([self.factor] if self.factor else [])):
            if term not in TERMS:
                raise unknown(f"term in the card of {self.protocol or 'a scenario'}", term, TERMS)
        for sentence in (*self.sentences, self.pace):
            _check(sentence, self.protocol)

    @classmethod
    def of(cls, protocol: str, parameter: str = "", card: ScenarioCard | None = None) -> ScenarioCard:
        """The card of a protocol, with every field that `card` leaves empty made from protocol and parameter.

        >>> ScenarioCard.of("two_paces", "short_ms").axis
        'Short (ms)'
        """
        given = card or cls()
        name, _, unit = parameter.rpartition("_") if "_" in parameter else (parameter, "", "")
        title = given.title or _words(protocol)
        unit = given.unit or unit
        knob = given.knob or _words(name) or title
        terms = given.terms or ("availability", "served_accuracy", "responsiveness")
        return replace(
            given,
            protocol=protocol,
            parameter=parameter,
            title=title,
            situation=given.situation or title,
            story=given.story or given.situation or title,
            knob=knob,
            unit=unit,
            axis=given.axis or " ".join(filter(None, (knob, given.symbol, f"({unit})" if unit else ""))),
            terms=terms,
            factor=given.factor or terms[0],
            sentences=given.sentences or _DEFAULT_SENTENCES,
            pace=given.pace or _DEFAULT_PACE,
        )

    def sentence(self, terms: Mapping[str, Any]) -> str:
        """The terms of a result, as half a sentence that follows a method's name.

        >>> card = ScenarioCard(sentences=("freezes at {cutoff:.0f}", "gets {accuracy:.1%} right"))
        >>> card.sentence({"cutoff": None, "accuracy": 0.5})
        'gets 50.0 % right'
        """
        known = [
            text for text in self.sentences if all(_there(terms, name) for name, _ in _SLOT.findall(text))
        ]
        return _filled((known or self.sentences)[0], terms)

    def short_sentence(self, terms: Mapping[str, Any]) -> str:
        """The same in a few words."""
        return _filled(self.pace, terms)

    def number(self, value: float) -> str:
        """A value of the parameter with symbol and unit, as labels are written: `γ 10 ms`."""
        return " ".join(filter(None, (self.symbol, f"{value:g}", self.unit)))

    def to_json(self) -> dict[str, Any]:
        """Plain data, for run.json."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, protocol: str, data: Mapping[str, Any]) -> ScenarioCard:
        """The card that plain data describe; unknown keys, which a newer version wrote, are left aside."""
        known: dict[str, Any] = {}
        for field in fields(cls):
            if field.name in data:
                value = data[field.name]
                if isinstance(field.default, tuple):
                    value = tuple(value) if isinstance(value, list) else value
                    fits = isinstance(value, tuple) and all(isinstance(entry, str) for entry in value)
                else:
                    fits = type(value) is type(field.default)
                if not fits:
                    raise TemporaError(f"the card of {protocol!r}: {field.name} is {value!r:.60}")
                known[field.name] = value
        parameter = known.pop("parameter", "")
        known.pop("protocol", None)
        return cls.of(protocol, parameter, cls(**known))


_DEFAULT_SENTENCES = (
    "serves {availability:.1%} of the batches, gets {served_accuracy:.1%} of them right and keeps "
    "{responsiveness:.1%} of their value",
)
_DEFAULT_PACE = "serves {availability:.0%} of the batches and keeps {responsiveness:.0%} of their value"


def _words(name: str) -> str:
    """A name of code as words: `two_paces` -> `Two paces`."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _check(sentence: str, protocol: str) -> None:
    """Refuse what `_filled` could not fill."""
    for name, _ in _SLOT.findall(sentence):
        if name not in TERMS:
            raise unknown(f"term in the card of {protocol or 'a scenario'}", name, TERMS)
    rest = _SLOT.sub("", sentence)
    if "{" in rest or "}" in rest:
        raise TemporaError(
            f"the card of {protocol or 'a scenario'}: {sentence!r} has braces that are no term; write "
            "{availability:.1%}, {accuracy:.2f} or {cutoff}"
        )


def _there(terms: Mapping[str, Any], name: str) -> bool:
    value = terms.get(name)
    return value is not None and not math.isnan(value)


def _filled(sentence: str, terms: Mapping[str, Any]) -> str:
    def said(slot: re.Match[str]) -> str:
        name, form = slot.groups()
        if not _there(terms, name):
            return "–"
        value = float(terms[name])
        return percent(value, int(form[1])) if form and form.endswith("%") else format(value, form or "g")

    return _SLOT.sub(said, sentence)
