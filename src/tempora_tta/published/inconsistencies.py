"""Places where the paper contradicts itself: its printed numbers, its equations, its text.

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
    """The name for `published.table`; empty: it is about a sentence or an equation."""
    columns: tuple[str, ...]
    """The columns of that table that hold the doubtful numbers."""
    selectors: tuple[Selector, ...]
    what: str
    expected: str
    """Expected value, by the paper's own equations or other tables."""
    misprint: bool
    """True: these numbers are doubtful. False: they stand, but follow another rule than the printed one."""
    where: str = ""
    """Sections and labels of what is no table of ours."""

    @property
    def kind(self) -> str:
        """Tell misprints, other rules, and text."""
        return "text" if not self.table else "misprint" if self.misprint else "rule"

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
        expected=(
            "m = max{j : sum <= B}, one batch earlier; compare with rule='overshoot'; on the ViT, see 15"
        ),
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
    Inconsistency(
        number=8,
        table="",
        where="appendices C.2 and C.3, table:temporal-factors, table:amortised-1-gb",
        columns=(),
        selectors=({"setup": ("rn50_inc",)},),
        what='methods other than SHOT-IM "freeze after 7 to 18 batches", over 97 % of the stream frozen',
        expected=(
            "DeYO adapts on 53 on average (6.7 %): by its terms about 325 on motion blur, 204 on zoom"
            " blur, 67 on JPEG; CMF 60 on brightness"
        ),
        misprint=False,
    ),
    Inconsistency(
        number=9,
        table="",
        where="appendices C.5 and C.6, table:vit-amortised-2500-gb",
        columns=(),
        selectors=({"setup": ("vit_inc",)},),
        what=(
            'budgets are exhausted within "6 to 23 batches" in the text, "6 to 68" in the caption, '
            "over 91 % frozen"
        ),
        expected="ETA on fog implies 71; after 23 batches 97 % would be frozen, not 91",
        misprint=False,
    ),
    Inconsistency(
        number=10,
        table="",
        where="appendices C.2 and C.5, table:vit-temporal-factors",
        columns=(),
        selectors=({"setup": ("rn50_inc", "vit_inc")},),
        what='availability and responsiveness are "nearly constant" over corruptions but for LAME',
        expected=(
            "on the ViT ETA's availability is 50 % on average, 49 on fog and 100 on contrast; DeYO's 32 to 53"
        ),
        misprint=False,
    ),
    Inconsistency(
        number=11,
        table="",
        where="section 3.3, table:notation",
        columns=(),
        selectors=({"setup": ("rn50_inc", "vit_inc")},),
        what="c_i = service - lambda, which is negative for a fast batch",
        expected=(
            "costs clipped at 0, as both codes charge them: services 100, 30, 100 at lambda 40 and B "
            "110 give m = 2 (signed: 3)"
        ),
        misprint=False,
    ),
    Inconsistency(
        number=12,
        table="",
        where="section 3.1",
        columns=(),
        selectors=({"setup": ("rn50_inc", "vit_inc")},),
        what='"+2" in place of "+1" recovers the protocol of Alfarra et al.',
        expected=(
            "not where a batch completes at an arrival: ceil(f / interval) + 1 does; every 40 ms and "
            "80 ms a batch serve 1, 3, 5, not 1, 4, 7"
        ),
        misprint=False,
    ),
    Inconsistency(
        number=13,
        table="",
        where="appendices C.1 and C.4",
        columns=(),
        selectors=({"setup": ("rn50_inc", "vit_inc")},),
        what='SHOT-IM updates "the entire feature extractor"; NEO is "a gradient-based method"',
        expected="on the ViT the published code left out all MLPs (params: published); NEO has no gradient",
        misprint=False,
    ),
    Inconsistency(
        number=14,
        table="",
        where="sections 4.1 and 5, appendices C.3, C.4 and C.6",
        columns=(),
        selectors=({"setup": ("rn50_inc", "vit_inc")},),
        what=(
            'B is "3 % to 105 %" of plain inference; r "0.98 at B of 40 s or more"; ETA wins "29.7 '
            '%"; NEO\'s "majority"; "alignment near unity"; one caption counts 16 scenarios; the '
            "ResNet text cites the ViT's table of winners; a label stands twice"
        ),
        expected=(
            "32 / 31.16 = 102.7 %; 0.95; 67 / 225 = 29.8 %; 36 %; covariance near 0; 15 and offline; "
            "table:winners-resnet50; fig:tempora-results"
        ),
        misprint=False,
    ),
    Inconsistency(
        number=15,
        table="",
        where="table:vit-temporal-factors",
        columns=(),
        selectors=({"setup": ("vit_inc",)},),
        what=(
            "m follows neither rule from the printed means: 19, 16, 9, 11 (Tent, SHOT-IM, CMF, "
            "ZeroSIAM), but SAR 7 and SPA 6"
        ),
        expected=(
            "overshoot gives 20, 17, 10, 12, 7, 6: the first batches must have been a few per cent "
            "slower than the mean"
        ),
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
