"""Diagrams of what a pipeline does with the first batches of a real pass (paper, figures 2 and 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta.analysis.cells import is_offline
from tempora_tta.errors import counted
from tempora_tta.published.methods import STANDARD
from tempora_tta.report.drawing import (
    GREY,
    PARTS,
    Drawn,
    chart_of,
    hover,
    number,
    plain_axis,
    short,
    titled,
)
from tempora_tta.report.vega import alt
from tempora_tta.scenarios import Deployment, Resolved, ScenarioCard
from tempora_tta.scenarios.timeline import FREE
from tempora_tta.store import Results, Trace
from tempora_tta.store.trace import FALLBACK, FROZEN, SKIPPED, TIMES
from tempora_tta.words import shift_title

ON_A_CLOCK, WAITING = 9, 4
"""Batches of a panel: those that do not wait take less time."""
COMPARED = 10
"""Batches of the chart `protocols`."""
ARRIVALS, PIPELINE, PREDICTIONS, SECOND = "arrivals", "pipeline", "predictions", "fallback"
"""Lanes, from top to bottom."""
LEGEND = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0)


def course_chart(
    blocks: Any,
    marks: Any,
    lanes: Sequence[str],
    x_title: str = "Time (ms)",
    legend: alt.Legend | None = LEGEND,
) -> Any:
    """Draw blocks of time on lanes, and marks where batches arrive, are answered or are lost.

    Both are tables, or names of data sets that a page fills: `blocks` has lane, part, from, to, length, batch, first,
    accuracy and response; `marks` has lane, batch, from and fate.
    """
    y = alt.Y(
        "lane:N",
        title=None,
        sort=lanes,
        axis=plain_axis(labelPadding=12),
        scale=alt.Scale(paddingInner=0.35, paddingOuter=0.1),
    )
    scale = alt.Scale(zero=False, nice=False)
    x = alt.X("from:Q", title=x_title, scale=scale, axis=alt.Axis(grid=False, tickCount=8))
    parts = alt.Scale(domain=list(PARTS), range=list(PARTS.values()))
    fates = alt.Scale(
        domain=["served", "fallback", "skipped", "answered"],
        range=["triangle-down", "triangle-down", "M-1,-1L1,1M-1,1L1,-1", "circle"],
    )
    tones = [{"test": f"datum.fate == '{fate}'", "value": PARTS[fate]} for fate in ("skipped", "fallback")]
    bars = (
        chart_of(blocks, "accuracy", 1)
        .mark_bar(cornerRadius=1, height={"band": 0.9})
        .encode(
            x=x,
            x2="to:Q",
            y=y,
            color=alt.Color("part:N", scale=parts, legend=legend),
            tooltip=[
                *hover(Batch="batch:Q", Part="part:N", Accuracy="accuracy_text:N"),
                number("length", "Milliseconds"),
                number("response", "Response (ms)"),
            ],
        )
    )
    numbers = (
        alt.Chart(blocks)
        .transform_filter("datum.first")
        .mark_text(fontSize=10, align="left", dx=2, fontWeight=600, color="#14161a")
        .encode(x="from:Q", y=y, text="batch:Q")
    )
    points = (
        alt.Chart(marks)
        .mark_point(size=60, strokeWidth=2, filled=False, opacity=1)
        .encode(
            x="from:Q",
            y=y,
            shape=alt.Shape("fate:N", scale=fates, legend=None),
            color=alt.ColorValue(GREY, condition=tones),
            tooltip=[*hover(Batch="batch:Q", Fate="fate:N"), number("from", "At (ms)")],
        )
    )
    return alt.layer(bars, numbers, points)


def blocks_of(
    trace: Trace, shown: Iterable[int], baseline_ms: float, apart: bool
) -> Iterator[dict[str, Any]]:
    """Yield the parts of every served batch, and the idle time between them; `apart`: a fallback has its own lane."""
    served = [batch for batch in shown if trace.served[batch]]
    free = None
    for batch in sorted(served, key=lambda batch: (trace.start_ms[batch], batch)):
        start, predict = float(trace.start_ms[batch]), float(trace.predict_ms[batch])
        second = bool(trace.phase[batch] == FALLBACK) and apart
        whole = {FROZEN: "frozen", FALLBACK: "fallback"}.get(int(trace.phase[batch]))
        usual = predict if whole else min(predict, baseline_ms)
        ends = (start, start + usual, start + predict, start + predict + float(trace.adapt_ms[batch]))
        if not second:
            if free is not None and start > free + 1e-6:
                yield {"lane": PIPELINE, "part": "idle", "from": free, "to": start, "length": start - free}
            free = ends[-1]
        for place, part in enumerate((whole or "baseline", "intrinsic", "extrinsic")):
            if ends[place + 1] > ends[place]:
                yield {
                    "lane": SECOND if second else PIPELINE,
                    "part": part,
                    "from": ends[place],
                    "to": ends[place + 1],
                    "length": ends[place + 1] - ends[place],
                    "batch": batch,
                    "first": place == 0,
                    "accuracy": float(trace.correct[batch] / trace.total[batch]),
                    "response": ends[2] - float(trace.arrived_ms[batch]),
                }


def marks_of(trace: Trace, shown: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield the arrival of every batch with what became of it, and the moment of every answer."""
    for batch in shown:
        fate = {SKIPPED: "skipped", FALLBACK: "fallback"}.get(int(trace.phase[batch]), "served")
        yield {"lane": ARRIVALS, "batch": batch, "from": float(trace.arrived_ms[batch]), "fate": fate}
        if trace.served[batch]:
            at = float(trace.emission_ms[batch])
            yield {"lane": PREDICTIONS, "batch": batch, "from": at, "fate": "answered"}


