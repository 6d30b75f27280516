"""The page's charts, as Vega-Lite specifications made with Altair.

They hold no data: the page's scripts feed the named data sets as the reader moves a slider or opens a cell.
Colours of methods come with the rows, because they depend on whether the page is light or dark.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tempora_tta.report import colours
from tempora_tta.report.chart import PERCENT_LABELS, in_percent

if TYPE_CHECKING:
    import altair as alt

PARTS = {
    "baseline": colours.BASELINE,
    "intrinsic": colours.INTRINSIC,
    "extrinsic": colours.EXTRINSIC,
    "idle": colours.IDLE,
    "frozen": colours.FROZEN,
    "fallback": colours.FALLBACK,
    "skipped": colours.SKIPPED,
}


@cache
def scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that needs no network (BSD-3-Clause)."""
    import vl_convert
    from altair.utils._importers import vl_version_for_vl_convert

    return vl_convert.javascript_bundle(vl_version=vl_version_for_vl_convert())  # type: ignore[call-arg]


@cache
def specifications(methods: int, axes: tuple[tuple[str, str], ...]) -> dict[str, dict[str, Any]]:
    """Every chart of the page by name, for a run of so many methods; `axes` are protocols and their axis titles."""
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):  # held to Vega-Lite's schema by a test, not again for every page
        return {name: chart.to_dict(validate=False) for name, chart in all_charts(methods, axes).items()}


def all_charts(methods: int, axes: tuple[tuple[str, str], ...]) -> dict[str, alt.LayerChart | alt.FacetChart]:
    """The charts behind `specifications`."""
    charts = {f"curves_{protocol}": curves(title) for protocol, title in axes}
    return charts | {
        "decomposition": decomposition(),
        "timeline": timeline(),
        "stream": stream(),
        "latency": latency(methods),
        "pareto": pareto(),
    }


def curves(title: str) -> alt.LayerChart | alt.FacetChart:
    """Utility against pressure: dots where evaluated, the best of them ringed, a line at the slider."""
    import altair as alt

    rows, here = alt.NamedData("rows"), alt.NamedData("here")
    x = alt.X(
        "x:Q", title=title, scale=alt.Scale(type="log", nice=False, padding=12), axis=alt.Axis(grid=False)
    )
    y = alt.Y(
        "utility:Q",
        title="Utility",
        axis=alt.Axis(labelExpr=PERCENT_LABELS, tickCount=5),
        scale=alt.Scale(zero=False),
    )
    tooltip = [
        alt.Tooltip("label:N", title="Method"),
        alt.Tooltip("scenario:N", title="Scenario"),
        alt.Tooltip("utility_text:N", title="Utility"),
        alt.Tooltip("range:N", title="Within timing"),
        alt.Tooltip("sample:N", title="With other batches"),
        alt.Tooltip("rank:N", title="Rank"),
        alt.Tooltip("how:N", title="From"),
    ]
    colour = alt.Color("colour:N", scale=None, legend=None)
    faded = alt.condition("picked == '' || datum.method == picked", alt.value(1.0), alt.value(0.12))
    base = (
        alt.Chart(rows)
        .transform_calculate(utility_text=in_percent("utility"))
        .encode(x=x, y=y, color=colour, opacity=faded, detail="method:N")
    )
    lines = base.mark_line(strokeWidth=2, clip=True).encode(
        strokeDash=alt.condition("datum.guide", alt.value([2, 4]), alt.value([1, 0])),
    )
    whiskers = (
        base.transform_filter("isValid(datum.lo)")
        .mark_rule(strokeWidth=1.4, clip=True)
        .encode(y=alt.Y("lo:Q", title="Utility"), y2="hi:Q")
    )
    dots = (
        base.transform_filter("datum.evaluated")
        .mark_point(filled=True, size=46, opacity=1, clip=True)
        .encode(tooltip=tooltip)
    )
    best = (
        base.transform_filter("datum.best")
        .mark_point(filled=False, size=190, strokeWidth=1.8, clip=True)
        .encode(tooltip=tooltip)
    )
    rule = alt.Chart(here).mark_rule(strokeWidth=1.2, strokeDash=[2, 3], color="#888").encode(x="x:Q")
    return (
        alt.layer(rule, lines, whiskers, best, dots)
        .add_params(alt.param("picked", value=""))
        .properties(width="container", height=320)
    )


