"""Every chart of a run, drawn once with Vega-Altair: for the page, for notebooks and as files.

A chart is a function from results to the chart and one sentence that says what it shows, or None where the run has
nothing to draw. Charts fix no colour of text, axes or paper: files take those of `STYLE`, the page its own.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from tempora_tta import analysis, words
from tempora_tta._numbers import percent
from tempora_tta.analysis.answer import overview
from tempora_tta.analysis.cells import by_shift, over_all, winning_methods
from tempora_tta.analysis.doubt import EQUAL, UNDECIDED
from tempora_tta.analysis.of_run import cells_of, summary_of
from tempora_tta.analysis.paper import is_budgeted
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.names import CORRUPTION_GROUPS
from tempora_tta.published.methods import STANDARD
from tempora_tta.report.courses import protocols, timelines
from tempora_tta.report.drawing import (
    GREY,
    PARTS,
    STYLE,
    Drawn,
    as_json,
    between,
    called,
    chart_of,
    hover,
    method_colour,
    number,
    plain,
    plain_axis,
    short,
    text_on,
    titled,
    utility_axis,
)
from tempora_tta.report.frames import offline_batches, scenario_titles
from tempora_tta.report.pressure import pressure
from tempora_tta.report.stream import stream
from tempora_tta.report.vega import alt
from tempora_tta.scenarios import ScenarioCard
from tempora_tta.store import Results
from tempora_tta.store.atomic import remove_leftovers, write_atomically
from tempora_tta.words import shift_title

FORMATS = ("svg", "png", "pdf")
PPI = 200
BEST, BELOW = "#8fd0a8", GREY
"""Bands of the lead of the best method, and of what is worse than standard inference."""


# -- as files ------------------------------------------------------------------------------------------------


def save(
    results: Results,
    folder: Path | str,
    formats: Sequence[str] = ("svg",),
    names: Collection[str] | None = None,
    shifts: Sequence[str] | None = None,
) -> list[Path]:
    """Write every chart, or those of these `names`, that the run has data for: a file per chart and format.

    Returns the files. `shifts`: those that the chart of utilities shows, otherwise as `chosen_shifts`.
    """
    for kind in formats:
        if kind not in FORMATS:
            raise unknown("figure format", kind, FORMATS)
    if results.contenders.empty:
        raise TemporaError(f"{results.path} has no finished shift yet: let the run finish, then draw it")
    target, written = Path(folder), []
    target.mkdir(parents=True, exist_ok=True)
    charts: dict[str, Callable[[Results], Drawn | None]] = {
        **CHARTS,
        "utility": partial(utility, shifts=shifts),
    }
    for name in charts if names is None else names:
        if made := charts[name](results):
            specification = as_json(made[0]) | {"config": STYLE}
            for kind in formats:
                path = target / f"{name}.{kind}"
                data = _rendered(specification, kind, f"{name.capitalize()}. {made[1]}")
                remove_leftovers(path.parent, path.name)
                write_atomically(path, partial(Path.write_bytes, data=data))
                written.append(path)
    return written


def _rendered(specification: dict[str, Any], kind: str, finding: str) -> bytes:
    import vl_convert

    if kind == "png":
        return bytes(vl_convert.vegalite_to_png(specification, ppi=PPI))
    if kind == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(specification))
    svg: str = vl_convert.vegalite_to_svg(specification)
    start = svg.index(">", svg.index("<svg")) + 1  # browsers and screen readers read out an SVG's title
    return f"{svg[:start]}<title>{html.escape(plain(finding))}</title>{svg[start:]}".encode()


# -- who wins, and by how much -------------------------------------------------------------------------------


def winners(results: Results) -> Drawn:
    """Draw the winner of every shift and scenario (paper, figure 1); an undecided one is paler and has a `?`."""
    cards, titles = results.cards, scenario_titles(results.contenders)
    best = analysis.winners(by_shift(cells_of(results)), cards)
    wins = analysis.wins_of(best, cards)
    methods = list(dict.fromkeys([*wins, *best["winner"]]))
    counts = {name: f"{cards.label(name)} {wins.get(name, 0)}" for name in methods}
    cells = best[["shift", "scenario", "protocol", "utility"]].assign(
        method=best["winner"],
        text=[_winner_text(row, cards) for _, row in best.iterrows()],
        undecided=best["verdict"] == UNDECIDED,
        ink=[text_on(cards.method(name).colour) for name in best["winner"]],
    )
    cells["ink"] = cells["ink"].mask(cells["undecided"], "#000000")
    shifts = {str(name): shift_title(str(name)) for name in best["shift"].unique()}
    colour = method_colour(cards, methods, counts)
    panels: list[Any] = []
    for protocol, part in cells.groupby("protocol", sort=False):
        rows = None if panels else plain_axis(labelExpr=called(shifts))
        columns = {number: titles[number].replace(" of λN", "") for number in part["scenario"].unique()}
        y = alt.Y("shift:N", title=None, axis=rows, sort=list(shifts))
        panel = _squares(part, columns, colour).encode(y=y)
        panels.append(panel.properties(title=cards.title(str(protocol))))
    finding = f"Cells won: {', '.join(counts.values())}. {words.sureness(vars(summary_of(results)))}"
    return titled(alt.hconcat(*panels, spacing=14), results), finding


def _squares(cells: pd.DataFrame, titles: dict[int, str], colour: alt.Color) -> Any:
    """Draw the cells of one protocol, one column per scenario."""
    columns = plain_axis(orient="top", labelAngle=0, labelLimit=0, labelExpr=called(titles))
    order = [int(number) for number in titles]
    base = chart_of(cells).encode(x=alt.X("scenario:O", title=None, axis=columns, sort=order))
    squares = base.mark_rect(stroke="white", strokeWidth=2, cornerRadius=5).encode(
        color=colour,
        opacity=alt.condition("datum.undecided", alt.value(0.45), alt.value(1.0)),
        tooltip=hover(Winner="text:N", Shift="shift:N", Utility="utility_text:N"),
    )
    text = base.mark_text(fontSize=9, fontWeight="bold").encode(
        text="text:N", color=alt.Color("ink:N", scale=None)
    )
    width = min(110, max(64, 6 * max(map(len, titles.values()))))
    return alt.layer(squares, text).properties(width=alt.Step(width), height=alt.Step(28))


def _winner_text(row: pd.Series[Any], cards: Cards) -> str:
    """`Settle`, with `+1` where another shares the win, `=` where another is level, `?` where it is undecided."""
    sharing = len(winning_methods(row)) - 1
    sign = {EQUAL: " =", UNDECIDED: " ?"}.get(str(row["verdict"]), "")
    return short(cards.label(row["winner"]), 9) + (f" +{sharing}" if sharing else sign)


MOST_SHIFTS = 4
"""Columns of the chart `utility`."""
PRINTED_SHIFTS = ("impulse_noise", "defocus_blur", "brightness", "contrast")
"""The columns of the paper's."""


