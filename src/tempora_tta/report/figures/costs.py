"""What adaptation costs, and what it buys: latency bars and accuracy-budget curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tempora_tta import analysis
from tempora_tta._numbers import percent
from tempora_tta.analysis.outcomes import over_shifts
from tempora_tta.analysis.pareto import is_budgeted
from tempora_tta.published.methods import STANDARD
from tempora_tta.report import colours
from tempora_tta.report.figures.style import FAINT, LINE, SOFT, new_figure, short, tell, verdict_note
from tempora_tta.report.frames import offline_batches

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tempora_tta.store import Results


def latency(results: Results) -> Figure | None:
    """Mean time of a batch per method: baseline, intrinsic overhead, extrinsic overhead."""
    batches = offline_batches(results)
    if batches.empty:
        return None
    baseline_ms = float(results.contenders["baseline_ms"].iloc[0])
    rows = analysis.overhead(batches, baseline_ms, results.cards).set_index("method")
    methods = results.cards.in_order(rows.index)
    figure, axes = new_figure(7, 0.9 + 0.3 * len(methods))
    for place, method in enumerate(methods):
        predict, adapt = float(rows["predict_ms"][method]), float(rows["adapt_ms"][method])
        usual, at = min(predict, baseline_ms), 0.0
        for length, colour in (
            (usual, colours.BASELINE),
            (predict - usual, colours.INTRINSIC),
            (adapt, colours.EXTRINSIC),
        ):
            axes.barh(place, length, left=at, height=0.66, color=colour)
            at += length
        axes.text(at, place, f"  {at / baseline_ms:.2f}λ", va="center", fontsize=7.5, color=SOFT)
    axes.axvline(baseline_ms, color=FAINT, ls=(0, (3, 3)), lw=1)
    axes.set_yticks(range(len(methods)), [short(results.cards.label(method)) for method in methods])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0, labelcolor="#1b1d21")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("Mean milliseconds per batch")
    _part_legend(figure)
    verdict_note(figure, results)
    times = ", ".join(
        f"{results.cards.label(name)} {rows['service_ms'][name] / baseline_ms:.2f}" for name in methods
    )
    tell(figure, f"Mean time of a batch in multiples of λ, {baseline_ms:.4g} ms: {times}.")
    return figure


def pareto(results: Results) -> Figure | None:
    """Utility against the overhead spent, budget by budget, over all shifts, with the front nobody beats."""
    cards = results.cards
    rows = over_shifts(results.contenders, cards)
    if not is_budgeted(rows, cards).any() or STANDARD not in set(rows["method"]):
        return None
    curves, front = analysis.budget_curves(rows, cards), analysis.pareto_front(rows, cards)
    figure, axes = new_figure(7, 4.2)
    axes.step(
        front["overhead_ms"] / 1000,
        100 * front["utility"],
        where="post",
        color=FAINT,
        lw=8,
        alpha=0.25,
        zorder=0,
        label="Pareto front",
        solid_capstyle="round",
    )
    for method in cards.in_order(curves["method"]):
        own = curves[curves["method"] == method]
        axes.plot(
            own["overhead_ms"] / 1000,
            100 * own["utility"],
            color=cards.method(method).colour,
            marker="o",
            ms=4,
            label=short(cards.label(method)),
        )
    turn = front[front["diminishing"]]
    if not turn.empty:
        point = turn.iloc[0]
        axes.annotate(
            "returns diminish",
            (point["overhead_ms"] / 1000, 100 * point["utility"]),
            xytext=(8, -14),
            textcoords="offset points",
            fontsize=8,
            color=SOFT,
            bbox={"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 1},
        )
    _overhead_axis(axes, curves["overhead_ms"] / 1000)
    axes.set_ylabel("Utility (%)")
    axes.grid(axis="y", color=LINE, lw=0.6)
    axes.set_axisbelow(True)
    figure.legend(loc="outside right center", labelcolor=SOFT)
    verdict_note(figure, results)
    points = ", ".join(
        f"{cards.label(row['method'])} {percent(row['utility'])} for {row['overhead_ms'] / 1000:.3g} s"
        for _, row in front.iterrows()
    )
    tell(figure, f"Nobody gets more utility for less overhead than: {points}.")
    return figure


def _overhead_axis(axes: Axes, seconds: pd.Series[float]) -> None:
    """Seconds from 0 on: linear, unless they are of several sizes, which only a logarithm tells apart."""
    spent = seconds[seconds > 0]
    if spent.empty or spent.max() < 20 * spent.min():
        axes.set_xlabel("Overhead spent (s), linear")
        return
    # Zero has no logarithm: up to the first power of ten below what was spent the axis is linear.
    first, last = math.floor(math.log10(spent.min())), math.ceil(math.log10(spent.max()))
    between = (1, 2, 5) if last - first <= 2 else (1,)
    ticks = [step * 10**power for power in range(first, last + 1) for step in between]
    axes.set_xscale("symlog", linthresh=10**first, linscale=0.5)
    axes.set_xlim(-0.12 * 10**first, 1.15 * spent.max())
    axes.set_xticks([0, *(tick for tick in ticks if tick <= 1.15 * spent.max())])
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(lambda second, _: f"{second:g}")
    axes.set_xlabel(f"Overhead spent (s), logarithmic from {10**first:g} s on")


def _part_legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    parts = {
        "baseline, up to λ": colours.BASELINE,
        "intrinsic": colours.INTRINSIC,
        "extrinsic": colours.EXTRINSIC,
    }
    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in parts.items()],
        loc="outside upper left",
        ncols=3,
        labelcolor=SOFT,
        handlelength=1,
    )
