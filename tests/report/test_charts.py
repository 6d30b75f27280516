"""The charts: every kind is drawn, in every format, and shows what the run says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from made_runs import GRID, METHODS, WIDE_GRID, write_run
from tempora_tta import analysis
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import card_of
from tempora_tta.report.charts import CHARTS, FORMATS, save
from tempora_tta.report.frames import offline_batches
from tempora_tta.report.pressure import panels
from tempora_tta.scenarios import Deployment, Offline, serve
from tempora_tta.store import Results

NAMES = {"winners", "pressure", "timelines", "utility", "protocols", "pareto", "profiles", "latency"}

Rows = list[dict[str, Any]]


def drawn(results: Results, name: str) -> dict[str, Any]:
    """The specification, held to Vega-Lite's schema."""
    made = CHARTS[name](results)
    assert made is not None
    found: dict[str, Any] = made[0].to_dict()
    return found


def rows_of(part: dict[str, Any], chart: dict[str, Any], column: str) -> Rows:
    """The rows of the data set below a part of a chart that has the column."""
    sets = {layer["data"]["name"] for layer in layers(part) if "data" in layer}
    return next(rows for name in sorted(sets) if column in (rows := chart["datasets"][name])[0])


def layers(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield part
    for kind in ("layer", "hconcat", "vconcat"):
        for child in part.get(kind, []):
            yield from layers(child)


def blocks(panel: dict[str, Any], chart: dict[str, Any], part: str) -> list[tuple[float, float]]:
    """(start, length) of the blocks of one part of the time."""
    return [(row["from"], row["length"]) for row in rows_of(panel, chart, "part") if row["part"] == part]


def offline_tent(results: Results) -> Any:
    row = results.utilities.query("method == 'tent' and shift == 'fog' and protocol == 'offline'").iloc[0]
    return results.trace(row)


def written(path: Path) -> tuple[str, str]:
    """Read the title that a browser shows for an SVG, and all its text."""
    root = ElementTree.parse(path).getroot()
    return root.findtext("{http://www.w3.org/2000/svg}title", ""), "".join(root.itertext())


def test_one_file_per_chart_that_says_what_it_shows(results: Results, tmp_path: Path) -> None:
    files = {path.stem: path for path in save(results, tmp_path / "new" / "folder")}
    assert set(files) == NAMES
    told = {name: written(path)[0] for name, path in files.items()}
    for name, text in told.items():
        assert text.startswith(f"{name.capitalize()}. "), "every file says what it shows"
        assert name == "pressure" or re.search(r"\d", text), "in numbers"
    best = next(iter(analysis.wins_of(analysis.winners(analysis.cells_of(results)))))
    assert f"Cells won: {card_of(best).label} " in told["winners"]


def test_every_format_of_what_a_small_run_has_and_the_same_every_time(tmp_path: Path) -> None:
    offline = write_run(tmp_path / "run", scenarios=WIDE_GRID[:1], batches=8, verdict="WARN")
    files = save(offline, tmp_path / "figures", FORMATS)
    names = ("winners", "pressure", "timelines", "protocols", "latency")
    assert {path.name for path in files} == {f"{name}.{kind}" for name in names for kind in FORMATS}
    starts = {".svg": b"<svg", ".pdf": b"%PDF", ".png": b"\x89PNG"}
    assert all(path.read_bytes().startswith(starts[path.suffix]) for path in files)
    again = save(offline, tmp_path / "again")
    assert all(path.read_bytes() == (tmp_path / "figures" / path.name).read_bytes() for path in again)
    assert drawn(offline, "winners")["title"]["text"] == ["timing WARN"]
    with pytest.raises(TemporaError, match=r"pgn.*png"):
        save(offline, tmp_path, ["pgn"])


def test_names_are_text_in_a_run_that_is_not_judged_yet(tmp_path: Path) -> None:
    name = r"$\frac{1}{0}$ <b>" + "x" * 90
    methods = {"standard": METHODS["standard"], f"mine:{name}": METHODS["tent"]}
    begun = {"finished": False, "judged": False}
    odd = write_run(tmp_path / "run", methods=methods, scenarios=GRID[:1], shifts=(name,), batches=8, **begun)
    assert save(odd, tmp_path / "figures")
    assert r"$\frac{1}{0}$ <b>x" in written(tmp_path / "figures" / "winners.svg")[1]
    assert "title" not in drawn(odd, "winners")


def test_the_grid_has_the_winners_in_their_colours(results: Results) -> None:
    chart = drawn(results, "winners")
    best = analysis.winners(analysis.by_shift(analysis.cells_of(results)))
    squares = [row for panel in chart["hconcat"] for row in rows_of(panel, chart, "ink")]
    cells = {(row["shift"], row["scenario"]): row["method"] for row in squares}
    assert cells == {(row["shift"], row["scenario"]): row["winner"] for _, row in best.iterrows()}
    scale = chart["hconcat"][0]["layer"][0]["encoding"]["color"]["scale"]
    assert scale["range"] == [card_of(name).colour for name in scale["domain"]]
    assert set(best["winner"]) == set(scale["domain"])


def test_an_undecided_winner_is_paler_and_has_a_question_mark(tmp_path: Path) -> None:
    twins = {"standard": METHODS["standard"], "tent": METHODS["tent"], "mine:Tent": METHODS["tent"]}
    results = write_run(tmp_path, methods=twins, scenarios=GRID, batches=8, luck=3)
    chart = drawn(results, "winners")
    squares = [row for panel in chart["hconcat"] for row in rows_of(panel, chart, "ink")]
    undecided = [row for row in squares if row["undecided"]]
    assert undecided
    assert all(row["text"].endswith("?") and row["ink"] == "#000000" for row in undecided)
    assert not any(row["text"].endswith("?") for row in squares if not row["undecided"])


def test_timelines_have_all_parts_of_a_trace(results: Results) -> None:
    chart = drawn(results, "timelines")
    offline, discrete, _, amortised = chart["vconcat"]
    trace = offline_tent(results)
    assert blocks(offline, chart, "extrinsic")[0] == pytest.approx((trace.emission_ms[0], trace.adapt_ms[0]))
    assert blocks(offline, chart, "intrinsic")[0] == pytest.approx((10.0, trace.predict_ms[0] - 10.0))
    assert blocks(amortised, chart, "frozen")
    assert len(blocks(discrete, chart, "baseline")) < 9
    assert {row["fate"] for row in rows_of(discrete, chart, "fate")} == {"served", "skipped", "answered"}
    assert [panel["title"]["text"] for panel in (offline, amortised)] == ["Offline", "Amortised"]


def test_a_free_fallback_has_a_lane_of_its_own(tmp_path: Path) -> None:
    rescued = Deployment(interval_ms=10.0, queue=0, fallback="latest", fallback_cost="free")
    made = write_run(tmp_path, scenarios=(WIDE_GRID[0], rescued), shifts=("fog",), batches=12)
    chart = drawn(made, "timelines")
    panel = chart["vconcat"][1]
    trace = made.trace(made.utilities.query("method == 'tent' and scenario == 1").iloc[0])
    lost = trace.phase[:9] == 3
    assert lost.sum() > 2
    for part, batches in (("fallback", lost), ("baseline", ~lost)):
        starts = [start for start, _ in blocks(panel, chart, part)]
        assert starts == pytest.approx(sorted(trace.start_ms[:9][batches]))
    assert {row["lane"] for row in rows_of(panel, chart, "part")} == {"pipeline", "fallback"}


def test_protocols_are_replays_of_one_stream(results: Results) -> None:
    chart = drawn(results, "protocols")
    dual, unbuffered, buffered = chart["vconcat"]
    service_ms, arrivals = offline_tent(results).service_ms[:10], [10.0 * batch for batch in range(10)]
    for panel, queue in ((unbuffered, 0), (buffered, 1)):
        course = serve(service_ms, arrivals, queue)
        assert [start for start, _ in blocks(panel, chart, "baseline")] == pytest.approx(
            course.start_ms.tolist()
        )
        assert sum(length for _, length in blocks(panel, chart, "idle")) == pytest.approx(
            course.idle_ms.sum()
        )
    lost = serve(service_ms, arrivals, 0).evicted
    assert blocks(dual, chart, "fallback") == [(pytest.approx(10.0 * batch), 10.0) for batch in lost]


def test_utility_has_every_cell_and_rings_the_best(results: Results) -> None:
    chart = drawn(results, "utility")
    panel = chart["vconcat"][0]["hconcat"][0]
    cells = results.utilities.query(f"protocol == 'discrete' and shift == '{panel['title'].lower()}'")
    shown = {(row["scenario"], row["method"]): row for row in rows_of(panel, chart, "sample_lo")}
    assert len(shown) == len(cells)
    for _, cell in cells.iterrows():
        assert shown[cell["scenario"], cell["method"]]["utility"] == pytest.approx(cell["utility"])
    assert panel["layer"][-1]["transform"] == [{"filter": "datum.rank == 1"}]
    bands = {row["scenario"]: row["best"] for row in rows_of(panel, chart, "standard")}
    assert bands == pytest.approx(cells.groupby("scenario")["utility"].max().to_dict())


def test_latency_bars_end_where_the_service_ends(results: Results) -> None:
    chart = drawn(results, "latency")
    whole = {row["method"]: row for row in rows_of({"layer": chart["layer"][1:2]}, chart, "text")}
    offline = results.utilities[results.utilities["protocol"] == "offline"]
    sar = [results.trace(row).service_ms.mean() for _, row in offline[offline["method"] == "sar"].iterrows()]
    assert whole["sar"]["to"] == pytest.approx(sum(sar) / len(sar))
    parts = [
        row["length"]
        for row in rows_of({"layer": chart["layer"][:1]}, chart, "part")
        if row["method"] == "sar"
    ]
    assert sum(parts) == pytest.approx(whole["sar"]["to"])


def test_accuracy_over_time_is_that_of_the_passes(tmp_path: Path) -> None:
    made = write_run(
        tmp_path / "run",
        scenarios=(Offline(),),
        shifts=("recurring",),
        seeds=(1, 2, 3),
        segments=("fog", "snow", "fog", "snow"),
    )
    chart, passes = drawn(made, "stream"), offline_batches(made).query("method == 'tent'")
    accuracy = np.stack([part["correct"] / part["total"] for _, part in passes.groupby("seed")])
    length = accuracy.shape[1] // 4
    around = max(1, length // 6)
    own = [row for row in rows_of(chart, chart, "accuracy") if row["method"] == "tent"]
    assert own
    for row in own:
        first = row["batch"] // length * length
        near = slice(max(first, row["batch"] - around), min(first + length, row["batch"] + around + 1))
        seeds = accuracy[:, near].mean(axis=1)
        reach = 4.30265272975 * seeds.std(ddof=1) / 3**0.5  # Student's t of three seeds
        assert row["accuracy"] == pytest.approx(seeds.mean(), abs=1e-12)
        assert row["high"] == pytest.approx(min(seeds.mean() + reach, 1), abs=1e-9)
        assert reach > 0


def test_the_band_below_the_lines_is_the_answer_s_stretches(results: Results) -> None:
    told = analysis.overview(results)
    for kind, (chart, _) in panels(results).items():
        drawn = chart.to_dict()
        bars = rows_of(drawn, drawn, "to")
        expected = [one for one in told["stretches"] if one["settings"][0]["kind"] == kind]
        assert [bar["method"] for bar in bars] == [one["method"] for one in expected]
        for bar, after in pairwise(bars):
            assert bar["to"] == after["x"], "without gaps"
        lines = rows_of(drawn, drawn, "utility_lo")
        ranking = [row for one in told["answers"] if one["setting"]["kind"] == kind for row in one["ranking"]]
        assert [row["utility"] for row in lines] == [row["utility"] for row in ranking]