def utility(results: Results, shifts: Sequence[str] | None = None) -> Drawn | None:
    """Draw utility per protocol and shift (paper, figure 3): the best's lead in green, below Standard in grey."""
    cards, titles = results.cards, scenario_titles(results.contenders)
    rows = by_shift(cells_of(results))
    rows = rows[[bool(cards.scenario(name).parameter) for name in rows["protocol"]]]
    rows = rows[rows["queue"] == rows.groupby("protocol")["queue"].transform("max")]
    if rows.empty:
        return None
    there, methods = list(rows["shift"].unique()), cards.in_order(rows["method"])
    for shift in shifts or ():
        if shift not in there:
            raise unknown("shift", shift, there)
    colour = method_colour(cards, methods)
    lines: list[Any] = []
    for protocol in cards.in_protocol_order(rows["protocol"]):
        own = rows[rows["protocol"] == protocol]
        title = _axis_title(cards.scenario(protocol), str(own["label"].iloc[0]))
        panels = []
        for place, shift in enumerate(shifts or chosen_shifts(there)):
            part = own[own["shift"] == shift]
            panel = _panel(part, titles, colour, title, "" if place else f"{cards.title(protocol)}: utility")
            heading = "" if lines else short(shift_title(shift), 22)
            panels.append(panel.properties(width=170, height=140, title=heading))
        lines.append(alt.hconcat(*panels))
    finding = " ".join(words.summary(overview(results))) or "Utility of every method."
    return titled(alt.vconcat(*lines), results), finding


