"""The discrete protocols compared on one stream (paper, figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tempora_tta.analysis.frames import is_offline
from tempora_tta.errors import counted
from tempora_tta.report import colours
from tempora_tta.report.figures.style import SOFT, bare, new_figure, short, tell
from tempora_tta.report.figures.timelines import block, legend, name_lane, typical_method
from tempora_tta.report.tables.parts import shift_title
from tempora_tta.scenarios import Course, serve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tempora_tta.store import Results, Trace

BATCHES = 10
ARRIVALS, PIPELINE, SECOND = 2.0, 1.0, 0.2


def protocols(results: Results) -> Figure | None:
    """The same arrivals and the same times under three rules.

    Dual-model is drawn as a schedule: what the pipeline cannot take goes to a second one, which nobody pays for.
    Single-model drops it, queue 0; the buffered protocol keeps the newest, queue 1. Both are replays of real
    times.
    """
    utilities = results.contenders[results.contenders["status"] == "ok"]
    method = typical_method(utilities, results)
    if method is None:
        return None
    offline = utilities[(utilities["method"] == method) & is_offline(utilities, results.cards)].iloc[0]
    baseline_ms, trace = float(offline["baseline_ms"]), results.trace(offline)
    count = min(BATCHES, trace.num_batches)
    arrivals_ms = baseline_ms * np.arange(count)
    service_ms = trace.service_ms[:count]
    unbuffered, buffered = (serve(service_ms, arrivals_ms, queue) for queue in (0, 1))
    figure, panels = new_figure(8.2, 4.6, nrows=3, sharex=True)
    _panel(panels[0], trace, unbuffered, arrivals_ms, baseline_ms, fallback=True)
    _panel(panels[1], trace, unbuffered, arrivals_ms, baseline_ms)
    _panel(panels[2], trace, buffered, arrivals_ms, baseline_ms)
    titles = {
        "Dual model": "what the pipeline cannot take goes to a second model, assumed free",
        "Single model, no queue": "what arrives meanwhile is lost, and the pipeline idles until the next arrival",
        "Buffered, queue 1": "the newest batch waits; no forced idling",
    }
    for axes, (title, story) in zip(panels, titles.items(), strict=True):
        axes.set_title(title)
        axes.text(1, 1.03, story, transform=axes.transAxes, ha="right", va="bottom", color=SOFT, fontsize=8)
    panels[-1].set_xlabel("ms", loc="right", labelpad=1)
    legend(figure, ("baseline", "intrinsic", "extrinsic", "idle", "fallback", "skipped"))
    name = f"{short(results.cards.label(method))} on {short(shift_title(str(offline['shift'])))}"
    figure.suptitle(f"{name}, a batch every λ = {baseline_ms:.4g} ms", x=0.01, ha="left", weight="bold")
    tell(
        figure,
        f"{name}, a batch every λ: of {counted(count, 'batch')} it serves {unbuffered.served.size} without a queue "
        f"and {buffered.served.size} with a queue of 1; a second model would answer the others.",
    )
    return figure


def _panel(
    axes: Axes,
    trace: Trace,
    course: Course,
    arrivals_ms: np.ndarray,
    baseline_ms: float,
    fallback: bool = False,
) -> None:
    served = set(course.served.tolist())
    name_lane(axes, "arrivals", ARRIVALS)
    name_lane(axes, "pipeline", PIPELINE)
    for batch, arrived in enumerate(arrivals_ms):
        lost = batch not in served and not fallback
        axes.plot(
            arrived,
            ARRIVALS,
            marker="x" if lost else "v",
            color=colours.SKIPPED if lost else SOFT,
            ms=5,
            clip_on=False,
        )
        axes.annotate(
            str(batch),
            (arrived, ARRIVALS),
            xytext=(5, 3),
            textcoords="offset points",
            fontsize=6.5,
            color=SOFT,
        )
        if fallback and batch not in served:
            axes.plot([arrived, arrived], [ARRIVALS - 0.2, SECOND + 0.26], color=SOFT, lw=0.8, ls=(0, (3, 3)))
            block(axes, arrived, baseline_ms, colours.FALLBACK, batch, lane=SECOND)
    for place, batch in enumerate(course.served.tolist()):
        start, predict = float(course.start_ms[place]), float(trace.predict_ms[batch])
        if course.idle_ms[place] > 1e-6:
            block(axes, start - course.idle_ms[place], course.idle_ms[place], colours.IDLE)
        usual = min(predict, baseline_ms)
        block(axes, start, usual, colours.BASELINE, batch)
        block(axes, start + usual, predict - usual, colours.INTRINSIC)
        block(axes, start + predict, float(trace.adapt_ms[batch]), colours.EXTRINSIC)
    if fallback:
        name_lane(axes, "second model", SECOND)
    axes.set_ylim(-0.2 if fallback else 0.55, 2.5)
    bare(axes)
    axes.spines["bottom"].set_visible(True)
