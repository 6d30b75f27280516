"""How the methods are called, grouped and coloured wherever people see them.

Kept here, in the lowest pure package, because results must open on a laptop without torch: tables and figures
read these names and never import the methods themselves.
"""

from __future__ import annotations

import colorsys
import hashlib
import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

Family = Literal["gradient-free", "gradient-based", "other"]
_DECLARABLE: tuple[Family, ...] = ("gradient-free", "gradient-based")


class Display(NamedTuple):
    """What a reader sees of a method."""

    label: str
    family: Family
    colour: str


STANDARD = "standard"
"""Standard inference: the non-adaptive baseline that every table compares with."""

METHODS: dict[str, Display] = {
    "standard": Display("Standard", "gradient-free", "#767676"),
    "neo": Display("NEO", "gradient-free", "#60c5ff"),
    "lame": Display("LAME", "gradient-free", "#524531"),
    "adabn": Display("AdaBN", "gradient-free", "#0096fb"),
    "tent": Display("Tent", "gradient-based", "#ebb300"),
    "eta": Display("ETA", "gradient-based", "#43904d"),
    "shot_im": Display("SHOT-IM", "gradient-based", "#b06db2"),
    "deyo": Display("DeYO", "gradient-based", "#823c00"),
    "cmf": Display("CMF", "gradient-based", "#3f4aa6"),
    "sar": Display("SAR", "gradient-based", "#b3800a"),
    "spa": Display("SPA", "gradient-based", "#65366a"),
    "zerosiam": Display("ZeroSIAM", "gradient-based", "#40ce9f"),
    "eta_star": Display("ETA*", "gradient-based", "#a5cfab"),
    "shot_im_star": Display("SHOT-IM*", "gradient-based", "#dcbcdd"),
}
"""In the order of the paper's tables. The first twelve colours stay apart for colour-blind readers too."""

HISTORY_FREE = ("standard", "lame", "adabn")
STATELESS = ("standard", "lame")
"""Of the paper's methods: what those of a run are is in its traces, but the authors' logs hold only names."""

_introduced: dict[str, str] = {}
"""Labels of methods that are not the paper's, from the runs that were opened."""
_variants: dict[str, str] = {}
"""Which method stands behind a label of a run's own."""
_families: dict[str, str] = {}
"""What the passes of a run say about the family of a method."""


def introduce(
    labels: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    families: Mapping[str, str] | None = None,
) -> None:
    """Let a user's own methods be shown as their authors call them. The last run to name a method decides.

    `names` says which method is behind each of a run's own: a variant of the paper's is of its family. `families`
    says what the classes of the others declare.
    """
    _introduced.update(labels)
    _variants.update(names or {})
    _families.update(families or {})


def display(method: str) -> Display:
    """Label, family and colour of a method; a user's own method gets the label that its run recorded, else its
    class name, and a colour of its own; in a runtime, a method has a shade of its colour.

    >>> display("shot_im").label
    'SHOT-IM'
    >>> display("my_package.methods:Mine").label
    'Mine'
    >>> display("tent@amp").family
    'gradient-based'
    """
    known = METHODS.get(method)
    if known is not None:
        return known
    label = _introduced.get(method) or method.rsplit(":", 1)[-1]
    return Display(label, _family(method), _spare_colour(method))


def label(method: str) -> str:
    return display(method).label


def family(method: str) -> Family:
    return display(method).family


def colour(method: str) -> str:
    return display(method).colour


def order(method: str) -> tuple[int, str]:
    """A sort key: the paper's order, then everyone else by name."""
    names = list(METHODS)
    return (names.index(method) if method in METHODS else len(names), method)


def _family(method: str) -> Family:
    """That of the method which a run calls `method`, whatever runtime it is in: the part after @."""
    behind = METHODS.get(_variants.get(method, method).partition("@")[0])
    if behind is not None:
        return behind.family
    return next((known for known in _DECLARABLE if known == _families.get(method)), "other")


_RGB = tuple[float, float, float]


def _spare_colour(method: str) -> str:
    """A colour that the name alone decides, so that it is the same in every table, figure and run."""
    name, _, runtime = method.partition("@")
    if name in METHODS:
        red, green, blue = (int(METHODS[name].colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
        colour = (red, green, blue)
    else:
        colour = _colour_of_its_own(name)
    if runtime:
        colour = _shade(colour, runtime)
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