def chosen_shifts(shifts: list[str]) -> list[str]:
    """Choose one corruption of each kind, the paper's where it is there, or simply the first few shifts."""
    if len(shifts) <= MOST_SHIFTS:
        return shifts
    kinds = [[name for name in group if name in shifts] for group in CORRUPTION_GROUPS.values()]
    one_each = [next((name for name in kind if name in PRINTED_SHIFTS), kind[-1]) for kind in kinds if kind]
    return one_each if len(one_each) == MOST_SHIFTS else shifts[:MOST_SHIFTS]


def _panel(rows: pd.DataFrame, titles: dict[int, str], colour: alt.Color, title: str, y_title: str) -> Any:
    """Draw one shift under one protocol: lines, intervals, a ring around the best of each scenario."""
    known = rows.dropna(subset="utility")
    bands = pd.DataFrame([_bands(part) for _, part in known.groupby("scenario", sort=False)])
    order = bands["scenario"].tolist()
    ticks = {number: _tick(titles[number]) for number in order}
    x = alt.X(
        "scenario:O", title=title, sort=order, scale=alt.Scale(type="point"),
        axis=alt.Axis(labelExpr=called(ticks), labelAngle=0, labelFontSize=9, labelOverlap="greedy", grid=False),
    )  # fmt: skip
    y = utility_axis(title=y_title).scale(zero=True)
    columns = ["scenario", "method", "utility", "sample_lo", "sample_hi", "rank"]
    band, base = alt.Chart(bands).encode(x=x), alt.Chart(rows[columns]).encode(x=x, color=colour)
    is_standard = f"datum.method == '{STANDARD}'"
    return alt.layer(
        band.mark_area(color=BELOW, opacity=0.16).encode(**between("zero", "standard", y_title)),
        band.mark_area(color=BEST, opacity=0.3).encode(**between("next", "best", y_title)),
        base.mark_rule(opacity=0.8).encode(**between("sample_lo", "sample_hi", y_title)),
        base.mark_line(strokeWidth=1.6).encode(
            y=y, strokeDash=alt.condition(is_standard, alt.value([4, 3]), alt.value([1, 0]))
        ),
        base.mark_point(filled=True, size=16, opacity=1).encode(y=y),
        base.transform_filter("datum.rank == 1").mark_point(size=90, strokeWidth=1.6, opacity=1).encode(y=y),
    )


def _bands(rows: pd.DataFrame) -> dict[str, float]:
    """Return the ends of the two bands: up to standard inference, and from what is next up to the best."""
    standard = rows.loc[rows["method"] == STANDARD, "utility"].sum()  # 0 where there is none
    best, *others = sorted(rows["utility"], reverse=True)
    after = max(standard, others[0] if others else best)
    scenario = int(rows["scenario"].iloc[0])
    return {"scenario": scenario, "zero": 0.0, "standard": standard, "next": after, "best": best}


def _axis_title(card: ScenarioCard, label: str) -> str:
    """Return the knob without its unit, which the ticks have, and the symbol if it is not the knob's own.

    >>> from tempora_tta.cards import OURS
    >>> _axis_title(OURS["discrete"], "ρ 50 %"), _axis_title(OURS["continuous"], "T 5λ")
    ('Arrival interval γ, as ρ', 'Patience threshold T')
    """
    name = card.axis.rsplit(" (", 1)[0]
    symbol = label.partition(" ")[0]
    return f"{name}, as {symbol}" if len(symbol) == 1 and symbol not in name else name


def _tick(label: str) -> str:
    """Return `100 %` of `ρ 100 %`; a name in words stays whole.

    >>> _tick("ρ 100 %"), _tick("two paces")
    ('100 %', 'two paces')
    """
    symbol, _, number = label.partition(" ")
    return number.replace(" of λN", "") if len(symbol) == 1 and number else label


# -- what adaptation costs, and what it buys -----------------------------------------------------------------


