"""What charts share: a title, axes in per cent, the colours of methods, names that are labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tempora_tta._plain_text import visible
from tempora_tta.cards import Cards
from tempora_tta.report.vega import alt
from tempora_tta.store import Results
from tempora_tta.store.verdicts import verdict_of

GREY = "#8a9099"
"""Readable on white and on dark paper."""
Drawn = tuple[Any, str]
"""A chart and one sentence that says what it shows."""

WARNING = "#b3261e"
STYLE: dict[str, Any] = {
    "background": "white",
    # vl-convert brings the first, so a file looks the same on every machine.
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "title": {
        "anchor": "start",
        "frame": "group",
        "fontSize": 12,
        "subtitleColor": WARNING,
        "subtitleFontWeight": "bold",
    },
    "view": {"stroke": None},
    "axis": {
        "labelColor": "#5c626c",
        "titleColor": "#5c626c",
        "gridColor": "#e4e5e3",
        "domainColor": "#9aa0a8",
    },
    "axisQuantitative": {"labelOverlap": "greedy", "labelSeparation": 3},
    "legend": {"labelColor": "#5c626c", "symbolStrokeWidth": 2},
}


def as_json(chart: Any) -> dict[str, Any]:
    """Return the chart as a Vega-Lite specification."""
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):  # tests hold every chart to Vega-Lite's schema
        found: dict[str, Any] = chart.to_dict(validate=False)
    return found


def plain(text: str) -> str:
    """Return text on one line, with control characters made visible."""
    return " ".join(visible(text).split())


def titled(chart: Any, results: Results, title: str = "") -> Any:
    """Give a chart its title and, if the run's timing is in doubt, a warning that says so."""
    verdict = verdict_of(results.manifest)
    doubtful = [f"timing {verdict.status}"] if verdict.doubtful else []
    if title:
        return chart.properties(title=alt.Title(short(title, 60), subtitle=doubtful))
    return chart.properties(title=alt.Title(doubtful, color=WARNING)) if doubtful else chart


def short(name: str, limit: int = 28) -> str:
    """Return a name that fits next to a chart.

    >>> short("a" * 40)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaa…'
    """
    return name if len(name) <= limit else name[: limit - 1] + "…"


def called(names: Mapping[Any, str]) -> str:
    """Return the expression that labels the values of a scale: values stay unique where names are not."""
    return f"{json.dumps({str(value): short(visible(name)) for value, name in names.items()})}[datum.label]"


def method_colour(
    cards: Cards, methods: Sequence[str], names: Mapping[str, str] | None = None, columns: int = 7
) -> alt.Color:
    """Return the colour channel of the column `method`, with a legend below the chart."""
    names = names or {method: cards.label(method) for method in methods}
    legend = alt.Legend(
        title=None,
        orient="bottom",
        columns=columns,
        labelExpr=called(names),
        symbolType="square",
        symbolOpacity=1,
    )
    colours = [cards.method(method).colour for method in methods]
    return alt.Color("method:N", scale=alt.Scale(domain=list(methods), range=colours), legend=legend)


def plain_axis(**more: Any) -> alt.Axis:
    """Return an axis of names: without ticks and line."""
    return alt.Axis(ticks=False, domain=False, **more)


def utility_axis(field: str = "utility", title: str | None = "Utility") -> alt.Y:
    """Return the vertical axis of a fraction, in per cent."""
    labels = "format(100 * datum.value, '.4~g') + ' %'"
    return alt.Y(f"{field}:Q", title=title, axis=alt.Axis(labelExpr=labels, tickCount=5))


def between(low: str, high: str, title: str = "Utility") -> dict[str, Any]:
    """Return the encoding of what reaches from one column to another on the axis of utility."""
    return {"y": alt.Y(f"{low}:Q", title=title), "y2": f"{high}:Q"}


def chart_of(rows: Any, percent: str = "utility", digits: int = 2) -> alt.Chart:
    """Begin a chart whose tooltips can show a fraction: `54.52 %` in `utility_text`, nothing where it is missing."""
    text = f"isValid(datum.{percent}) ? format(100 * datum.{percent}, '.{digits}f') + ' %' : ''"
    return alt.Chart(rows).transform_calculate(**{f"{percent}_text": text})


def hover(**columns: str) -> list[alt.Tooltip]:
    """Return a tooltip: the heading of each line, and the column that it shows."""
    return [alt.Tooltip(column, title=title.replace("_", " ")) for title, column in columns.items()]


def number(column: str, title: str, digits: int = 1) -> alt.Tooltip:
    """Return the line of a tooltip that shows a number."""
    return alt.Tooltip(f"{column}:Q", title=title, format=f".{digits}f")
