"""Parts that charts share: a title, axes in per cent, colours, names that are labels.

Methods have one colour everywhere (`tempora_tta.published.methods`). On a dark page some of them would vanish; these
are mixed with white until they stand out, which keeps their hue.
"""

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


# -- colours -------------------------------------------------------------------------------------------------

PARTS = {
    "baseline": "#b9bcc2",
    "intrinsic": "#3d9b70",
    "extrinsic": "#8a63b0",
    "idle": "#f2c53d",
    "frozen": "#8fb8de",
    "fallback": "#e08a5b",
    "skipped": "#c8404f",
}
"""Parts of a timeline."""

DARK_PAPER = "#15171b"
_ENOUGH = 3.6
"""Contrast with the paper at which a line or a letter of a large label is easy to see (WCAG asks for 3)."""


def on_dark(colour: str) -> str:
    """Return the colour as it is shown on dark paper.

    >>> on_dark("#60c5ff")
    '#60c5ff'
    >>> contrast(on_dark("#3f4aa6"), DARK_PAPER) >= 3
    True
    """
    lighter = (_mixed(colour, white / 100) for white in range(0, 101, 4))
    return next(mixed for mixed in lighter if contrast(mixed, DARK_PAPER) >= _ENOUGH)


def text_on(colour: str) -> str:
    """Return black or white, the one that is easier to read on the colour: its contrast is at least 4.5."""
    return "#ffffff" if contrast(colour, "#ffffff") >= contrast(colour, "#000000") else "#000000"


def shades(colour: str) -> dict[str, str]:
    """Return a method's colour on light and dark paper, and the colour of text on each."""
    dark = on_dark(colour)
    return {"colour": colour, "dark": dark, "text": text_on(colour), "dark_text": text_on(dark)}


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours as WCAG defines it: 1 (equal) to 21 (black and white).

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def _channels(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]


def _mixed(colour: str, white: float) -> str:
    return "#" + "".join(f"{round(channel + (255 - channel) * white):02x}" for channel in _channels(colour))


def _luminance(colour: str) -> float:
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (channel / 255 for channel in _channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