def timed(trace: Trace, baseline_ms: float, resolved: Resolved, until: int | None = None) -> Trace:
    """Copy a trace, with untimed frozen batches lambda long and skipped ones at their arrivals, up to a batch."""
    trace = replace(trace, **{name: getattr(trace, name).copy() for name in TIMES})
    first = slice(0, until)
    if resolved.arrivals_ms is not None:
        skipped = ~trace.served[first]
        trace.arrived_ms[first][skipped] = np.array(resolved.arrivals_ms)[first][skipped]
    for batch in np.flatnonzero(trace.served[first] & np.isnan(trace.start_ms[first])):
        start = trace.finish_ms[batch - 1] if batch else 0.0
        trace.start_ms[batch] = trace.arrived_ms[batch] = start
        trace.predict_ms[batch], trace.adapt_ms[batch] = baseline_ms, 0.0
        trace.emission_ms[batch] = trace.finish_ms[batch] = start + baseline_ms
    return trace


# -- panels --------------------------------------------------------------------------------------------------


def _panel(
    trace: Trace, resolved: Resolved, shown: Sequence[int], baseline_ms: float, title: alt.Title, *hidden: str
) -> Any:
    """Draw some batches of a placed pass; times count from the start of the first, if that is not the stream's."""
    trace = timed(trace, baseline_ms, resolved)
    apart = resolved.fallback is not None and resolved.fallback_cost == FREE
    lanes = [ARRIVALS, PIPELINE, PREDICTIONS, *([SECOND] if apart else [])]
    lanes = [lane for lane in lanes if lane not in hidden]
    origin = float(trace.start_ms[shown[0]]) if shown[0] else 0.0
    blocks = pd.DataFrame(blocks_of(trace, shown, baseline_ms, apart))
    marks = pd.DataFrame(marks_of(trace, shown))
    blocks[["from", "to"]] -= origin
    marks["from"] -= origin
    marks = marks[(marks["from"] >= -1e-9) & marks["lane"].isin(lanes)]
    x_title = f"ms after batch {shown[0]} starts" if origin else "ms"
    chart = course_chart(blocks, marks, lanes, x_title)
    return chart.properties(width=640, height=26 * len(lanes), title=title)


def _stacked(panels: Sequence[Any], results: Results, title: str) -> Any:
    """Stack panels on one axis of time, with one legend."""
    return titled(alt.vconcat(*panels, spacing=16).resolve_scale(x="shared", color="shared"), results, title)


def _typical_stream(results: Results) -> pd.DataFrame:
    """Return the cells of one stream and one adapting method, slow enough to show all; none where nothing adapts.

    Its service is nearest to two and a half times lambda.
    """
    done = results.contenders[results.contenders["status"] == "ok"]
    offline = done[is_offline(done, results.cards) & (done["method"] != STANDARD)].drop_duplicates("method")
    if offline.empty:
        return offline
    distances = [
        abs(float(np.nanmean(results.trace(row).service_ms)) - 2.5 * row["baseline_ms"])
        for _, row in offline.iterrows()
    ]
    stream = ["method", "shift", "seed"]
    chosen = offline.iloc[int(np.argmin(distances))]
    return done[(done[stream] == chosen[stream]).all(axis=1)]


