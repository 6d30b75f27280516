"""Utility against pressure: a line per method, and below it which method is enough where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from tempora_tta import words
from tempora_tta.analysis.answer import overview
from tempora_tta.analysis.cells import ALL
from tempora_tta.cards import Cards
from tempora_tta.errors import unknown
from tempora_tta.report.colours import text_on
from tempora_tta.report.drawing import Drawn, hover, in_percent, method_colour, titled, utility_axis
from tempora_tta.report.vega import alt
from tempora_tta.store import Results

HEIGHT, BAND = 260, 18
Told = Mapping[str, Any]

_AXES = {
    "interval_ms": ("images_per_s", 1.0, "Images per second"),
    "threshold_ms": ("threshold_ms", 1.0, "Value of an answer halves after (ms)"),
    "budget_ms": ("budget_share", 100.0, "Extra computing time that adapting may take (%)"),
}
"""Parameter -> the fact of a setting that people count, its factor, and the title of the axis."""


def pressure(results: Results, shift: str | None = None) -> Drawn | None:
    """Draw utility against pressure, one panel per kind of deployment; of one shift, or of all together."""
    shifts = sorted(results.contenders["shift"].unique())
    if shift is not None and shift not in shifts:
        raise unknown("shift of this run", shift, shifts)
    drawn = panels(results, ALL if shift is None else shift)
    charts = [
        chart.properties(title=results.cards.scenario(kind).situation, width=260)
        for kind, (chart, _) in drawn.items()
    ]
    finding = " ".join(words.summary(overview(results, ALL if shift is None else shift)))
    joint = alt.hconcat(*charts).resolve_scale(y="shared")
    return titled(joint, results), finding or "Utility of every method."


def panels(results: Results, shift: str = ALL) -> dict[str, Drawn]:
    """Return the chart of each kind of deployment, strict on the left, and what it shows."""
    told, cards = overview(results, shift), results.cards
    answers = [one for one in told["answers"] if one["ranking"]]
    pressed = [one for one in answers if not one["setting"]["reference"]] or answers
    methods = cards.in_order({row["method"] for one in pressed for row in one["ranking"]})
    found = {}
    for kind in dict.fromkeys(one["setting"]["kind"] for one in pressed):
        own = [one for one in pressed if one["setting"]["kind"] == kind]
        queue = max(one["setting"]["queue"] for one in own)
        own = [one for one in own if one["setting"]["queue"] == queue]
        names = [part for part in told["stretches"] if part["settings"][0]["kind"] == kind]
        found[kind] = _panel(own, names, methods, cards)
    return found


def _panel(answers: Sequence[Told], stretches: Sequence[Told], methods: Sequence[str], cards: Cards) -> Drawn:
    rows = pd.DataFrame(
        [
            {
                "x": _place(one["setting"]),
                "setting": " ".join(words.setting(one["setting"])).strip(),
                **{
                    name: row.get(name)
                    for name in ("method", "label", "utility", "utility_lo", "utility_hi", "rank")
                },
            }
            for one in answers
            for row in one["ranking"]
        ]
    )
    best = ", ".join(
        f"{one['ranking'][0]['label']} {words.value(one['ranking'][0]['utility'])} when {words.where(one['setting'])}"
        for one in answers
    )
    colour = method_colour(cards, methods, columns=4)
    if rows["x"].isna().any() or rows["x"].nunique() < 2:
        return _dots(rows).encode(color=colour), f"Best: {best}."
    first = answers[0]["setting"]
    title = (
        _AXES[first["parameter"]][2] if first["parameter"] in _AXES else cards.scenario(first["kind"]).axis
    )
    xs = [_place(one["setting"]) for one in answers]
    # Strict is on the left, whether that is the larger number or the smaller.
    scale = alt.Scale(type="log", nice=False, domain=_domain(xs), reverse=xs[0] > xs[-1])
    axis = alt.Axis(grid=False, offset=BAND + 8, values=sorted(xs), format=",.2r", labelOverlap="greedy")
    x = alt.X("x:Q", title=title, scale=scale, axis=axis)
    bands = pd.DataFrame(_bands(stretches, xs))
    layers = [layer.encode(color=colour) for layer in _lines(rows, x)]
    return alt.layer(*layers, *_band(bands, x, colour, cards)).properties(height=HEIGHT), f"Best: {best}."


_SHOWN = ("method", "label", "utility", "utility_lo", "utility_hi", "rank")


def _place(setting: Told) -> float:
    fact, factor, _ = _AXES.get(setting["parameter"], ("value", 1.0, ""))
    value = setting[fact]
    return float("nan") if value is None or value <= 0 else factor * float(value)


def _domain(xs: Sequence[float]) -> list[float]:
    room = (max(xs) / min(xs)) ** 0.06
    return [min(xs) / room, max(xs) * room]


def _bands(stretches: Sequence[Told], xs: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield where each stretch begins and ends: half way to its neighbours."""
    least, most = _domain(xs)
    edges = [most if xs[0] > xs[-1] else least]
    edges += [(one * other) ** 0.5 for one, other in pairwise(xs)]
    edges.append(least if xs[0] > xs[-1] else most)
    for part in stretches:
        places = [_place(setting) for setting in part["settings"]]
        if places[0] in xs and places[-1] in xs:
            first, last = edges[xs.index(places[0])], edges[xs.index(places[-1]) + 1]
            yield {"method": part["method"], "label": part["label"], "x": first, "to": last}


_POINT = {"Method": "label:N", "Setting": "setting:N", "Utility": "utility_text:N", "Rank": "rank:Q"}


def _lines(rows: pd.DataFrame, x: alt.X) -> list[Any]:
    base = alt.Chart(rows).transform_calculate(utility_text=in_percent("utility")).encode(x=x)
    y = utility_axis().scale(zero=False)
    return [
        base.mark_area(opacity=0.12).encode(y=alt.Y("utility_lo:Q", title="Utility"), y2="utility_hi:Q"),
        base.mark_line(point=True).encode(y=y, tooltip=hover(**_POINT)),
    ]


def _band(bands: pd.DataFrame, x: alt.X, colour: alt.Color, cards: Cards) -> list[Any]:
    """Draw the stretches between the lines and the axis."""
    if bands.empty:
        return []
    inks = [text_on(cards.method(name).colour) for name in bands["method"]]
    middles = bands.assign(ink=inks, x=(bands["x"] * bands["to"]) ** 0.5)
    ends = {"y": alt.value(HEIGHT + 4), "y2": alt.value(HEIGHT + 4 + BAND)}
    middle = {"y": alt.value(HEIGHT + 4 + BAND / 2), "color": alt.Color("ink:N", scale=None)}
    bars = alt.Chart(bands).mark_rect(stroke="white", cornerRadius=3)
    names = alt.Chart(middles).mark_text(fontSize=10, fontWeight="bold")
    return [
        bars.encode(x=x, x2="to:Q", color=colour, tooltip=hover(Enough="label:N"), **ends),
        names.encode(x=x, text="label:N", **middle),
    ]


def _dots(rows: pd.DataFrame) -> Any:
    """Draw settings without a knob to draw a line along."""
    base = alt.Chart(rows).transform_calculate(utility_text=in_percent("utility"))
    base = base.encode(x=alt.X("label:N", title=None, sort=None))
    y = utility_axis().scale(zero=False)
    return alt.layer(
        base.mark_rule().encode(y=alt.Y("utility_lo:Q", title="Utility"), y2="utility_hi:Q"),
        base.mark_point(filled=True, size=60).encode(y=y, tooltip=hover(**_POINT)),
    ).properties(height=HEIGHT)
