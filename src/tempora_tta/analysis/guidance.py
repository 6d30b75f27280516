"""The answer in one sentence: which method to use, and where another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from tempora_tta.analysis.cells import champions
from tempora_tta.analysis.doubt import EQUAL, HOLDS, UNDECIDED, Doubt, Judgement
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.published.methods import order


@dataclass(frozen=True)
class Setting:
    """One scenario over all shifts together: who wins it, and how sure that is."""

    protocol: str
    label: str
    method: str
    judged: Judgement | None

    @property
    def verdict(self) -> str:
        return "" if self.judged is None else self.judged.verdict

    def may_be(self, method: str) -> bool:
        """Whether the method is as good here as far as one can tell."""
        if method == self.method:
            return True
        return self.judged is not None and method in (*self.judged.equal_with, *self.judged.rivals)


@dataclass(frozen=True)
class Guidance:
    """What to use under pressure, from strict to relaxed in every protocol."""

    settings: tuple[Setting, ...]

    @property
    def method(self) -> str:
        """The one method to use if there may be only one: as good as any in most settings."""
        methods = sorted({setting.method for setting in self.settings}, key=order)
        wins = {one: sum(setting.method == one for setting in self.settings) for one in methods}
        return max(methods, key=lambda one: (sum(s.may_be(one) for s in self.settings), wins[one]))

    @property
    def recommended(self) -> frozenset[str]:
        """Everybody whom the sentence names."""
        return frozenset({self.method} | {one.method for one in self.settings if not one.may_be(self.method)})

    def sentence(self, cards: Cards = CATALOGUE) -> str:
        """`Use Tent, unless T up to 2.5λ: AdaBN.` and how sure that is."""
        best = self.method
        parts = []
        for protocol in dict.fromkeys(setting.protocol for setting in self.settings):
            own = [setting for setting in self.settings if setting.protocol == protocol]
            parts += _exceptions(own, best, cards)
        said = f"Use {cards.label(best)}"
        if parts:
            said += f", unless {'; '.join(parts)}"
        elif len(self.settings) > 1 and all(
            one.method == best and one.verdict == HOLDS for one in self.settings
        ):
            return f"{said}: it is best for certain in all {len(self.settings)} settings."
        elif len(self.settings) > 1:
            said += f": no other method is better for certain in any of the {len(self.settings)} settings"
        return f"{said}. {self._how_sure()}".strip()

    def _how_sure(self) -> str:
        known = [setting.verdict for setting in self.settings if setting.verdict]
        if not known:
            return ""
        words = {HOLDS: "hold", EQUAL: "are equal with another", UNDECIDED: "are undecided"}
        one_of = {HOLDS: "holds", EQUAL: "is equal with another", UNDECIDED: "is undecided"}
        if len(set(known)) == 1:
            (verdict,) = set(known)
            if len(known) == 1:
                return f"The winner behind this {one_of[verdict]}."
            return f"All {len(known)} winners behind this {words[verdict]}."
        counts = [(known.count(verdict), verdict) for verdict in words if verdict in known]
        parts = [f"{count} {(one_of if count == 1 else words)[verdict]}" for count, verdict in counts]
        return f"Of the {len(known)} winners behind this {', '.join(parts)}."


def guidance(cells: pd.DataFrame, doubt: Doubt | None = None, cards: Cards = CATALOGUE) -> Guidance | None:
    """What a run recommends over all its shifts together; None where nothing presses, or nobody competes."""
    found = champions(cells, cards)
    found = found[~found["protocol"].isin(cards.references)]
    if found.empty or cells["method"].nunique() < 2:
        return None
    return Guidance(
        tuple(
            Setting(
                str(row["protocol"]),
                str(row["label"]),
                str(row["winner"]),
                None if doubt is None else doubt.judgement(row),
            )
            for _, row in found.iterrows()
        )
    )


def _exceptions(settings: Sequence[Setting], best: str, cards: Cards) -> list[str]:
    """Where another method is to be used, one stretch of neighbouring settings after the other."""
    said = []
    stretches = [
        (method, list(part))
        for method, part in groupby(settings, key=lambda one: best if one.may_be(best) else one.method)
    ]
    for place, (method, part) in enumerate(stretches):
        if method == best:
            continue
        first, last = part[0].label, part[-1].label
        if len(stretches) == 1:
            where = f"{cards.title(part[0].protocol).lower()}, everywhere"
        elif place == 0:
            where = f"{last} or stricter" if len(part) > 1 else last
        elif place == len(stretches) - 1:
            where = f"{first} or more relaxed" if len(part) > 1 else first
        else:
            where = first if len(part) == 1 else f"{first} to {last}"
        said.append(f"{where} ({cards.label(method)})")
    return said