_PARTS = {
    "baseline, up to λ": PARTS["baseline"],
    "intrinsic": PARTS["intrinsic"],
    "extrinsic": PARTS["extrinsic"],
}


def latency(results: Results) -> Drawn | None:
    """Draw the mean time of a batch per method: baseline, intrinsic overhead, extrinsic overhead."""
    batches, cards = offline_batches(results), results.cards
    if batches.empty:
        return None
    baseline_ms = float(results.contenders["baseline_ms"].iloc[0])
    rows = analysis.overhead(batches, baseline_ms, cards).set_index("method")
    methods = cards.in_order(rows.index)
    rows = rows.loc[methods].reset_index()
    usual = rows["predict_ms"].clip(upper=baseline_ms)
    lengths = (usual, rows["predict_ms"] - usual, rows["adapt_ms"])
    parts = pd.concat(
        [
            rows[["method"]].assign(part=name, length=length)
            for name, length in zip(_PARTS, lengths, strict=True)
        ]
    )
    parts["to"] = parts.groupby("method")["length"].cumsum()
    parts["from"] = parts["to"] - parts["length"]
    times = [f"{time_ms / baseline_ms:.2f}" for time_ms in rows["service_ms"]]
    whole = pd.DataFrame(
        {"method": methods, "to": rows["service_ms"], "text": [f"{time}λ" for time in times]}
    )
    names = called({name: cards.label(name) for name in methods})
    y = alt.Y("method:N", title=None, sort=methods, axis=plain_axis(labelExpr=names))
    x = alt.X("from:Q", title="Mean milliseconds per batch")
    colour = alt.Color(
        "part:N", scale=alt.Scale(domain=list(_PARTS), range=list(_PARTS.values())),
        legend=alt.Legend(title=None, orient="top", symbolType="square"),
    )  # fmt: skip
    tooltip = [*hover(Method="method:N", Part="part:N"), number("length", "Milliseconds", 2)]
    chart = alt.layer(
        alt.Chart(parts[parts["length"] > 0]).mark_bar(height={"band": 0.66}).encode(
            x=x, x2="to:Q", y=y, color=colour, tooltip=tooltip
        ),
        alt.Chart(whole).mark_text(align="left", dx=5, color=GREY).encode(x="to:Q", y=y, text="text:N"),
        alt.Chart(pd.DataFrame({"at": [baseline_ms]})).mark_rule(strokeDash=[3, 3], color=GREY).encode(x="at:Q"),
    )  # fmt: skip
    each = ", ".join(f"{cards.label(method)} {time}" for method, time in zip(methods, times, strict=True))
    finding = f"Mean time of a batch in multiples of λ, {baseline_ms:.4g} ms: {each}."
    return titled(chart.properties(width=520, height=24 * len(methods)), results), finding


def pareto(results: Results) -> Drawn | None:
    """Draw utility against the overhead spent, budget by budget over all shifts, and the front that nothing beats."""
    cards = results.cards
    rows = over_all(cells_of(results))
    if not is_budgeted(rows, cards).any() or STANDARD not in set(rows["method"]):
        return None
    columns = ["method", "label", "utility", "seconds", "diminishing", "text"]
    curves, front = (
        frame.assign(
            seconds=frame["overhead_ms"] / 1000,
            text=frame["method"].map(cards.label) + " at " + frame["label"],
        )[columns]
        for frame in (analysis.budget_curves(rows, cards), analysis.pareto_front(rows, cards))
    )
    x, y = _seconds(curves["seconds"]), utility_axis().scale(zero=False)
    colour = method_colour(cards, cards.in_order(curves["method"]), columns=4)
    base = chart_of(curves).encode(x=x, y=y, color=colour)
    tooltip = [*hover(Method="text:N", Utility="utility_text:N"), number("seconds", "seconds", 3)]
    best = alt.Chart(front).encode(x=x, y=y)
    turn = best.transform_filter("datum.diminishing").transform_window(place="row_number()")
    chart = alt.layer(
        best.mark_line(interpolate="step-after", strokeWidth=8, opacity=0.2, color=GREY),
        base.mark_line(strokeWidth=1.6).encode(order="seconds:Q"),
        base.mark_point(filled=True, size=36, opacity=1).encode(tooltip=tooltip),
        turn.transform_filter("datum.place == 1")
        .mark_text(align="right", dx=-8, dy=-10, fontSize=11, color=GREY)
        .encode(text=alt.value("returns diminish")),
    )
    points = ", ".join(
        f"{cards.label(row['method'])} {percent(row['utility'])} for {row['seconds']:.3g} s"
        for _, row in front.iterrows()
    )
    finding = f"No method gets more utility for less overhead than: {points}."
    return titled(chart.properties(width=460, height=300), results), finding


