"""The protocols as timelines of one real method (paper, figure 2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tempora_tta.analysis.frames import is_offline
from tempora_tta.published.methods import STANDARD
from tempora_tta.report import colours
from tempora_tta.report.figures.style import SOFT, bare, new_figure, short, tell
from tempora_tta.report.tables.parts import shift_title
from tempora_tta.scenarios import Resolved, ScenarioCard
from tempora_tta.scenarios.timeline import FREE
from tempora_tta.store.trace import FALLBACK, FROZEN, TIMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tempora_tta.store import Results, Trace

ON_A_CLOCK, WAITING = 9, 4
"""How many batches are drawn: those that do not wait take less time."""
STREAM, PIPELINE, PREDICTIONS, BESIDE = 2.0, 1.0, 0.0, -1.0
"""Lanes. A fallback on a device of its own is drawn beside all others."""
HEIGHT = 0.52


def timelines(results: Results) -> Figure | None:
    """One panel per protocol: arrivals, what the pipeline does, predictions."""
    utilities = results.contenders[results.contenders["status"] == "ok"]
    method = typical_method(utilities, results)
    if method is None:
        return None
    rows = utilities[(utilities["method"] == method) & (utilities["seed"] == utilities["seed"].min())]
    rows = rows[rows["shift"] == rows["shift"].iloc[0]]
    cards = results.cards
    protocols = [cards.scenario(name) for name in cards.in_protocol_order(rows["protocol"])]
    chosen = [row for row in (_chosen(rows, card) for card in protocols) if row is not None]
    figure, panels = new_figure(8.2, 1.5 * len(chosen) + 0.4, nrows=len(chosen), squeeze=False, sharex=True)
    parts = ["baseline", "intrinsic", "extrinsic", "idle", "frozen", "skipped"]
    for row, axes in zip(chosen, panels[:, 0], strict=True):
        trace = results.trace(row)
        resolved = results.resolved(row, trace.num_batches)
        _panel(axes, row, trace, resolved, cards.scenario(row["protocol"]))
        if (trace.phase == FALLBACK).any() and "fallback" not in parts:
            parts.insert(-1, "fallback")
    legend(figure, tuple(parts))
    name = f"{short(cards.label(method))} on {short(shift_title(str(rows['shift'].iloc[0])))}"
    figure.suptitle(f"{name}, λ = {rows['baseline_ms'].iloc[0]:.4g} ms", x=0.01, ha="left", weight="bold")
    paces = "; ".join(
        f"{row['label']}: it {cards.scenario(row['protocol']).short_sentence(dict(row))}" for row in chosen
    )
    tell(figure, f"What becomes of the batches of {name}. {paces}.")
    return figure


def typical_method(utilities: pd.DataFrame, results: Results) -> str | None:
    """The adapting method whose service is nearest to two and a half times lambda: slow enough to show all."""
    offline = utilities[is_offline(utilities, results.cards) & (utilities["method"] != STANDARD)]
    offline = offline.drop_duplicates("method")
    if offline.empty:
        return None
    distances = {
        str(row["method"]): abs(float(np.nanmean(results.trace(row).service_ms)) - 2.5 * row["baseline_ms"])
        for _, row in offline.iterrows()
    }
    return min(distances, key=lambda name: distances[name])


def _chosen(rows: pd.DataFrame, card: ScenarioCard) -> pd.Series[Any] | None:
    """The strictest scenario of a protocol; of the budgets, the first that lasts for a few batches.

    Of deployments with several limits at once, one in which a fallback answers: nothing else shows what it does.
    """
    part = rows[rows["protocol"] == card.protocol]
    if not card.parameter and not card.reference:
        part = part[part["fallback_fraction"] > 0]
    part = part.sort_values(["value", "queue"], ascending=[not card.rising, False])
    if card.factor == "cutoff":
        part = part[(part["adapted_fraction"] < 1) & (part["cutoff"] >= 2)]
    return None if part.empty else part.iloc[0]


def name_lane(axes: Axes, name: str, lane: float) -> None:
    """Write beside a lane what it shows."""
    axes.annotate(
        name,
        (0, lane),
        xycoords=("axes fraction", "data"),
        xytext=(-10, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        color=SOFT,
        fontsize=8,
    )


def _panel(axes: Axes, row: pd.Series[Any], trace: Trace, resolved: Resolved, card: ScenarioCard) -> None:
    count = WAITING if resolved.arrivals_ms is None else ON_A_CLOCK
    # The interesting moment of a budget is its end.
    budgeted = card.factor == "cutoff"
    first = max(0, int(row["cutoff"]) - 3) if budgeted else 0
    shown = range(first, min(trace.num_batches, first + count + 2 * budgeted))
    trace = _timed(trace, row, resolved)
    origin = trace.start_ms[shown[0]]
    lanes = {"arrivals": STREAM, "pipeline": PIPELINE, "predictions": PREDICTIONS}
    beside = resolved.fallback is not None and resolved.fallback_cost == FREE
    for name, lane in {**lanes, **({"fallback": BESIDE} if beside else {})}.items():
        name_lane(axes, name, lane)
    free = origin
    for batch in sorted(shown, key=lambda batch: (trace.start_ms[batch], batch)):
        if trace.phase[batch] == FALLBACK and beside:
            draw_batch(axes, trace, batch, float(row["baseline_ms"]), origin, np.inf, lane=BESIDE)
        else:
            free = draw_batch(axes, trace, batch, float(row["baseline_ms"]), origin, free)
    axes.set_ylim(-1.5 if beside else -0.5, 2.55)
    bare(axes)
    axes.spines["bottom"].set_visible(True)
    axes.set_title(card.title, pad=8)
    axes.text(
        1,
        1.03,
        f"{card.story}  ({row['label']})",
        transform=axes.transAxes,
        ha="right",
        va="bottom",
        color=SOFT,
        fontsize=8,
    )
    axes.tick_params(labelbottom=True)
    axes.set_xlabel("ms" if origin == 0 else f"ms after batch {shown[0]} starts", loc="right", labelpad=1)


def _timed(trace: Trace, row: pd.Series[Any], resolved: Resolved) -> Trace:
    """Frozen batches that nobody timed are drawn lambda long; skipped ones arrive when they arrived.

    A copy, because the run keeps the traces that it has read.
    """
    trace = replace(trace, **{name: getattr(trace, name).copy() for name in TIMES})
    baseline_ms = float(row["baseline_ms"])
    for batch in range(trace.num_batches):
        if trace.served[batch] and np.isnan(trace.start_ms[batch]):
            start = trace.finish_ms[batch - 1] if batch else 0.0
            trace.start_ms[batch] = trace.arrived_ms[batch] = start
            trace.predict_ms[batch], trace.adapt_ms[batch] = baseline_ms, 0.0
            trace.emission_ms[batch] = trace.finish_ms[batch] = start + baseline_ms
        elif not trace.served[batch] and resolved.arrivals_ms is not None:
            trace.arrived_ms[batch] = resolved.arrivals_ms[batch]
    return trace


def draw_batch(
    axes: Axes,
    trace: Trace,
    batch: int,
    baseline_ms: float,
    origin_ms: float,
    free_ms: float,
    lane: float = PIPELINE,
) -> float:
    """One batch: its arrival, its blocks and its prediction. Returns when the pipeline is free again."""
    arrived = trace.arrived_ms[batch] - origin_ms
    skipped, rescued = not trace.served[batch], trace.phase[batch] == FALLBACK
    if not np.isnan(arrived) and arrived >= -1e-9:
        colour = colours.SKIPPED if skipped else colours.FALLBACK if rescued else SOFT
        _marker(axes, arrived, STREAM, batch, colour, "x" if skipped else "v")
    if skipped:
        return free_ms
    start, predict, adapt = trace.start_ms[batch], trace.predict_ms[batch], trace.adapt_ms[batch]
    if start > free_ms + 1e-6:
        block(axes, free_ms - origin_ms, start - free_ms, colours.IDLE)
    whole = {FROZEN: colours.FROZEN, FALLBACK: colours.FALLBACK}.get(int(trace.phase[batch]))
    usual = predict if whole else min(predict, baseline_ms)
    block(axes, start - origin_ms, usual, whole or colours.BASELINE, batch, lane)
    block(axes, start - origin_ms + usual, predict - usual, colours.INTRINSIC)
    block(axes, start - origin_ms + predict, adapt, colours.EXTRINSIC)
    _marker(axes, trace.emission_ms[batch] - origin_ms, PREDICTIONS, batch, SOFT, "o")
    return float(trace.finish_ms[batch])


def block(
    axes: Axes, start: float, length: float, colour: str, batch: int | None = None, lane: float = PIPELINE
) -> None:
    if length <= 0:
        return
    axes.barh(lane, length, left=start, height=HEIGHT, color=colour, linewidth=0)
    if batch is not None:
        axes.plot([start, start], [lane - HEIGHT / 2, lane + HEIGHT / 2], color="white", lw=1.2)
        axes.text(start + length / 2, lane, str(batch), ha="center", va="center", fontsize=8, color="#14161a")


def _marker(axes: Axes, x: float, lane: float, batch: int, colour: str, kind: str) -> None:
    axes.plot(x, lane, marker=kind, color=colour, markersize=5, clip_on=False, linestyle="none")
    axes.annotate(
        str(batch),
        (x, lane),
        xytext=(5, 4),
        textcoords="offset points",
        fontsize=6.5,
        color=colour,
        annotation_clip=False,
    )


def legend(figure: Figure, parts: tuple[str, ...]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Patch | Line2D] = [
        Patch(color=getattr(colours, part.upper()), label=part) for part in parts if part != "skipped"
    ]
    if "skipped" in parts:
        handles.append(Line2D([], [], color=colours.SKIPPED, marker="x", linestyle="none", label="skipped"))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), labelcolor=SOFT, handlelength=1
    )
