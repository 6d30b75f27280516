"""Results in a notebook: the answer, how sure it is, and who wins where, as a few lines of HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pandas as pd

from tempora_tta._numbers import percent
from tempora_tta.analysis.cells import by_shift, shift_words, winners
from tempora_tta.analysis.doubt import UNDECIDED, doubt
from tempora_tta.analysis.guidance import guidance
from tempora_tta.analysis.headline import headline
from tempora_tta.analysis.notes import notes
from tempora_tta.analysis.of_run import cells_of
from tempora_tta.errors import TemporaError, counted
from tempora_tta.report.colours import text_on
from tempora_tta.report.frames import scenario_titles
from tempora_tta.report.table import shift_title, won_by
from tempora_tta.store import Results

_UNSURE = "repeating-linear-gradient(45deg, #fff6 0 3px, transparent 3px 8px)"
"""Hatching over the colour of a winner that may be another."""


def summary(results: Results) -> str:
    """What was run, in a line: `3 shifts, 10 methods, 17 scenarios; clock steady; in runs/mine`."""
    rows = results.contenders
    sizes = [shift_words(rows["shift"])]
    sizes += [counted(rows[name].nunique(), name) for name in ("method", "scenario")]
    seeds = rows["seed"].nunique()
    many = [f"{seeds} seeds"] if seeds > 1 else []
    return f"{', '.join([*sizes, *many])}; clock {results.manifest['clock']}; in {results.path}"


def answer(results: Results) -> list[str]:
    """What to use and the headline, where the run has them, the notes on the run, and how many winners hold."""
    found, cards = doubt(results), results.cards
    guide = guidance(cells_of(results), found, cards)
    said = [] if guide is None else [guide.sentence(cards)]
    with suppress(TemporaError):  # a run without Standard, without offline or without pressure has none
        said.append(headline(cells_of(results), cards).sentence(cards))
    return [*said, *(f"{note}." for note in notes(results)), found.summary.sentence()]


def to_html(results: Results) -> str:
    """The answer and the winners grid."""
    first, *others = answer(results)
    lines = [f"<p><b>{html.escape(first)}</b></p>", *(f"<p>{html.escape(line)}</p>" for line in others)]
    won = winners(by_shift(cells_of(results)), results.cards)
    grid = _grid(results, won) if len(won) else ""
    facts = f'<p style="opacity:.7">{html.escape(summary(results))}</p>'
    return f'<div class="tempora">{"".join(lines)}{grid}{facts}</div>'


def _grid(results: Results, won: pd.DataFrame) -> str:
    titles = scenario_titles(results.contenders)
    numbers = [number for number in titles if number in set(won["scenario"].astype(int))]
    squares = {(row["shift"], int(row["scenario"])): row for _, row in won.iterrows()}
    heads = "".join(f"<th>{html.escape(titles[number])}</th>" for number in numbers)
    body = "".join(
        f"<tr><th>{html.escape(shift_title(shift))}</th>"
        + "".join(_square(results, squares.get((shift, number))) for number in numbers)
        + "</tr>"
        for shift in dict.fromkeys(won["shift"])
    )
    unsure = " Hatched: undecided." if (won["verdict"] == UNDECIDED).any() else ""
    return (
        '<div style="overflow-x:auto"><table>'
        f"<caption>The winner of each cell and its utility in %.{unsure}</caption>"
        f"<thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _square(results: Results, won: Mapping[str, Any] | pd.Series[Any] | None) -> str:
    if won is None:
        return "<td></td>"
    colour = results.cards.method(str(won["winner"])).colour
    style = f"background-color:{colour};color:{text_on(colour)}"
    if won["verdict"] == UNDECIDED:
        style += f";background-image:{_UNSURE}"
    text = f"{won_by(won, results.cards)} {percent(won['utility']).removesuffix(' %')}"
    return f'<td style="{html.escape(style)}">{html.escape(text)}</td>'
