"""The grades of a verdict on timing, as files hold them."""

from __future__ import annotations

from collections.abc import Iterable

VERDICTS = VALID, WARN, INVALID = "VALID", "WARN", "INVALID"
"""From the best to the worst."""


def worst(verdicts: Iterable[str]) -> str:
    """
    >>> worst(["VALID", "INVALID", "WARN"])
    'INVALID'
    """
    return max(verdicts, key=VERDICTS.index, default=VALID)
