"""The paper's figures from a run, as files to put into a paper or a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tempora_tta.errors import TemporaError, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tempora_tta.store import Results

FORMATS = ("svg", "pdf", "png")

__all__ = ["FORMATS", "make_figures"]


def make_figures(results: Results, folder: Path | str, formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Draw every figure that the run has data for, one file per figure and format; returns the files.

    winners, timelines, utility, protocols, pareto, latency: figures 1 to 5 of the paper and two more; profiles: in
    how many cells a method is how close to the best; stream: accuracy over time on a stream of many shifts.
    """
    for name in formats:
        if name not in FORMATS:
            raise unknown("figure format", name, FORMATS)
    if results.contenders.empty:
        raise TemporaError(f"{results.path} has no finished shift yet: let the run finish, then draw it")
    from tempora_tta.report.figures.style import save, styled

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    with styled():
        for name, draw in _drawings().items():
            figure = draw(results)
            if figure is not None:
                written += [save(figure, target / f"{name}.{kind}") for kind in formats]
    return written


def _drawings() -> dict[str, Callable[[Results], Figure | None]]:
    from tempora_tta.report.figures.costs import latency, pareto
    from tempora_tta.report.figures.profiles import profiles
    from tempora_tta.report.figures.protocols import protocols
    from tempora_tta.report.figures.streams import stream
    from tempora_tta.report.figures.timelines import timelines
    from tempora_tta.report.figures.utility import utility
    from tempora_tta.report.figures.winners import winners

    return {
        "winners": winners,
        "timelines": timelines,
        "utility": utility,
        "protocols": protocols,
        "pareto": pareto,
        "profiles": profiles,
        "latency": latency,
        "stream": stream,
    }