def decomposition() -> alt.LayerChart | alt.FacetChart:
    """From accuracy to utility, step by step: what waiting, their covariance and skipping take away."""
    import altair as alt

    rows = alt.NamedData("rows")
    y = alt.Y(
        "step:N",
        sort=None,
        title=None,
        axis=alt.Axis(labelLimit=170, ticks=False, domain=False, labelPadding=8),
    )
    x = alt.X(
        "from:Q", title=None, axis=alt.Axis(labelExpr=PERCENT_LABELS, tickCount=5), scale=alt.Scale(zero=True)
    )
    base = alt.Chart(rows).encode(y=y)
    tooltip = [alt.Tooltip("step:N", title="Step"), alt.Tooltip("text:N", title="Amount")]
    bars = base.mark_bar(height=18, cornerRadius=2).encode(
        x=x, x2="to:Q", color=alt.Color("colour:N", scale=None), tooltip=tooltip
    )
    labels = base.mark_text(align="left", dx=6, fontSize=12).encode(x=alt.X("end:Q"), text="text:N")
    return alt.layer(bars, labels).properties(
        width="container", height=170, padding={"left": 0, "top": 4, "bottom": 4, "right": 52}
    )


def timeline() -> alt.LayerChart | alt.FacetChart:
    """Arrivals above, the pipeline below: baseline, intrinsic, extrinsic, idle; skipped batches crossed out.

    A fallback that has a device of its own has a lane of its own, below both; one lane less where there is none.
    """
    import altair as alt

    blocks, arrivals = alt.NamedData("blocks"), alt.NamedData("arrivals")
    y = alt.Y(
        "lane:N",
        title=None,
        sort=["arrivals", "pipeline", "fallback"],
        scale=alt.Scale(paddingInner=0.35, paddingOuter=0.1),
        axis=alt.Axis(ticks=False, domain=False, labelPadding=12),
    )
    axis = alt.Axis(grid=False, tickCount=8)
    x = alt.X("from:Q", title="Time (ms)", scale=alt.Scale(zero=False, nice=False), axis=axis)
    bars = (
        alt.Chart(blocks)
        .transform_calculate(accuracy_text=in_percent("accuracy", 1))
        .mark_bar(cornerRadius=1, stroke=None)
        .encode(
            x=x,
            x2="to:Q",
            y=y,
            color=alt.Color(
                "part:N", scale=alt.Scale(domain=list(PARTS), range=list(PARTS.values())), legend=None
            ),
            tooltip=[
                alt.Tooltip("batch:Q", title="Batch"),
                alt.Tooltip("part:N", title="Part"),
                alt.Tooltip("length:Q", title="Milliseconds", format=".1f"),
                alt.Tooltip("accuracy_text:N", title="Accuracy"),
                alt.Tooltip("response:Q", title="Response (ms)", format=".1f"),
            ],
        )
    )
    numbers = (
        alt.Chart(blocks)
        .transform_filter("datum.first")
        .mark_text(fontSize=11, align="left", dx=3, fontWeight=600, color="#14161a")
        .encode(x="from:Q", y=y, text="batch:Q")
    )
    ticks = (
        alt.Chart(arrivals)
        .mark_point(size=70, strokeWidth=2, filled=False)
        .encode(
            x="from:Q",
            y=y,
            shape=alt.Shape(
                "fate:N",
                scale=alt.Scale(
                    domain=["served", "fallback", "skipped"],
                    range=["triangle-down", "triangle-down", "M-1,-1L1,1M-1,1L1,-1"],
                ),
                legend=None,
            ),
            color=alt.ColorValue(  # no scale: the bars have one of their own
                "#8a9099",
                condition=[
                    {"test": "datum.fate == 'skipped'", "value": colours.SKIPPED},
                    {"test": "datum.fate == 'fallback'", "value": colours.FALLBACK},
                ],
            ),
            tooltip=[
                alt.Tooltip("batch:Q", title="Batch"),
                alt.Tooltip("from:Q", title="Arrives at (ms)", format=".1f"),
                alt.Tooltip("fate:N", title="Fate"),
            ],
        )
    )
    return alt.layer(bars, numbers, ticks).properties(width="container", height=130)


