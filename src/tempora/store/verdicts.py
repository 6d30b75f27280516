"""The words of two judgements, as files hold them: on the timing of a measurement, and on the winner of a cell."""

from __future__ import annotations

from collections.abc import Iterable

VERDICTS = VALID, WARN, INVALID = "VALID", "WARN", "INVALID"
"""On timing, from the best to the worst."""
ON_WINNERS = HOLDS, EQUAL, UNDECIDED = "holds", "equal", "undecided"
"""On the winner of a cell: ahead of all rivals, equal with some, or neither can be said."""


def worst(verdicts: Iterable[str]) -> str:
    """
    >>> worst(["VALID", "INVALID", "WARN"])
    'INVALID'
    """
    return max(verdicts, key=VERDICTS.index, default=VALID)
