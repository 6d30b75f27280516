"""Utility against pressure (paper, figures 3 and 5)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tempora_tta.analysis import guidance, headline
from tempora_tta.analysis.doubt import doubt
from tempora_tta.analysis.outcomes import over_seeds
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError
from tempora_tta.names import CORRUPTION_GROUPS
from tempora_tta.published.methods import STANDARD
from tempora_tta.report.figures.style import BELOW, BEST, LINE, SOFT, new_figure, short, tell, verdict_note
from tempora_tta.report.tables.parts import shift_title
from tempora_tta.scenarios import ScenarioCard

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tempora_tta.store import Results

COLUMNS = 4


def utility(results: Results) -> Figure | None:
    """One row per protocol, one column per shift: the best leads in green, below standard inference is grey."""
    cards = results.cards
    rows = doubt(results).about(over_seeds(results.contenders, cards))
    varied = [name for name in rows["protocol"].unique() if cards.scenario(name).parameter]
    rows = rows[rows["protocol"].isin(varied)]
    rows = rows[rows["queue"] == rows.groupby("protocol")["queue"].transform("max")]
    if rows.empty:
        return None
    protocols = cards.in_protocol_order(rows["protocol"])
    shifts = chosen_shifts(list(rows["shift"].unique()))
    figure, panels = new_figure(
        2.2 + 2.3 * len(shifts),
        0.9 + 2.1 * len(protocols),
        nrows=len(protocols),
        ncols=len(shifts),
        squeeze=False,
    )
    for protocol, line in zip(protocols, panels, strict=True):
        for shift, axes in zip(shifts, line, strict=True):
            _panel(axes, rows[(rows["protocol"] == protocol) & (rows["shift"] == shift)], cards)
        line[0].set_ylabel(f"{cards.title(protocol)}\nutility (%)")
        labels = rows.loc[rows["protocol"] == protocol, "label"]
        for axes in line:
            axes.set_xlabel(_axis_title(cards.scenario(protocol), str(labels.iloc[0])))
    for shift, axes in zip(shifts, panels[0], strict=True):
        axes.set_title(short(shift_title(shift), 22))
    _legend(figure, list(rows["method"].unique()), cards)
    verdict_note(figure, results)
    tell(figure, _finding(results))
    return figure


def _finding(results: Results) -> str:
    """Who leads where, and what the offline winner loses."""
    answer = guidance(results.contenders, doubt(results), results.cards)
    said = [] if answer is None else [answer.sentence(results.cards)]
    with suppress(TemporaError):  # a run of one protocol has nothing to set beside it
        said.append(headline(results.contenders, results.cards).sentence(results.cards))
    return " ".join(said)


def chosen_shifts(shifts: list[str]) -> list[str]:
    """One of each kind of corruption as in the paper, or simply the first few."""
    if len(shifts) <= COLUMNS:
        return shifts
    kinds = [[name for name in group if name in shifts] for group in CORRUPTION_GROUPS.values()]
    one_each = [kind[-1] for kind in kinds if kind]
    return one_each if len(one_each) == COLUMNS else shifts[:COLUMNS]


def _panel(axes: Axes, rows: pd.DataFrame, cards: Cards) -> None:
    wide = 100 * rows.pivot_table(index="scenario", columns="method", values="utility", sort=False)
    labels = rows.drop_duplicates("scenario").set_index("scenario")["label"]
    x = np.arange(len(wide))
    _regions(axes, x, wide)
    lowest, highest = (
        100 * rows.pivot_table(index="scenario", columns="method", values=name, sort=False, dropna=False)
        for name in ("sample_lo", "sample_hi")
    )
    for method in cards.in_order(wide.columns):
        _curve(axes, x, wide[method], method, cards)
        lo, hi = (end[method].reindex(wide.index) for end in (lowest, highest))
        _intervals(axes, x, lo, hi, cards.method(method).colour)
    for place, leader in enumerate(wide.idxmax(axis=1)):
        ring = cards.method(str(leader)).colour
        axes.plot(place, wide.iloc[place].max(), "o", ms=8.5, mfc="none", mec=ring, mew=1.3, zorder=5)
    axes.set_xticks(x, [_tick(str(labels[number])) for number in wide.index])
    axes.set_xlim(-0.2, len(wide) - 0.8)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=LINE, lw=0.6)
    axes.set_axisbelow(True)


def _regions(axes: Axes, x: np.ndarray[Any, Any], wide: pd.DataFrame) -> None:
    ordered = np.sort(np.nan_to_num(wide.to_numpy()), axis=1)
    standard = np.nan_to_num(wide[STANDARD].to_numpy()) if STANDARD in wide else np.zeros(len(x))
    axes.fill_between(x, 0, standard, color=BELOW, lw=0, zorder=0.4)
    if wide.shape[1] > 1:
        axes.fill_between(
            x, np.maximum(ordered[:, -2], standard), ordered[:, -1], color=BEST, lw=0, zorder=0.4
        )


def _curve(
    axes: Axes, x: np.ndarray[Any, Any], utilities: pd.Series[float], method: str, cards: Cards
) -> None:
    shown = cards.method(method)
    dashed = (0, (4, 2.5)) if method == STANDARD else "-"
    marker = "s" if shown.family == "gradient-free" else "o"
    axes.plot(x, utilities, color=shown.colour, ls=dashed, marker=marker, ms=3, lw=1.4)


def _intervals(
    axes: Axes, x: np.ndarray[Any, Any], lo: pd.Series[float], hi: pd.Series[float], colour: str
) -> None:
    """95 %, over other batches."""
    axes.vlines(x, lo, hi, color=colour, lw=0.9, alpha=0.8, zorder=2.5)


def _axis_title(card: ScenarioCard, label: str) -> str:
    """The knob without its unit, which the ticks have; in which symbol, where that is not its own.

    >>> from tempora_tta.cards import OURS
    >>> _axis_title(OURS["discrete"], "ρ 50 %"), _axis_title(OURS["continuous"], "T 5λ")
    ('Arrival interval γ, as ρ', 'Patience threshold T')
    """
    name = card.axis.rsplit(" (", 1)[0]
    symbol = label.partition(" ")[0]
    return f"{name}, as {symbol}" if len(symbol) == 1 and symbol not in name else name


def _tick(label: str) -> str:
    """`ρ 100 %` -> `100 %`; a name in words stays whole.

    >>> _tick("ρ 100 %"), _tick("two paces")
    ('100 %', 'two paces')
    """
    symbol, _, number = label.partition(" ")
    return number.replace(" of λN", "") if len(symbol) == 1 and number else label


def _legend(figure: Figure, methods: list[str], cards: Cards) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for method in cards.in_order(methods):
        shown = cards.method(method)
        marker = "s" if shown.family == "gradient-free" else "o"
        line = "--" if method == STANDARD else "-"
        handles.append(
            Line2D([], [], color=shown.colour, marker=marker, ms=4, ls=line, label=short(shown.label))
        )
    handles += [
        Patch(color=BEST, label="lead of the best"),
        Patch(color=BELOW, label="below standard inference"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(7, len(handles)), labelcolor=SOFT)