def _seconds(spent: pd.Series[float]) -> alt.X:
    """Return the axis of overheads from 0 on: linear, or logarithmic where they are of several sizes."""
    some = spent[spent > 0]
    if some.empty or some.max() < 20 * some.min():
        return alt.X("seconds:Q", title="Overhead spent (s), linear")
    # Zero has no logarithm: up to the first power of ten below what was spent the axis is linear.
    first, last = math.floor(math.log10(some.min())), math.ceil(math.log10(some.max()))
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    ticks = [0.0, *(step * 10.0**power for power in range(first, last + 1) for step in steps)]
    return alt.X(
        "seconds:Q",
        title=f"Overhead spent (s), logarithmic from {10.0**first:g} s on",
        scale=alt.Scale(type="symlog", constant=10.0**first, nice=False),
        axis=alt.Axis(values=[tick for tick in ticks if tick <= 1.15 * some.max()], format="~g", grid=False),
    )


MOST_POINTS = 20.0
"""Points behind the best: the end of the axis of the chart `profiles`."""


def profiles(results: Results) -> Drawn | None:
    """Draw the share of the cells under pressure in which each method is within a number of points of the best."""
    cards = results.cards
    cells = cells_of(results)
    if cells.loc[~cells["reference"], "method"].nunique() < 2:
        return None
    rows = analysis.performance_profile(cells, cards)
    regrets = analysis.regret(cells, cards).set_index("method")["mean_regret"]
    rows = rows[rows["points"] <= MOST_POINTS]
    ends = rows.groupby("method").tail(1).assign(points=MOST_POINTS)
    rows = pd.concat([rows, ends])[["method", "points", "share"]]
    methods = cards.in_order(rows["method"])
    named = {name: f"{cards.label(name)}, regret {100 * regrets[name]:.1f}" for name in methods}
    colour = method_colour(cards, methods, named, columns=4)
    x = alt.X("points:Q", title="Points behind the best method of the cell", scale=alt.Scale(nice=False))
    y = utility_axis("share", "Cells under pressure").scale(domain=[0, 1.01])
    chart = alt.Chart(rows).mark_line(interpolate="step-after").encode(x=x, y=y, color=colour)
    means = ", ".join(
        f"{cards.label(str(name))} {100 * mean:.1f}" for name, mean in regrets.sort_values().items()
    )
    finding = f"Mean points behind the best of each cell under pressure: {means}."
    return titled(chart.properties(width=520, height=260), results), finding


# -- over time -----------------------------------------------------------------------------------------------


CHARTS: dict[str, Callable[[Results], Drawn | None]] = {
    "winners": winners,
    "pressure": pressure,
    "utility": utility,
    "timelines": timelines,
    "protocols": protocols,
    "pareto": pareto,
    "profiles": profiles,
    "latency": latency,
    "stream": stream,
}


def drawn(results: Results, name: str, shift: str | None = None) -> alt.typing.ChartType:
    """Return a chart by name; raises an error where the run has no data for it."""
    if name not in CHARTS:
        raise unknown("chart", name, CHARTS)
    if shift is not None and name != "pressure":
        raise TemporaError(
            f"shift={shift!r}: only the chart 'pressure' takes a shift; leave it out with {name!r}"
        )
    made = pressure(results, shift) if name == "pressure" else CHARTS[name](results)
    if made is None:
        raise TemporaError(f"this run has no data for the chart {name!r}")
    chart: alt.typing.ChartType = made[0]
    return chart
