"""The winners grid (paper, figure 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from tempora_tta import analysis
from tempora_tta.analysis.doubt import EQUAL, UNDECIDED, doubt
from tempora_tta.analysis.outcomes import winning_methods
from tempora_tta.cards import Cards
from tempora_tta.report.colours import text_on
from tempora_tta.report.figures.style import SOFT, bare, new_figure, short, tell, verdict_note
from tempora_tta.report.frames import scenario_titles
from tempora_tta.report.tables.parts import shift_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tempora_tta.store import Results

GAP = 0.35
"""Between protocols, in columns."""


def winners(results: Results) -> Figure:
    """The method with the highest utility per shift and scenario, in its colour. `=`: equal with another within half
    a point; hatched: undecided."""
    rows = doubt(results).about(analysis.over_seeds(results.contenders, results.cards))
    best = analysis.winners(rows, results.cards)
    shifts, places = list(best["shift"].unique()), _columns(best)
    width = max(places.values()) + 1
    figure, axes = new_figure(1.7 + 0.62 * width, 1.1 + 0.3 * len(shifts))
    for _, row in best.iterrows():
        _square(axes, row, places[int(row["scenario"])], shifts.index(row["shift"]), results.cards)
    _headings(axes, best, places, scenario_titles(results.contenders), results.cards)
    axes.set_xlim(-0.05, width)
    axes.set_ylim(len(shifts) + 0.02, -0.05)
    bare(axes)
    axes.set_yticks(
        [place + 0.5 for place in range(len(shifts))], [short(shift_title(name)) for name in shifts]
    )
    axes.tick_params(length=0)
    _legend(axes, best, results.cards)
    figure.text(0.005, -0.01, "; ".join(_signs(best)), ha="left", va="top", color=SOFT, fontsize=7)
    verdict_note(figure, results)
    wins = ", ".join(
        f"{results.cards.label(name)} {count}"
        for name, count in analysis.wins_of(best, results.cards).items()
    )
    tell(figure, f"Cells won: {wins}. {doubt(results).summary.sentence()}")
    return figure


def _signs(best: pd.DataFrame) -> list[str]:
    """What hatching and +1 mean, where they are drawn."""
    said = []
    if (best["verdict"] == UNDECIDED).any():
        causes = " or by ".join(sorted({str(why) for why in best.loc[best["verdict"] == UNDECIDED, "why"]}))
        said.append(f"hatched: undecided, by {causes}" if causes else "hatched: undecided")
    if any(len(winning_methods(row)) > 1 for _, row in best.iterrows()):
        said.append("+1: shared with another method")
    return said


def _columns(best: pd.DataFrame) -> dict[int, float]:
    """Where each scenario's column starts; protocols stand apart."""
    first = best.drop_duplicates("scenario")
    places: dict[int, float] = {}
    at, before = 0.0, None
    for number, protocol in zip(first["scenario"], first["protocol"], strict=True):
        at += GAP if before not in (None, protocol) else 0.0
        places[int(number)] = at
        at, before = at + 1, protocol
    return places


def _square(axes: Axes, row: pd.Series[Any], x: float, y: int, cards: Cards) -> None:
    from matplotlib.patches import FancyBboxPatch

    shown = cards.method(row["winner"])
    box = FancyBboxPatch(
        (x + 0.05, y + 0.07),
        0.9,
        0.86,
        boxstyle="round,pad=0,rounding_size=0.09",
        lw=0,
        facecolor=shown.colour,
        **_hatched(row, text_on(shown.colour)),
    )
    axes.add_patch(box)
    sharing = len(winning_methods(row)) - 1
    name = short(shown.label, 9) + (f" +{sharing}" if sharing else " =" if row["verdict"] == EQUAL else "")
    axes.text(
        x + 0.5,
        y + 0.52,
        name,
        ha="center",
        va="center",
        fontsize=6.6,
        color=text_on(shown.colour),
        weight="bold",
    )


def _hatched(row: pd.Series[Any], colour: str) -> dict[str, Any]:
    """How an undecided winner is drawn."""
    if row["verdict"] != UNDECIDED:
        return {}
    from matplotlib.colors import to_rgba

    return {"hatch": "////", "edgecolor": to_rgba(colour, 0.35)}


def _headings(
    axes: Axes, best: pd.DataFrame, places: dict[int, float], titles: dict[int, str], cards: Cards
) -> None:
    first = best.drop_duplicates("scenario")
    ticks = [places[int(number)] + 0.5 for number in first["scenario"]]
    labels = [titles[int(number)] for number in first["scenario"]]
    labels = [label.replace(" of λN", "\nof λN").replace(", queue", "\nqueue") for label in labels]
    axes.set_xticks(ticks, labels, fontsize=7)
    axes.xaxis.tick_top()
    for protocol, part in first.groupby("protocol", sort=False):
        columns = [places[int(number)] for number in part["scenario"]]
        middle = (columns[0] + columns[-1] + 1) / 2
        title = cards.title(str(protocol))
        axes.annotate(
            title,
            (middle, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 27),
            textcoords="offset points",
            ha="center",
            weight="bold",
            fontsize=9,
        )


def _legend(axes: Axes, best: pd.DataFrame, cards: Cards) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(color=cards.method(name).colour, label=f"{short(cards.label(name))} {count}")
        for name, count in analysis.wins_of(best, cards).items()
    ]
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, -0.02), ncols=8, handlelength=1, labelcolor=SOFT
    )
