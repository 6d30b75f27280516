"""Utility against pressure: a line per method, and below it which method is enough where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from tempora_tta import words
from tempora_tta.analysis.answer import overview
from tempora_tta.cards import Cards
from tempora_tta.report.drawing import (
    Drawn,
    between,
    chart_of,
    hover,
    method_colour,
    text_on,
    titled,
    utility_axis,
)
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


def pressure(results: Results, shift: str | None = None) -> Drawn:
    """Draw utility against pressure, one panel per kind of deployment; of one shift, or of all together."""
    charts = [
        chart.properties(title=results.cards.scenario(kind).situation, width=260)
        for kind, (chart, _) in panels(results, shift).items()
    ]
    finding = " ".join(words.summary(overview(results, shift))) or "Utility of every method."
    return titled(alt.hconcat(*charts).resolve_scale(y="shared"), results), finding


def panels(results: Results, shift: str | None = None) -> dict[str, Drawn]:
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
        best = ", ".join(
            f"{one['ranking'][0]['label']} {words.value(one['ranking'][0]['utility'])} "
            f"when {words.where(one['setting'])}"
            for one in own
        )
        found[kind] = _panel(own, names, methods, cards), f"Best: {best}."
    return found


_SHOWN = ("method", "label", "utility", "utility_lo", "utility_hi", "rank")


def _panel(answers: Sequence[Told], stretches: Sequence[Told], methods: Sequence[str], cards: Cards) -> Any:
    first, xs = answers[0]["setting"], [_place(one["setting"]) for one in answers]
    settings = [" ".join(words.setting(one["setting"])).strip() for one in answers]
    rows = pd.DataFrame(
        [
            {"x": x, "setting": setting, **{name: row.get(name) for name in _SHOWN}}
            for one, x, setting in zip(answers, xs, settings, strict=True)
            for row in one["ranking"]
        ]
    )
    colour = method_colour(cards, methods, columns=4)
    base, y = chart_of(rows).encode(color=colour), utility_axis().scale(zero=False)
    reach = between("utility_lo", "utility_hi")
    tooltip = hover(Method="label:N", Setting="setting:N", Utility="utility_text:N", Rank="rank:Q")
    if rows["x"].isna().any() or rows["x"].nunique() < 2:  # no knob to draw a line along
        x = alt.X("label:N", title=None, sort=None)
        points = base.mark_point(filled=True, size=60).encode(x=x, y=y, tooltip=tooltip)
        return alt.layer(base.mark_rule().encode(x=x, **reach), points).properties(height=HEIGHT)
    axis = alt.Axis(grid=False, offset=BAND + 8, values=sorted(xs), format=",.2r", labelOverlap="greedy")
    x = alt.X(
        "x:Q",
        title=_AXES.get(first["parameter"], ("", 1.0, cards.scenario(first["kind"]).axis))[2],
        # Strict is on the left, whether that is the larger number or the smaller.
        scale=alt.Scale(type="log", nice=False, domain=_domain(xs), reverse=xs[0] > xs[-1]),
        axis=axis,
    )
    lines = (
        base.mark_area(opacity=0.12).encode(x=x, **reach),
        base.mark_line(point=True).encode(x=x, y=y, tooltip=tooltip),
    )
    band = _band(pd.DataFrame(_stretches(stretches, xs)), x, colour, cards)
    return alt.layer(*lines, *band).properties(height=HEIGHT)


def _place(setting: Told) -> float:
    fact, factor, _ = _AXES.get(setting["parameter"], ("value", 1.0, ""))
    value = setting[fact]
    return float("nan") if value is None or value <= 0 else factor * float(value)


def _domain(xs: Sequence[float]) -> list[float]:
    room = (max(xs) / min(xs)) ** 0.06
    return [min(xs) / room, max(xs) * room]


def _stretches(stretches: Sequence[Told], xs: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield where each stretch begins and ends: half way to its neighbours."""
    start, end = sorted(_domain(xs), reverse=xs[0] > xs[-1])
    edges = [start, *((one * other) ** 0.5 for one, other in pairwise(xs)), end]
    for part in stretches:
        first, last = (_place(part["settings"][place]) for place in (0, -1))
        if first in xs and last in xs:
            ends = {"x": edges[xs.index(first)], "to": edges[xs.index(last) + 1]}
            yield {"method": part["method"], "label": part["label"], **ends}


def _band(bands: pd.DataFrame, x: alt.X, colour: alt.Color, cards: Cards) -> list[Any]:
    """Draw the stretches between the lines and the axis."""
    if bands.empty:
        return []
    inks = [text_on(cards.method(name).colour) for name in bands["method"]]
    middles = bands.assign(ink=inks, x=(bands["x"] * bands["to"]) ** 0.5)
    top = HEIGHT + 4
    bars = alt.Chart(bands).mark_rect(stroke="white", cornerRadius=3)
    names = alt.Chart(middles).mark_text(fontSize=10, fontWeight="bold")
    return [
        bars.encode(
            x=x, x2="to:Q", y=alt.value(top), y2=alt.value(top + BAND),
            color=colour, tooltip=hover(Enough="label:N"),
        ),
        names.encode(
            x=x, y=alt.value(top + BAND / 2), text="label:N", color=alt.Color("ink:N", scale=None)
        ),
    ]  # fmt: skip
