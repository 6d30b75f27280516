"""Colours that figures and the report share: parts of a timeline, and method colours on dark paper.

Methods have one colour everywhere (`tempora_tta.published.methods`). On a dark page some of them would vanish; these
are mixed with white until they stand out, which keeps their hue.
"""

from __future__ import annotations

PARTS = {
    "baseline": "#b9bcc2",
    "intrinsic": "#3d9b70",
    "extrinsic": "#8a63b0",
    "idle": "#f2c53d",
    "frozen": "#8fb8de",
    "fallback": "#e08a5b",
    "skipped": "#c8404f",
}
"""Parts of a timeline."""

DARK_PAPER = "#15171b"
_ENOUGH = 3.6
"""Contrast with the paper at which a line or a letter of a large label is easy to see (WCAG asks for 3)."""


def on_dark(colour: str) -> str:
    """Return the colour as it is shown on dark paper.

    >>> on_dark("#60c5ff")
    '#60c5ff'
    >>> contrast(on_dark("#3f4aa6"), DARK_PAPER) >= 3
    True
    """
    lighter = (_mixed(colour, white / 100) for white in range(0, 101, 4))
    return next(mixed for mixed in lighter if contrast(mixed, DARK_PAPER) >= _ENOUGH)


def text_on(colour: str) -> str:
    """Return black or white, the one that is easier to read on the colour: its contrast is at least 4.5."""
    return "#ffffff" if contrast(colour, "#ffffff") >= contrast(colour, "#000000") else "#000000"


def shades(colour: str) -> dict[str, str]:
    """Return a method's colour on light and dark paper, and the colour of text on each."""
    dark = on_dark(colour)
    return {"colour": colour, "dark": dark, "text": text_on(colour), "dark_text": text_on(dark)}


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours as WCAG defines it: 1 (equal) to 21 (black and white).

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def _channels(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]


def _mixed(colour: str, white: float) -> str:
    return "#" + "".join(f"{round(channel + (255 - channel) * white):02x}" for channel in _channels(colour))


def _luminance(colour: str) -> float:
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (channel / 255 for channel in _channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
