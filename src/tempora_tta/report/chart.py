"""One chart of a run for notebooks: utility against pressure, a panel for each kind of scenario (Vega-Altair)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pandas as pd

from tempora_tta.analysis.doubt import doubt
from tempora_tta.analysis.outcomes import over_seeds, over_shifts
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.store import Results

if TYPE_CHECKING:
    import altair as alt


def check_docstrings() -> None:
    """Refuse Python without docstrings, which Altair copies from its own classes while it is imported."""
    if sys.flags.optimize > 1:
        raise TemporaError(
            "PYTHONOPTIMIZE=2 (python -OO) takes docstrings away, and charts cannot be drawn without them: use 0 or 1"
        )


def utility_chart(results: Results, shift: str | None = None) -> alt.HConcatChart:
    """Utility of every method along the knob of each kind of scenario, with 95 % intervals over other batches.

    Of one shift, or of all of them together. Whatever Altair does with a chart can be done with it.
    """
    check_docstrings()
    import altair as alt

    rows, cards = _rows(results, shift), results.cards
    methods = cards.in_order(rows["method"].unique())
    colour = alt.Color(
        "name:N",
        title=None,
        sort=[cards.label(method) for method in methods],
        scale=alt.Scale(
            domain=[cards.label(method) for method in methods],
            range=[cards.method(method).colour for method in methods],
        ),
    )
    panels = []
    for protocol in cards.in_protocol_order(rows["protocol"]):
        data = rows[rows["protocol"] == protocol]
        varied = data["value"].notna().all() and data["value"].nunique() > 1
        draw = _curves if varied else _dots
        panels.append(
            draw(data, colour, cards.scenario(protocol).axis).properties(title=cards.title(protocol))
        )
    chart: alt.HConcatChart = alt.hconcat(*panels).resolve_scale(y="shared")
    return chart


def _rows(results: Results, shift: str | None) -> pd.DataFrame:
    if shift is None:
        rows = over_shifts(results.contenders, results.cards)
    else:
        rows = over_seeds(results.contenders, results.cards)
        if shift not in set(rows["shift"]):
            raise unknown("shift of this run", shift, sorted(rows["shift"].unique()))
        rows = rows[rows["shift"] == shift]
    rows = doubt(results).about(rows)
    rows = rows.assign(name=rows["method"].map(results.cards.label))
    return rows[["name", "method", "protocol", "label", "value", "utility", "sample_lo", "sample_hi", "rank"]]


def _curves(data: pd.DataFrame, colour: alt.Color, axis: str) -> alt.LayerChart | alt.FacetChart:
    import altair as alt

    x = alt.X("value:Q", title=axis, scale=alt.Scale(type="log", nice=False, padding=10))
    base = _base(data).encode(x=x, color=colour)
    return alt.layer(
        base.mark_area(opacity=0.12).encode(y=alt.Y("sample_lo:Q"), y2="sample_hi:Q"),
        base.mark_line(point=True).encode(y=_utility(), tooltip=_tooltip()),
    )


def _dots(data: pd.DataFrame, colour: alt.Color, axis: str) -> alt.LayerChart | alt.FacetChart:
    """Where there is nothing to draw a line along."""
    import altair as alt

    base = _base(data).encode(x=alt.X("name:N", title=None, sort=None), color=colour)
    return alt.layer(
        base.mark_rule().encode(y="sample_lo:Q", y2="sample_hi:Q"),
        base.mark_point(filled=True, size=60).encode(y=_utility(), tooltip=_tooltip()),
    )


PERCENT_LABELS = "format(100 * datum.value, '.4~g') + ' %'"
"""On the axes of fractions."""


def in_percent(field: str, digits: int = 2) -> str:
    """The expression that writes a fraction as `54.52 %`, and a missing one as nothing."""
    return f"isValid(datum.{field}) ? format(100 * datum.{field}, '.{digits}f') + ' %' : ''"


def _base(data: pd.DataFrame) -> alt.Chart:
    import altair as alt

    return alt.Chart(data).transform_calculate(utility_text=in_percent("utility"))


def _utility() -> alt.Y:
    import altair as alt

    return alt.Y(
        "utility:Q", title="Utility", axis=alt.Axis(labelExpr=PERCENT_LABELS), scale=alt.Scale(zero=False)
    )


def _tooltip() -> list[alt.Tooltip]:
    import altair as alt

    return [
        alt.Tooltip("name:N", title="Method"),
        alt.Tooltip("label:N", title="Scenario"),
        alt.Tooltip("utility_text:N", title="Utility"),
        alt.Tooltip("rank:Q", title="Rank"),
    ]
