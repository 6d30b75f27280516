"""Numbers as people read them: the one way of writing a share."""

from __future__ import annotations


def percent(fraction: float, digits: int = 1, signed: bool = False) -> str:
    """A fraction in percent, with a space before the sign.

    >>> percent(0.545), percent(0.5, 0), percent(0.07, 0, signed=True)
    ('54.5 %', '50 %', '+7 %')
    """
    return f"{fraction:{'+' if signed else ''}.{digits}%}".replace("%", " %")
