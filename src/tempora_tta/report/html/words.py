"""The answer in words: who should use what and why, and what went wrong with the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import pandas as pd

from tempora_tta import analysis
from tempora_tta._numbers import percent, points
from tempora_tta.analysis.answer import certainty
from tempora_tta.analysis.cells import over_all
from tempora_tta.analysis.doubt import Doubt
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios.diagnosis import DURABLE_GAIN, Finding
from tempora_tta.store import Results
from tempora_tta.store.verdicts import ON_WINNERS
from tempora_tta.words import shift_title


@dataclass(frozen=True)
class Choice:
    """One method to use, over a stretch of neighbouring scenarios."""

    method: str
    where: str
    sentence: str
    verdict: str = ""
    certainty: str = ""
    """How sure that is, in a sentence."""


@dataclass(frozen=True)
class Advice:
    """What to use in one kind of deployment, from strict to relaxed."""

    protocol: str
    situation: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Trouble:
    """What went wrong with a method under pressure."""

    method: str
    below: int
    cells: int
    wins: int = 0
    mode: str = ""
    sentence: str = ""
    where: str = ""
    cell: tuple[str, int, str] | None = None
    """(shift, scenario, method) of the worst case, to link to."""
    causes: tuple[Finding, ...] = ()
    """What was behind it, as far as the run shows."""
    not_scored: dict[str, int] = field(default_factory=dict)
    """Reason -> how many cells have no number because of it."""


def advice(cells: pd.DataFrame, doubt: Doubt, cards: Cards = CATALOGUE) -> list[Advice]:
    """For each protocol, who wins over all shifts together and why."""
    rows = over_all(cells)
    best_offline = analysis.offline_champion(cells)
    found = []
    for protocol in cards.in_protocol_order(rows["protocol"]):
        if protocol not in cards.references:
            choices = _choices(rows[rows["protocol"] == protocol], best_offline, doubt, cards)
            found.append(Advice(protocol, cards.scenario(protocol).situation, tuple(choices)))
    return found


def troubles(
    results: Results,
    cells: pd.DataFrame,
    without: Collection[str] = (),
    causes: Mapping[str, Sequence[Finding]] | None = None,
) -> list[Trouble]:
    """Each adapting method's losses against standard inference, with the worst of them explained; `without` those
    that are recommended. `causes` are what was found behind them (`analysis.diagnoses`)."""
    found = [
        replace(one, causes=tuple((causes or {}).get(one.method, ())))
        for one in _troubles(results, cells, without)
    ]
    return [one for one in found if one.mode or one.causes or one.not_scored]


def _troubles(results: Results, cells: pd.DataFrame, without: Collection[str]) -> list[Trouble]:
    utilities, cards = results.contenders, results.cards
    counting = cells[cells["counts"]]
    methods = [name for name in cards.in_order(utilities["method"]) if name not in (STANDARD, *without)]
    wins = analysis.wins_of(analysis.winners(cells, cards), cards)
    if counting.loc[~counting["reference"], "standard_utility"].isna().all():
        return [
            Trouble(name, 0, 0, wins.get(name, 0), not_scored=_not_scored(utilities, name))
            for name in methods
        ]
    beside = analysis.beside_standard(counting)
    losing = analysis.findings(counting, cards)
    losing = losing[(losing["utility"] < losing["standard_utility"]) & (losing["mode"] != DURABLE_GAIN)]
    losing = losing.assign(gap=losing["standard_utility"] - losing["utility"])
    return [_trouble(name, utilities, beside, losing, wins.get(name, 0)) for name in methods]


def _trouble(
    name: str, utilities: pd.DataFrame, beside: pd.DataFrame, losing: pd.DataFrame, wins: int
) -> Trouble:
    own = beside[beside["method"] == name]
    below, cells = int((own["utility"] < own["standard_utility"]).sum()), len(own)
    reasons = _not_scored(utilities, name)
    bad = losing[losing["method"] == name]
    if bad.empty:
        return Trouble(name, below, cells, wins, not_scored=reasons)
    mode = str(bad["mode"].value_counts().index[0])
    worst = bad[bad["mode"] == mode].sort_values("gap").iloc[-1]
    return Trouble(
        name,
        below,
        cells,
        wins,
        mode=mode,
        sentence=str(worst["sentence"]),
        where=f"{shift_title(str(worst['shift']))}, {worst['label']}",
        cell=(str(worst["shift"]), int(worst["scenario"]), name),
        not_scored=reasons,
    )


def _not_scored(utilities: pd.DataFrame, name: str) -> dict[str, int]:
    rows = utilities[(utilities["method"] == name) & (utilities["status"] != "ok")]
    return {str(reason): int(count) for reason, count in rows["status"].value_counts().items()}


def _choices(part: pd.DataFrame, best_offline: str | None, doubt: Doubt, cards: Cards) -> list[Choice]:
    """Neighbouring scenarios with the same winner are one choice: its numbers are those of the strictest; how sure it
    is may change on the way."""
    best = [_best(rows) for _, rows in part.groupby("scenario", sort=False)]
    choices = []
    for method, stretch in groupby(best, key=lambda winner: winner[0]):
        stretches = [rows for _, rows in stretch]
        first, last = stretches[0], stretches[-1]
        strictest, most_relaxed = (str(rows.iloc[0]["label"]) for rows in (first, last))
        judged = [(str(rows.iloc[0]["label"]), doubt.judgement(rows.iloc[0])) for rows in stretches]
        verdicts = [found.verdict for _, found in judged if found is not None]
        choices.append(
            Choice(
                method,
                _stretch(strictest, most_relaxed),
                _sentence(method, first, best_offline, cards, strictest if len(stretches) > 1 else ""),
                max(verdicts, key=ON_WINNERS.index, default=""),
                " ".join(dict.fromkeys(filter(None, (certainty(found, cards) for _, found in judged)))),
            )
        )
    return choices


def _stretch(first: str, last: str) -> str:
    """From one scenario to another, what their names share said once.

    >>> _stretch("ρ 100 %", "ρ 50 %"), _stretch("T 5λ", "T 5λ")
    ('ρ 100 % to 50 %', 'T 5λ')
    >>> _stretch("B 3.12 % of λN", "B 25 % of λN")
    'B 3.12 % to 25 % of λN'
    """
    if first == last:
        return first
    symbol, _, rest = last.partition(" ")
    return f"{first.removesuffix(' of λN')} to {rest if first.startswith(f'{symbol} ') else last}"


def _best(rows: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """The winner of a scenario, and its rows."""
    return str(rows.loc[rows["rank"] == 1, "method"].iloc[0]), rows


def _sentence(
    method: str, rows: pd.DataFrame, best_offline: str | None, cards: Cards, where: str = ""
) -> str:
    """Utility, gain over standard inference, and the term that made the difference, at the strictest point: `where`
    that is, if there are others."""
    by_method = {str(row["method"]): row for _, row in rows.iterrows()}
    own = by_method[method]
    text = f"{percent(own['utility'])}{where and f' at {where}'}"
    if method == STANDARD:
        text += ", and no adaptation pays"
    elif STANDARD in by_method:
        text += f", {points(own['utility'] - by_method[STANDARD]['utility'])} above standard inference"
    if best_offline is None or best_offline not in by_method:
        return f"{text}."
    if best_offline == method:
        return f"{text}. It is also the most accurate offline, and {_pace(own, cards)}."
    other = _pace(by_method[best_offline], cards)
    return f"{text}. It {_pace(own, cards)}; {cards.label(best_offline)}, the most accurate offline, {other}."


def _pace(row: pd.Series[Any], cards: Cards) -> str:
    """What the deployment left of a method's accuracy, or of its adapting."""
    terms = {str(name): value for name, value in row.items()}
    return cards.scenario(str(row["protocol"])).short_sentence(terms)
