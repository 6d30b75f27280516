"""The figures: every kind is drawn, in every format, and shows what the run says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from made_runs import GRID, METHODS, WIDE_GRID, write_run
from tempora_tta import analysis
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import card_of
from tempora_tta.report.colours import BASELINE, EXTRINSIC, FALLBACK, FROZEN, IDLE, INTRINSIC
from tempora_tta.report.figures import FORMATS, make_figures
from tempora_tta.report.figures.costs import _overhead_axis, latency
from tempora_tta.report.figures.protocols import protocols
from tempora_tta.report.figures.style import new_figure, styled
from tempora_tta.report.figures.timelines import timelines
from tempora_tta.report.figures.utility import chosen_shifts, utility
from tempora_tta.report.figures.winners import winners
from tempora_tta.scenarios import Deployment, Discrete, serve
from tempora_tta.store import Results

NAMES = {"winners", "timelines", "utility", "protocols", "pareto", "profiles", "latency"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return write_run(tmp_path_factory.mktemp("run"), scenarios=WIDE_GRID)


def title_of(path: Path) -> str:
    """What a browser reads out of an SVG."""
    found = ElementTree.parse(path).getroot().find("{http://www.w3.org/2000/svg}title")
    assert found is not None
    return str(found.text)


def texts(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [found.get_text() for found in figure.findobj(Text) if found.get_text()]


def bars(axes: Any, wanted: str) -> list[tuple[float, float]]:
    """(start, length) of the blocks of one colour."""
    from matplotlib.colors import to_hex

    return [
        (bar.get_x(), bar.get_width())
        for bar in axes.patches
        if to_hex(bar.get_facecolor()) == wanted.lower()
    ]


def test_one_file_per_figure_and_format_and_the_same_every_time(results: Results, tmp_path: Path) -> None:
    written = make_figures(results, tmp_path / "new" / "folder", FORMATS)
    assert {path.name for path in written} == {f"{name}.{kind}" for name in NAMES for kind in FORMATS}
    starts = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}
    drawn = {path.name: path.read_bytes() for path in written}
    assert all(drawn[path.name].startswith(starts[path.suffix[1:]]) for path in written)
    again = make_figures(results, tmp_path / "again")
    assert len(again) == len(NAMES)
    assert all(path.read_bytes() == drawn[path.name] for path in again)
    told = {path.stem: title_of(path) for path in again}
    assert len(set(told.values())) == len(NAMES), "every file says what it shows"
    for name, text in told.items():
        assert text.startswith(f"{name.capitalize()}. "), text
        assert re.search(r"\d", text), "in numbers"
        with Image.open(tmp_path / "new" / "folder" / f"{name}.png") as picture:
            assert picture.info["Description"] == text.partition(". ")[2]
    best = next(iter(analysis.wins_of(analysis.winners(results.utilities))))
    assert f"Cells won: {card_of(best).label} " in told["winners"]
    assert told["utility"].startswith("Utility. Use ")


def test_the_grid_has_the_winners_in_their_colours(results: Results) -> None:
    from matplotlib.colors import to_hex

    with styled():
        figure = winners(results)
    best = analysis.winners(results.utilities.drop(columns="scenario"))
    squares = [to_hex(patch.get_facecolor()) for patch in figure.axes[0].patches]
    assert sorted(squares) == sorted(card_of(name).colour for name in best["winner"])


def test_a_run_that_is_not_judged_yet_is_drawn_and_shown(tmp_path: Path) -> None:
    unfinished = write_run(tmp_path / "run", scenarios=GRID, batches=8, finished=False, judged=False)
    assert len(make_figures(unfinished, tmp_path / "figures")) == len(NAMES)
    with styled():
        assert not [text for text in texts(winners(unfinished)) if text.startswith("timing")]


def test_drawing_leaves_the_run_s_traces_alone(tmp_path: Path) -> None:
    """A pass of its own is given out as it was read, and kept."""
    results = write_run(tmp_path, scenarios=WIDE_GRID, batches=12)
    live = results.utilities[results.utilities["origin"] == "live"]
    before = {index: results.trace(cell).arrived_ms.copy() for index, cell in live.iterrows()}
    with styled():
        timelines(results)
    for index, cell in live.iterrows():
        np.testing.assert_array_equal(results.trace(cell).arrived_ms, before[index])


def test_markers_tell_the_family_of_a_method(tmp_path: Path) -> None:
    """Squares for gradient-free methods, in the legend too; other methods have circles."""
    methods = {name: METHODS[name.partition("@")[0]] for name in ("standard", "tent", "adabn@amp")}
    results = write_run(tmp_path / "run", methods=methods, scenarios=GRID, batches=8)
    make_figures(results, tmp_path / "figures")
    with styled():
        figure = utility(results)
    assert figure is not None
    markers = {handle.get_label(): handle.get_marker() for handle in figure.legends[0].get_lines()}
    assert markers == {"Standard": "s", "adabn@amp": "s", "Tent": "o"}


def test_queues_have_names_of_their_own(tmp_path: Path) -> None:
    scenarios = (Discrete(interval_ms=15.0, queue=0), Discrete(interval_ms=15.0, queue=1))
    with styled():
        figure = winners(write_run(tmp_path, scenarios=(WIDE_GRID[0], *scenarios), batches=8))
    assert {"γ 15 ms\nqueue 0", "γ 15 ms\nqueue 1"} <= set(texts(figure))


def test_timelines_have_all_parts_of_a_trace(results: Results) -> None:
    with styled():
        figure = timelines(results)
    assert figure is not None
    offline, discrete, _, amortised = figure.axes
    row = results.utilities[
        (results.utilities["method"] == "tent")
        & (results.utilities["shift"] == "fog")
        & (results.utilities["protocol"] == "offline")
    ].iloc[0]
    trace = results.trace(row)
    assert bars(offline, EXTRINSIC)[0] == pytest.approx((trace.emission_ms[0], trace.adapt_ms[0]))
    assert bars(offline, INTRINSIC)[0] == pytest.approx((10.0, trace.predict_ms[0] - 10.0))
    assert len(bars(amortised, FROZEN)) > 0
    assert len(bars(discrete, BASELINE)) < 9
    assert {"arrivals", "pipeline", "predictions", "Discrete", "Amortised", "skipped"} <= set(texts(figure))


@pytest.mark.parametrize("cost", ["free", "charged"])
def test_the_fallback_has_a_panel_and_a_free_one_a_lane(tmp_path: Path, cost: str) -> None:
    rescued = Deployment(interval_ms=10.0, queue=0, fallback="latest", fallback_cost=cost)
    made = write_run(tmp_path, scenarios=(WIDE_GRID[0], rescued), shifts=("fog",), batches=12)
    with styled():
        figure = timelines(made)
    assert figure is not None
    _, panel = figure.axes
    cell = made.utilities.query("method == 'tent' and scenario == 1").iloc[0]
    trace = made.trace(cell)
    lost = np.flatnonzero(trace.phase[:9] == 3)
    assert lost.size > 2
    assert [start for start, _ in bars(panel, FALLBACK)] == pytest.approx(sorted(trace.start_ms[lost]))
    served = np.flatnonzero(trace.phase[:9] != 3)
    assert [start for start, _ in bars(panel, BASELINE)] == pytest.approx(sorted(trace.start_ms[served]))
    # The legend names the part once; a free fallback has a lane with that name too.
    assert texts(figure).count("fallback") == (2 if cost == "free" else 1)


def test_protocols_are_replays_of_one_stream(results: Results) -> None:
    with styled():
        figure = protocols(results)
    assert figure is not None
    dual, unbuffered, buffered = figure.axes
    row = results.utilities[
        (results.utilities["method"] == "tent")
        & (results.utilities["shift"] == "fog")
        & (results.utilities["protocol"] == "offline")
    ].iloc[0]
    service_ms = results.trace(row).service_ms[:10]
    for axes, queue in ((unbuffered, 0), (buffered, 1)):
        course = serve(service_ms, [10.0 * batch for batch in range(10)], queue)
        assert [start for start, _ in bars(axes, BASELINE)] == pytest.approx(course.start_ms.tolist())
        assert sum(length for _, length in bars(axes, IDLE)) == pytest.approx(course.idle_ms.sum())
    lost = serve(service_ms, [10.0 * batch for batch in range(10)], 0).evicted
    assert [start for start, _ in bars(dual, FALLBACK)] == pytest.approx([10.0 * batch for batch in lost])


def test_utility_rings_the_best_of_every_point(results: Results) -> None:
    with styled():
        figure = utility(results)
    assert figure is not None
    discrete = figure.axes[0]
    rings = [line.get_ydata()[0] for line in discrete.lines if line.get_markersize() == 8.5]
    cells = results.utilities[results.utilities["protocol"] == "discrete"]
    shift = discrete.get_title(loc="left").lower()
    best = cells[cells["shift"] == shift].groupby("value")["utility"].max()
    assert rings == pytest.approx((100 * best).tolist())


def test_latency_bars_end_where_the_service_ends(results: Results) -> None:
    with styled():
        figure = latency(results)
    assert figure is not None
    ends = [text for text in texts(figure) if re.fullmatch(r"\s*[\d.]+λ", text)]
    offline = results.utilities[results.utilities["protocol"] == "offline"]
    sar = [results.trace(row).service_ms.mean() for _, row in offline[offline["method"] == "sar"].iterrows()]
    assert float(ends[-1].strip().rstrip("λ")) == pytest.approx(sum(sar) / len(sar) / 10.0, abs=0.006)


def test_one_corruption_of_each_kind_is_chosen() -> None:
    many = ["gaussian_noise", "impulse_noise", "zoom_blur", "snow", "brightness", "contrast"]
    assert chosen_shifts(many) == ["impulse_noise", "zoom_blur", "brightness", "contrast"]
    assert chosen_shifts(["a", "b"]) == ["a", "b"]
    assert chosen_shifts(list("abcdef")) == list("abcd")


def test_draws_what_a_small_run_has(tmp_path: Path) -> None:
    offline = write_run(tmp_path / "run", scenarios=WIDE_GRID[:1], batches=8, verdict="WARN")
    drawn = {path.stem for path in make_figures(offline, tmp_path / "figures")}
    assert drawn == {"winners", "timelines", "protocols", "latency"}
    with styled():
        assert "timing WARN" in texts(winners(offline))


def test_names_are_text(tmp_path: Path) -> None:
    name = r"$\frac{1}{0}$ <b>" + "x" * 90
    methods = {"standard": METHODS["standard"], f"mine:{name}": METHODS["tent"]}
    odd = write_run(tmp_path / "run", methods=methods, scenarios=GRID, shifts=(name,), batches=10)
    assert len(make_figures(odd, tmp_path / "figures")) == len(NAMES)


def test_an_unknown_format_is_named(results: Results, tmp_path: Path) -> None:
    with pytest.raises(TemporaError, match="unknown figure format 'pgn': did you mean 'png'"):
        make_figures(results, tmp_path, ["pgn"])


@pytest.mark.parametrize(
    ("seconds", "scale", "ticks"),
    [
        ([0, 0.5, 2.0], "linear", None),
        ([0, 0.012, 0.39], "symlog", ["0", "0.01", "0.02", "0.05", "0.1", "0.2"]),
        ([0, 0.0003, 0.07], "symlog", ["0", "0.0001", "0.001", "0.01"]),
        ([0, 0.2, 900.0], "symlog", ["0", "0.1", "1", "10", "100", "1000"]),
    ],
)
def test_overheads_have_readable_ticks_whatever_their_size(
    seconds: list[float], scale: str, ticks: list[str] | None
) -> None:
    figure, axes = new_figure(7, 4)
    axes.plot(seconds, [1, 2, 3])
    _overhead_axis(axes, pd.Series(seconds))
    figure.draw_without_rendering()
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert axes.get_xscale() == scale
    assert ("logarithmic from" if scale == "symlog" else "linear") in axes.get_xlabel()
    assert len(shown) >= 4 if ticks is None else shown == ticks
    assert axes.get_xlim()[0] < 0 < max(seconds) < axes.get_xlim()[1], "what costs nothing is seen whole"


def test_type_is_of_weights_that_every_font_has(results: Results) -> None:
    """Others make matplotlib complain, and look different on every machine."""
    from matplotlib.text import Text

    weights = {text.get_fontweight() for text in winners(results).findobj(Text)}
    assert weights <= {"normal", "bold"}
