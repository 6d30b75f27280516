"""How sure a winner is, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from tempora.analysis.doubt import Judgement
from tempora.cards import CATALOGUE, Cards
from tempora.store.verdicts import EQUAL, UNDECIDED

_MOST_NAMES = 3


def how_sure(judged: Judgement | None, cards: Cards = CATALOGUE) -> str:
    """Empty where nothing is known, or where there is nobody to be ahead of."""
    if judged is None or len(judged.p_best) < 2:
        return ""
    if judged.verdict == EQUAL:
        return f"Equal with {named(judged.equal_with, cards, 'and')} within half a point."
    if judged.verdict == UNDECIDED:
        return f"Undecided by {judged.why}: {named(judged.rivals, cards, 'or')} may be better."
    return "The lead holds."


def named(methods: Sequence[str], cards: Cards, last: str) -> str:
    """Names in a row; of many the first three.

    >>> named(["adabn", "tent"], CATALOGUE, "or"), named(list("abcde"), CATALOGUE, "and")
    ('AdaBN or Tent', 'a, b, c and others')
    """
    names = [cards.label(method) for method in methods]
    if len(names) > _MOST_NAMES:
        names = [*names[:_MOST_NAMES], "another" if last == "or" else "others"]
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
