"""Accuracy over the course of a stream of many shifts: a line per method, segments shaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tempora_tta.report.figures.style import LINE, SOFT, new_figure, short, tell, verdict_note
from tempora_tta.report.frames import offline_batches
from tempora_tta.report.over_time import OverTime, over_time
from tempora_tta.report.stream_story import stream_story
from tempora_tta.report.tables.parts import shift_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tempora_tta.store import Results

_MOST_NAMED = 20
"""More segments than this are shaded, not named."""


def stream(results: Results) -> Figure | None:
    """Offline accuracy over time, with intervals over seeds."""
    found = None if results.segments.empty else over_time(results, offline_batches(results))
    if found is None:
        return None
    cards = results.cards
    figure, axes = new_figure(9, 3.8)
    _shade(axes, found)
    for method in cards.in_order(found.mean):
        line, reach, colour = found.mean[method], found.reach[method], cards.method(method).colour
        at = np.arange(len(line))
        axes.plot(at, 100 * line, color=colour, label=short(cards.label(method)), lw=1.3)
        if reach.any():
            low, high = np.maximum(line - reach, 0), np.minimum(line + reach, 1)
            axes.fill_between(at, 100 * low, 100 * high, color=colour, alpha=0.06, lw=0)
    last = found.parts[-1]
    axes.set_xlim(0, last.first + last.batches - 1)
    axes.set_title(
        f"{shift_title(found.stream)} stream, {found.of}", pad=34 if len(found.parts) <= _MOST_NAMED else 6
    )
    axes.set_xlabel("Batch")
    axes.set_ylabel("Offline accuracy (%)")
    figure.legend(loc="outside right center", labelcolor=SOFT)
    verdict_note(figure, results)
    tell(figure, " ".join(stream_story(results)))
    return figure


def _shade(axes: Any, found: OverTime) -> None:
    for number, part in enumerate(found.parts):
        if number % 2:
            axes.axvspan(
                part.first - 0.5, part.first + part.batches - 0.5, color=LINE, alpha=0.5, lw=0, zorder=0
            )
        if len(found.parts) <= _MOST_NAMED:
            place = (part.first + part.batches / 2 - 0.5, 1.01)
            turn = {} if part.name.isdigit() else {"rotation": 35}
            axes.text(
                *place,
                short(part.name, 18),
                transform=axes.get_xaxis_transform(),
                fontsize=6.5,
                color=SOFT,
                **turn,
            )
