"""Performance profiles: in how many cells a method is how close to the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempora_tta import analysis
from tempora_tta.report.figures.style import LINE, SOFT, new_figure, short, tell, verdict_note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tempora_tta.store import Results

MOST_POINTS = 20.0


def profiles(results: Results) -> Figure | None:
    """The share of the cells under pressure in which each method is within so many points of the best."""
    cards = results.cards
    if analysis.temporal(results.contenders, cards)["method"].nunique() < 2:
        return None
    rows = analysis.performance_profile(results.contenders, cards)
    regrets = analysis.regret(results.contenders, cards).set_index("method")["mean_regret"]
    figure, axes = new_figure(7, 3.8)
    for method in cards.in_order(rows["method"]):
        own = rows[(rows["method"] == method) & (rows["points"] <= MOST_POINTS)]
        axes.step(
            [*own["points"], MOST_POINTS],
            [*(100 * own["share"]), 100 * own["share"].iloc[-1]],
            where="post",
            color=cards.method(method).colour,
            label=f"{short(cards.label(method))}, regret {100 * regrets[method]:.1f}",
        )
    axes.set_xlim(0, MOST_POINTS)
    axes.set_ylim(0, 101)
    axes.set_xlabel("Points behind the best method of the cell")
    axes.set_ylabel("Cells under pressure (%)")
    axes.grid(axis="y", color=LINE, lw=0.6)
    axes.set_axisbelow(True)
    figure.legend(loc="outside right center", labelcolor=SOFT)
    verdict_note(figure, results)
    means = ", ".join(
        f"{cards.label(str(name))} {100 * mean:.1f}" for name, mean in regrets.sort_values().items()
    )
    tell(figure, f"Mean points behind the best of each cell under pressure: {means}.")
    return figure
