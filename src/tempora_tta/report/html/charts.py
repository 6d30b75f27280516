"""The page's charts, as Vega-Lite specifications made with Altair.

They hold no data: the page's scripts feed the named data sets as the reader moves a slider or opens a cell.
Colours of methods come with the rows, because they depend on whether the page is light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tempora_tta.report.courses import ARRIVALS, PIPELINE, SECOND, course_chart
from tempora_tta.report.drawing import PERCENT_LABELS, as_json, in_percent
from tempora_tta.report.vega import alt


@cache
def scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that needs no network (BSD-3-Clause)."""
    import vl_convert
    from altair.utils._importers import vl_version_for_vl_convert

    return vl_convert.javascript_bundle(vl_version=vl_version_for_vl_convert())  # type: ignore[call-arg]


def specifications(axes: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Return the charts that the page's scripts feed, by name; `axes` are protocols and their axis titles."""
    blocks, arrivals = alt.NamedData("blocks"), alt.NamedData("arrivals")
    timeline = course_chart(blocks, arrivals, [ARRIVALS, PIPELINE, SECOND], legend=None)
    charts = {f"curves_{protocol}": curves(title) for protocol, title in axes}
    charts["timeline"] = timeline.properties(width="container", height=130)
    return {name: as_json(chart) for name, chart in charts.items()}


def curves(title: str) -> Any:
    """Utility against pressure: dots where evaluated, the best of them ringed, a line at the slider."""
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
        alt.Tooltip("sample:N", title="With other batches"),
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