def stream() -> alt.LayerChart | alt.FacetChart:
    """Accuracy over the course of a stream: a line per method, a band for its seeds, every other segment shaded."""
    import altair as alt

    rows, parts = alt.NamedData("rows"), alt.NamedData("parts")
    x = alt.X("batch:Q", title="Batch", axis=alt.Axis(grid=False), scale=alt.Scale(nice=False))
    y = alt.Y("accuracy:Q", title="Offline accuracy", axis=alt.Axis(labelExpr=PERCENT_LABELS, tickCount=5))
    colour = alt.Color("colour:N", scale=None, legend=None)
    shade = (
        alt.Chart(parts)
        .mark_rect(color="#888", opacity=0.12)
        .encode(x="from:Q", x2="to:Q", tooltip=[alt.Tooltip("name:N", title="Segment")])
    )
    base = (
        alt.Chart(rows)
        .transform_calculate(accuracy_text=in_percent("accuracy", 1))
        .encode(x=x, color=colour, detail="method:N")
    )
    bands = base.mark_area(opacity=0.12).encode(y=alt.Y("low:Q"), y2="high:Q")
    tooltip = [
        alt.Tooltip("label:N", title="Method"),
        alt.Tooltip("segment:N", title="Segment"),
        alt.Tooltip("batch:Q", title="Batch"),
        alt.Tooltip("accuracy_text:N", title="Accuracy"),
    ]
    lines = base.mark_line(strokeWidth=1.6).encode(y=y, tooltip=tooltip)
    return alt.layer(shade, bands, lines).properties(width="container", height=300)


def latency(methods: int) -> alt.LayerChart | alt.FacetChart:
    """Where a batch's time goes: baseline, intrinsic overhead, extrinsic overhead, per method."""
    import altair as alt

    rows, baseline = alt.NamedData("rows"), alt.NamedData("baseline")
    bars = (
        alt.Chart(rows)
        .mark_bar(height={"band": 0.66})
        .encode(
            y=alt.Y(
                "label:N",
                sort=None,
                title=None,
                axis=alt.Axis(ticks=False, domain=False, labelLimit=140, labelPadding=8),
            ),
            x=alt.X("from:Q", title="Mean milliseconds per batch", axis=alt.Axis(tickCount=6)),
            x2="to:Q",
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=list(PARTS)[:3], range=list(PARTS.values())[:3]),
                legend=alt.Legend(orient="top", offset=4),
            ),
            tooltip=[
                alt.Tooltip("label:N", title="Method"),
                alt.Tooltip("part:N", title="Part"),
                alt.Tooltip("length:Q", title="Milliseconds", format=".2f"),
                alt.Tooltip("slowdown:Q", title="Whole service, in λ", format=".2f"),
            ],
        )
    )
    rule = alt.Chart(baseline).mark_rule(strokeDash=[3, 3], color="#888").encode(x="x:Q")
    return alt.layer(bars, rule).properties(width="container", height=60 + 24 * methods)


def pareto() -> alt.LayerChart | alt.FacetChart:
    """Utility against the overhead spent; the front that nobody beats is drawn through."""
    import altair as alt

    rows, front = alt.NamedData("rows"), alt.NamedData("front")
    x = alt.X(
        "overhead_s:Q",
        title="Overhead spent (s), logarithmic beyond 0.1 s",
        scale=alt.Scale(type="symlog", constant=0.1),
        axis=alt.Axis(grid=False, tickCount=6),
    )
    y = alt.Y(
        "utility:Q",
        title="Utility",
        axis=alt.Axis(labelExpr=PERCENT_LABELS, tickCount=5),
        scale=alt.Scale(zero=False),
    )
    faded = alt.condition("picked == '' || datum.method == picked", alt.value(1.0), alt.value(0.15))
    base = (
        alt.Chart(rows)
        .transform_calculate(utility_text=in_percent("utility"))
        .encode(
            x=x, y=y, color=alt.Color("colour:N", scale=None, legend=None), opacity=faded, detail="method:N"
        )
    )
    tooltip = [
        alt.Tooltip("label:N", title="Method"),
        alt.Tooltip("scenario:N", title="Budget"),
        alt.Tooltip("utility_text:N", title="Utility"),
        alt.Tooltip("overhead_s:Q", title="Spent (s)", format=".3f"),
        alt.Tooltip("gain:N", title="Gain per second"),
    ]
    lines = base.mark_line(strokeWidth=1.5, opacity=0.7)
    dots = base.mark_point(filled=True, size=42, opacity=1).encode(tooltip=tooltip)
    step = (
        alt.Chart(front)
        .mark_line(interpolate="step-after", strokeWidth=7, opacity=0.16, color="#888")
        .encode(x="overhead_s:Q", y="utility:Q")
    )
    return (
        alt.layer(step, lines, dots)
        .add_params(alt.param("picked", value=""))
        .properties(width="container", height=320)
    )