def _name(row: pd.Series[Any], results: Results) -> str:
    return f"{short(results.cards.label(row['method']))} on {short(shift_title(str(row['shift'])))}"


# -- figure 2 ------------------------------------------------------------------------------------------------


def timelines(results: Results) -> Drawn | None:
    """Draw one panel per protocol: arrivals, what the pipeline does, predictions."""
    rows, cards = _typical_stream(results), results.cards
    if rows.empty:
        return None
    chosen = [
        (row, card)
        for card in map(cards.scenario, cards.in_protocol_order(rows["protocol"]))
        if (row := _chosen(rows, card)) is not None
    ]
    name = _name(rows.iloc[0], results)
    title = f"{name}, λ = {rows['baseline_ms'].iloc[0]:.4g} ms"
    fates = "; ".join(f"{row['label']}: it {card.short_sentence(dict(row))}" for row, card in chosen)
    panels = [_timeline(row, results, card) for row, card in chosen]
    return _stacked(panels, results, title), f"The batches of {name}. {fates}."


def _chosen(rows: pd.DataFrame, card: ScenarioCard) -> pd.Series[Any] | None:
    """Choose the strictest scenario of a protocol; of the budgets, the first that lasts for a few batches.

    Of deployments with several limits at once, one in which a fallback answers: nothing else shows what it does.
    """
    part = rows[rows["protocol"] == card.protocol]
    if not card.parameter and not card.reference:
        part = part[part["fallback_fraction"] > 0]
    part = part.sort_values(["value", "queue"], ascending=[not card.rising, False])
    if card.factor == "cutoff":
        part = part[(part["adapted_fraction"] < 1) & (part["cutoff"] >= 2)]
    return None if part.empty else part.iloc[0]


def _timeline(row: pd.Series[Any], results: Results, card: ScenarioCard) -> Any:
    trace = results.trace(row)
    resolved = results.resolved(row, trace.num_batches)
    count = WAITING if resolved.arrivals_ms is None else ON_A_CLOCK
    # The interesting moment of a budget is its end.
    budgeted = card.factor == "cutoff"
    first = max(0, int(row["cutoff"]) - 3) if budgeted else 0
    shown = range(first, min(trace.num_batches, first + count + 2 * budgeted))
    title = alt.Title(card.title, subtitle=f"{card.story}  ({row['label']})", subtitleColor=GREY)
    return _panel(trace, resolved, shown, float(row["baseline_ms"]), title)


# -- figure 4 ------------------------------------------------------------------------------------------------


def protocols(results: Results) -> Drawn | None:
    """Draw the same arrivals and the same times under three rules, all of them replays of real times.

    Dual model: what the pipeline cannot take goes to a second one, which costs nothing. Single model drops it,
    queue 0; the buffered protocol keeps the newest, queue 1.
    """
    rows = _typical_stream(results)
    if rows.empty:
        return None
    offline = rows[is_offline(rows, results.cards)].iloc[0]
    trace, baseline_ms = results.trace(offline), float(offline["baseline_ms"])
    first = replace(trace, **{name: column[:COMPARED] for name, column in vars(trace).items()})
    second = replace(first, predict_ms=np.full(first.num_batches, baseline_ms))
    pace = partial(Deployment, interval_ms=baseline_ms)
    rules = {
        "Dual model": (
            "what the pipeline cannot take goes to a second model, assumed free",
            pace(queue=0, fallback="latest", fallback_cost=FREE),
        ),
        "Single model, no queue": (
            "what arrives meanwhile is lost, and the pipeline idles until the next arrival",
            pace(queue=0),
        ),
        "Buffered, queue 1": ("the newest batch waits; no forced idling", pace(queue=1)),
    }
    panels, served = [], []
    for title, (story, deployment) in rules.items():
        resolved = deployment.resolve(num_batches=first.num_batches)
        placed = first.on_timeline(resolved, fallback=second)
        heading = alt.Title(title, subtitle=story, subtitleColor=GREY)
        panels.append(_panel(placed, resolved, range(first.num_batches), baseline_ms, heading, PREDICTIONS))
        served.append(int(placed.served.sum()))
    _, unbuffered, buffered = served
    name = f"{_name(offline, results)}, a batch every λ"
    finding = (
        f"{name}: of {counted(first.num_batches, 'batch')} it serves {unbuffered} without a queue "
        f"and {buffered} with a queue of 1; a second model would answer the others."
    )
    return _stacked(panels, results, f"{name} = {baseline_ms:.4g} ms"), finding
