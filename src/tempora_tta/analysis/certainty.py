"""How sure a winner is, in a sentence that names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from tempora_tta.analysis.doubt import Judgement
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.store.verdicts import EQUAL, UNDECIDED

_MOST_NAMES = 3


def how_sure(judged: Judgement | None, cards: Cards = CATALOGUE, among: str = "") -> str:
    """Empty where nothing is known, or where there is nobody to be ahead of. `among` says who was compared, where
    that is not everybody: `among the 7 with an answer`."""
    if judged is None or len(judged.p_best) < 2:
        return ""
    winner, where = cards.label(judged.method), f" {among}" if among else ""
    if judged.verdict == EQUAL:
        others = named(judged.equal_with, cards, "and")
        return f"{winner} is equal with {others} within half a point{where}."
    if judged.verdict == UNDECIDED:
        others = named(judged.rivals, cards, "or")
        return f"The lead of {winner}{where} is undecided by {judged.why}: {others} may be better."
    return f"The lead of {winner} holds{where}."


def how_sure_along(
    settings: Sequence[tuple[str, Judgement | None]],
    where: Callable[[str, str], str],
    cards: Cards = CATALOGUE,
) -> str:
    """The same for one winner of several settings, (label, judgement) from strict to relaxed: said once where all
    are alike, otherwise for each stretch of them, as `where` calls it by its first and last label."""
    parts = []
    for _, stretch in groupby(settings, key=lambda one: "" if one[1] is None else one[1].verdict):
        members = list(stretch)
        judged = [found for _, found in members if found is not None]
        if judged:
            parts.append((where(members[0][0], members[-1][0]), how_sure(_all_of(judged), cards)))
    said = [(place, text) for place, text in parts if text]
    if len(parts) == 1:
        return "".join(text for _, text in said)
    return " ".join(f"{place}: {text}" for place, text in said)


def _all_of(judged: Sequence[Judgement]) -> Judgement:
    """Judgements of one verdict on one winner as one: with everybody who is equal or may be better somewhere."""
    causes = list(dict.fromkeys(found.why for found in judged if found.why))
    return replace(
        judged[0],
        why=" and by ".join(causes),
        equal_with=tuple(dict.fromkeys(name for found in judged for name in found.equal_with)),
        rivals=tuple(dict.fromkeys(name for found in judged for name in found.rivals)),
    )


def named(methods: Sequence[str], cards: Cards, last: str) -> str:
    """Names in a row; of many the first three.

    >>> named(["adabn", "tent"], CATALOGUE, "or"), named(list("abcde"), CATALOGUE, "and")
    ('AdaBN or Tent', 'a, b, c and others')
    """
    names = [cards.label(method) for method in methods]
    if len(names) > _MOST_NAMES:
        names = [*names[:_MOST_NAMES], "another" if last == "or" else "others"]
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
