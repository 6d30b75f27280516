"""Numbers as people read them: the one way of writing a share and a difference of shares.

The page's scripts write them in the same way (`charts.js`). Sums in another order end in other last digits; these tip
no number over an edge if it is rounded to nine digits first.
"""

from __future__ import annotations


def percent(fraction: float, digits: int = 1, signed: bool = False) -> str:
    """A fraction in percent, with a space before the sign.

    >>> percent(0.545), percent(0.5, 0), percent(0.07, 0, signed=True)
    ('54.5 %', '50 %', '+7 %')
    """
    return f"{_hundredths(fraction):{'+' if signed else ''}.{digits}f} %"


def points(difference: float, signed: bool = False) -> str:
    """A difference of two fractions in percentage points.

    >>> points(0.1605), points(0.352 - 0.1915), points(0.07, signed=True)
    ('16.1 points', '16.1 points', '+7.0 points')
    """
    return f"{_hundredths(difference):{'+' if signed else ''}.1f} points"


def _hundredths(fraction: float) -> float:
    return round(100 * float(fraction), 9) + 0.0  # never minus nothing
