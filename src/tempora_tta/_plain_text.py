"""Names are text, wherever they come from: nothing in one steers a terminal or starts a formula in a spreadsheet."""

from __future__ import annotations

import re
from typing import TypeVar

_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters except line feed and tab, and those that change the direction of text."""
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)

Value = TypeVar("Value")


def visible(text: str) -> str:
    r"""Text with its control characters written out, as JSON writes them.

    >>> visible("tent\x1b[2J")
    'tent\\u001b[2J'
    """
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def no_formula(value: Value) -> Value | str:
    """A value for a CSV file: text that a spreadsheet would take for a formula gets an apostrophe; numbers stay.

    >>> no_formula("=1+1"), no_formula("-0.5"), no_formula(-0.5), no_formula("tent")
    ("'=1+1", '-0.5', -0.5, 'tent')
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
