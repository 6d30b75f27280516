"""The catalogue of methods: how the paper's are called, grouped and coloured wherever people see them, and how any
other name is shown that says nothing of itself.

Data, in the lowest pure packages, because results must open on a laptop without torch. What a run says of its own
methods comes with its results (`tempora_tta.cards`) and wins over this.
"""

from __future__ import annotations

import colorsys
import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

from tempora_tta.errors import TemporaError

Family = Literal["gradient-free", "gradient-based", "other"]
FAMILIES: tuple[Family, ...] = get_args(Family)
"""In the order of tables."""

_COLOUR = re.compile("#[0-9a-f]{6}")


@dataclass(frozen=True)
class MethodCard:
    """Label, family and colour of a method."""

    label: str
    family: Family
    colour: str
    modifies: tuple[str, ...] = ()
    """Any of input, output, activations and parameters."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, for run.json."""
        return {
            "label": self.label,
            "family": self.family,
            "colour": self.colour,
            "modifies": list(self.modifies),
        }

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> MethodCard:
        """Return the card that plain data describe; what they leave out is as the name alone would have it."""
        known = {**card_of(name).to_json(), **data}
        words = known["modifies"]
        if not isinstance(known["label"], str) or not isinstance(words, list):
            raise TemporaError(f"the card of method {name!r} is {data!r:.60}")
        colour = check_colour(known["colour"], f"the card of method {name!r}")
        return cls(known["label"] or name, family_called(known["family"]), colour, tuple(map(str, words)))


def family_called(name: object) -> Family:
    """Return the family of that name; any other name is `other`."""
    return next((family for family in FAMILIES if family == name), "other")


def check_colour(colour: object, whose: str) -> str:
    """Refuse what is no colour: it goes into pages and figures as it is."""
    if not isinstance(colour, str) or not _COLOUR.fullmatch(colour.lower()):
        raise TemporaError(f"{whose}: colour {colour!r:.40}; write red, green and blue as #1f77b4")
    return colour.lower()


STANDARD = "standard"
"""Standard inference: the non-adaptive baseline that every table compares with."""

METHODS: dict[str, MethodCard] = {
    "standard": MethodCard("Standard", "gradient-free", "#767676"),
    "neo": MethodCard("NEO", "gradient-free", "#a8c2ff", ("activations",)),
    "lame": MethodCard("LAME", "gradient-free", "#886243", ("output",)),
    "adabn": MethodCard("AdaBN", "gradient-free", "#689ef6", ("activations",)),
    "tent": MethodCard("Tent", "gradient-based", "#e6bd00", ("parameters",)),
    "eta": MethodCard("ETA", "gradient-based", "#90af66", ("parameters",)),
    "shot_im": MethodCard("SHOT-IM", "gradient-based", "#803eff", ("parameters",)),
    "deyo": MethodCard("DeYO", "gradient-based", "#ab3c03", ("parameters",)),
    "cmf": MethodCard("CMF", "gradient-based", "#4e5fd5", ("output", "parameters")),
    "sar": MethodCard("SAR", "gradient-based", "#c58500", ("parameters",)),
    "spa": MethodCard("SPA", "gradient-based", "#a72a94", ("parameters",)),
    "zerosiam": MethodCard("ZeroSIAM", "gradient-based", "#29d9a4", ("parameters",)),
    "eta_star": MethodCard("ETA*", "gradient-based", "#8acbbc", ("parameters",)),
    "shot_im_star": MethodCard("SHOT-IM*", "gradient-based", "#b8909c", ("parameters",)),
}
"""In the order of the paper's tables."""

OTHER_COLOURS = {
    "alpha_bn": "#5b049f",
    "t3a": "#c002d5",
    "foa": "#750953",
    "eata": "#8d864b",
    "rdumb": "#31b9ca",
    "cotta": "#2eb525",
    "rotta": "#479969",
    "roid": "#f4a594",
    "memo": "#866aff",
    "settle": "#c8c65c",
    "pace": "#f171ba",
}
"""Of the bundled methods that are not the paper's. All colours here stay apart on light and on dark paper; those of
the paper's methods and of Tempora's own (settle, pace) also for colour-blind readers of all three kinds. The
others, too many to be far apart for two kinds of cones, are told apart at a second glance, and by their names."""


@lru_cache(maxsize=1024)
def card_of(method: str) -> MethodCard:
    """Return the card that a name alone makes: the catalogue's, or the class name, no family, and a colour.

    The colour is the same in every table, figure and run; in a runtime, a method has a shade of it.

    >>> card_of("shot_im").label
    'SHOT-IM'
    >>> card_of("my_package.methods:Mine").label
    'Mine'
    >>> card_of("tent@amp").family
    'gradient-based'
    """
    if method in METHODS:
        return METHODS[method]
    name, _, runtime = method.partition("@")
    known = METHODS.get(name)
    own = known.colour if known else OTHER_COLOURS.get(name) or _written(_colour_of_its_own(name))
    colour = colour_in(runtime, own)
    shown = method.rsplit(":", 1)[-1]
    return (
        MethodCard(shown, known.family, colour, known.modifies)
        if known
        else MethodCard(shown, "other", colour)
    )


def order(method: str) -> tuple[int, str]:
    """Return a sort key: the paper's order, then everyone else by name."""
    return (_PLACES.get(method, len(_PLACES)), method)


_PLACES = {name: place for place, name in enumerate(METHODS)}

_RGB = tuple[float, float, float]


def colour_in(runtime: str, colour: str) -> str:
    """Return the colour of a method in a runtime: a shade of its own; the colour itself without one."""
    if not runtime:
        return colour
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return _written(_shade((red, green, blue), runtime))


def _written(colour: _RGB) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)


def _colour_of_its_own(name: str) -> _RGB:
    """Any hue, vivid or dull, and one of two luminances that can be read on white and on dark paper."""
    hash_ = hashlib.sha256(name.encode()).digest()
    hue, saturation = int.from_bytes(hash_[:2], "big") / 2**16, (0.45, 0.9)[hash_[2] % 2]
    wanted = (0.14, 0.26)[hash_[3] % 2]
    shades = [colorsys.hls_to_rgb(hue, percent / 100, saturation) for percent in range(20, 75)]
    return min(shades, key=lambda shade: abs(_luminance(shade) - wanted))


def _shade(colour: _RGB, runtime: str) -> _RGB:
    """Light colours get darker and dark ones lighter, with a touch of another hue."""
    # Of all bytes of the hash these two set tf32, channels_last, amp and compile furthest apart.
    mixed, turned = (byte / 255 for byte in hashlib.sha256(runtime.encode()).digest()[24:26])
    hue, lightness, saturation = colorsys.rgb_to_hls(*colour)
    red, green, blue = colorsys.hls_to_rgb((hue + 0.12 * (turned - 0.5)) % 1, lightness, saturation)
    ink, share = 1.0 if _luminance(colour) < 0.18 else 0.0, 0.2 + 0.35 * mixed
    return (red + (ink - red) * share, green + (ink - green) * share, blue + (ink - blue) * share)


def _luminance(colour: _RGB) -> float:
    red, green, blue = (math.pow(part, 2.2) for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
