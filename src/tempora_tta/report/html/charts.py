"""The page's charts, as Vega-Lite specifications made with Altair.

They hold no data: the page's scripts feed the named data sets as the reader moves a slider or opens a cell.
Colours of methods come with the rows, because they depend on whether the page is light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tempora_tta.report.courses import ARRIVALS, PIPELINE, SECOND, course_chart
from tempora_tta.report.drawing import as_json, between, chart_of, hover, utility_axis
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
    """Draw utility against pressure: dots where evaluated, the best of them ringed, a line at the slider."""
    x = alt.X(
        "x:Q", title=title, scale=alt.Scale(type="log", nice=False, padding=12), axis=alt.Axis(grid=False)
    )
    tooltip = hover(
        Method="label:N", Scenario="scenario:N", Utility="utility_text:N", With_other_batches="sample:N"
    )
    faded = alt.condition("picked == '' || datum.method == picked", alt.value(1.0), alt.value(0.12))
    base = chart_of(alt.NamedData("rows")).encode(
        x=x,
        y=utility_axis().scale(zero=False),
        color=alt.Color("colour:N", scale=None, legend=None),
        opacity=faded,
        detail="method:N",
    )
    lines = base.mark_line(strokeWidth=2, clip=True).encode(
        strokeDash=alt.condition("datum.guide", alt.value([2, 4]), alt.value([1, 0])),
    )
    whiskers = base.transform_filter("isValid(datum.lo)").mark_rule(strokeWidth=1.4, clip=True)
    dots = base.transform_filter("datum.evaluated").mark_point(filled=True, size=46, opacity=1, clip=True)
    best = base.transform_filter("datum.best").mark_point(filled=False, size=190, strokeWidth=1.8, clip=True)
    here = alt.Chart(alt.NamedData("here")).mark_rule(strokeWidth=1.2, strokeDash=[2, 3], color="#888")
    return (
        alt.layer(
            here.encode(x="x:Q"),
            lines,
            whiskers.encode(**between("lo", "hi")),
            best.encode(tooltip=tooltip),
            dots.encode(tooltip=tooltip),
        )
        .add_params(alt.param("picked", value=""))
        .properties(width="container", height=320)
    )
