"""The seven places where the paper's printed numbers contradict each other or its equations.

The tables keep every value as printed. This list says which cells not to trust, so that a comparison can mark
them instead of reporting our difference as an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from tempora_tta.published.reading import table
from tempora_tta.published.setups import setup, setups

Selector = Mapping[str, tuple[str | float, ...]]
"""Column -> allowed values: the rows of a published table for which all columns match."""


@dataclass(frozen=True)
class Inconsistency:
    """One contradiction in the paper: what it is and the printed cells it touches."""

    number: int
    table: str
    """The name for `published.table`."""
    columns: tuple[str, ...]
    """The columns of that table that hold the doubtful numbers."""
    selectors: tuple[Selector, ...]
    what: str
    expected: str
    """Expected value, by the paper's own equations or other tables."""
    misprint: bool
    """True: these numbers are doubtful. False: they stand, but follow another rule than the printed one."""

    @property
    def setups(self) -> tuple[str, ...]:
        """Setups with a touched cell, in the order of `published.setups()`."""
        named = {str(name) for selector in self.selectors for name in selector["setup"]}
        return tuple(name for name in setups() if name in named)

    def touches(self, rows: pd.DataFrame) -> pd.Series[bool]:
        """Tell which rows of `published.table(self.table)`, or of a frame with its key columns, are concerned."""
        touched = pd.Series(False, index=rows.index)
        for selector in self.selectors:
            hit = pd.Series(True, index=rows.index)
            for column, allowed in selector.items():
                hit &= rows[column].isin(list(allowed))
            touched |= hit
        return touched

    def cells(self) -> pd.DataFrame:
        """Return the touched rows of the published table."""
        rows = table(self.table)
        return rows[self.touches(rows)].reset_index(drop=True)


_GRADIENT_RN50 = ("tent", "eta", "shot_im", "deyo", "cmf", "sar")
_EXHAUSTING = (*_GRADIENT_RN50, "spa", "zerosiam")

_ALL = (
    Inconsistency(
        number=1,
        table="utility_sweeps",
        columns=("utility",),
        selectors=(
            {
                "setup": ("vit_inv2",),
                "protocol": ("amortised",),
                "method": ("tent", "eta"),
                "value": (40000.0, 80000.0),
            },
            {
                "setup": ("vit_inv2",),
                "protocol": ("amortised",),
                "method": ("shot_im", "deyo", "zerosiam"),
                "value": (80000.0,),
            },
        ),
        what="repeats the value of B = 2.5 s",
        expected="the budget is not exhausted there, so offline accuracy",
        misprint=True,
    ),
    Inconsistency(
        number=2,
        table="decomposition",
        columns=("adapted_fraction",),
        selectors=(
            {"setup": ("rn18_c10c_rtx4080",), "protocol": ("amortised",), "method": ("lame",)},
            {"setup": ("rn50_inr",), "protocol": ("amortised",), "method": ("adabn",)},
        ),
        what="adapted fraction is printed as 100.0 %",
        expected="from the utility follow about 37 % (LAME on CIFAR-10-C) and 86 % (AdaBN on ImageNet-R)",
        misprint=True,
    ),
    Inconsistency(
        number=3,
        table="decomposition",
        columns=("covariance",),
        selectors=(
            {"setup": ("rn50_inc",), "protocol": ("continuous",), "shift": ("all",), "method": ("lame",)},
            {"setup": ("vit_inc",), "protocol": ("continuous",), "shift": ("all",), "method": ("deyo",)},
        ),
        what="accuracy * responsiveness + covariance misses the utility (LAME by 0.30 points, DeYO by 0.85)",
        expected="covariance between corruptions as well, which the printed average leaves out",
        misprint=True,
    ),
    Inconsistency(
        number=4,
        table="utility_sweeps",
        columns=("utility",),
        selectors=(
            {
                "setup": ("rn18_c10c_rtx4080",),
                "protocol": ("discrete",),
                "label": ("ρ 25 %",),
                "method": ("shot_im", "eta"),
            },
        ),
        what="differs from the offline accuracy that the paper calls hardware-invariant",
        expected="65.4 % (SHOT-IM, printed 64.27) and 79.7 % (ETA, printed 79.80)",
        misprint=True,
    ),
    Inconsistency(
        number=5,
        table="decomposition",
        columns=("adapted_fraction",),
        selectors=({"setup": setups(), "protocol": ("amortised",), "method": _EXHAUSTING},),
        what='the cut-off follows "adapt while the running sum is still below B": the crossing batch adapts',
        expected="m = max{j : sum <= B}, one batch earlier; compare with rule='overshoot'",
        misprint=False,
    ),
    Inconsistency(
        number=6,
        table="decomposition",
        columns=("served_batches", "availability"),
        selectors=({"setup": setups(), "protocol": ("discrete",), "method": _EXHAUSTING},),
        what="counts the last arrival, served from the buffer after the stream has ended",
        expected="the printed recurrence stops one batch earlier",
        misprint=False,
    ),
    Inconsistency(
        number=7,
        table="utility_sweeps",
        columns=("utility",),
        selectors=(
            {
                "setup": ("rn50_inv2",),
                "protocol": ("amortised",),
                "value": (2000.0, 4000.0, 8000.0, 16000.0, 32000.0),
            },
        ),
        what="bold and underline ignore Standard, LAME, AdaBN and NEO from B = 2 s on",
        expected="the numbers decide: NEO wins B = 16 and 32 s with 63.21 %",
        misprint=False,
    ),
)


def known_inconsistencies(setup_name: str | None = None) -> list[Inconsistency]:
    """Return the known contradictions, all of them or those that touch one setup.

    >>> [found.number for found in known_inconsistencies("vit_inv2")]
    [1, 5, 6]
    """
    if setup_name is None:
        return list(_ALL)
    setup(setup_name)
    return [found for found in _ALL if setup_name in found.setups]
