"""The page as a file: what it says, what it holds, and that names in it are only ever text."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import altair as alt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from made_runs import GRID, METHODS, WIDE_GRID, Pace, write_run
from tempora_tta import analysis, words
from tempora_tta.analysis.diagnoses import problems
from tempora_tta.analysis.of_run import summary_of
from tempora_tta.cli import app
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import METHODS as SHOWN
from tempora_tta.report.drawing import DARK_PAPER, contrast, on_dark, text_on
from tempora_tta.report.frames import offline_batches
from tempora_tta.report.html.index import ranking
from tempora_tta.report.html.packing import pack
from tempora_tta.report.html.page import render
from tempora_tta.results import open_runs
from tempora_tta.scenarios import Amortised, Continuous, Deployment, Discrete, Offline
from tempora_tta.store import Results, RunFolder
from tempora_tta.store.pictures import write_pictures

FEW = (WIDE_GRID[0], WIDE_GRID[3], WIDE_GRID[8], WIDE_GRID[13])
"""Offline and one point of each protocol, for what does not depend on the grid."""
TYPES = {"Uint8": "u1", "Uint16": "<u2", "Uint32": "<u4", "Int32": "<i4", "Float32": "<f4", "Float64": "<f8"}


class Text(HTMLParser):
    """The words of a page, and every element with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words, self.elements, self._silent = [], [], False  # type: ignore[var-annotated]
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.elements.append((tag, dict(attributes)))
        self._silent = tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words.append(data)

    def __str__(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def unpacked(packed: dict[str, Any]) -> np.ndarray:
    """Unpack an array as a browser does."""
    values = np.frombuffer(base64.b64decode(packed["data"]), TYPES[packed["type"]])
    return values / packed["per"] if "per" in packed else values


def payload_of(page: str) -> dict[str, Any]:
    text = re.search(r'id="payload">([^<]+)<', page)
    assert text is not None
    return dict(json.loads(gzip.decompress(base64.b64decode(text[1]))))


times = st.one_of(
    st.integers(0, 10**10).map(lambda nanoseconds: nanoseconds / 1e6),
    st.floats(width=32, allow_nan=False),
    st.floats(),
)


@given(st.lists(times, min_size=1, max_size=20))
def test_packing_loses_nothing(values: list[float]) -> None:
    np.testing.assert_array_equal(unpacked(pack(values)), np.array(values))


def test_times_of_a_clock_take_four_bytes_and_the_same_run_gives_the_same_page(
    results: Results, page: str
) -> None:
    measured = np.random.default_rng(0).integers(10**6, 10**9, 1000) / 1e6
    assert (pack(measured)["type"], pack(np.arange(300))["type"]) == ("Uint32", "Uint16")
    assert render(results) == page


def test_holds_every_cell_and_the_beginning_of_its_timeline(results: Results, page: str) -> None:
    data, cells = payload_of(page), results.utilities
    cells = cells.sort_values(["method", "shift", "seed", "scenario"], ignore_index=True)
    np.testing.assert_array_equal(unpacked(data["cells"]["utility"]), cells["utility"])
    assert len(unpacked(data["cells"]["ece"])) == len(cells)
    names = [data["methods"][place]["name"] for place in unpacked(data["cells"]["method"])]
    assert names == cells["method"].tolist()
    lines = {name: value for name, value in data["timelines"].items() if name != "batches"}
    drawn = {name: unpacked(value).reshape(len(cells), -1) for name, value in lines.items()}
    for place, (_, row) in enumerate(cells.iterrows()):
        trace, shown = results.trace(row), slice(0, data["timelines"]["batches"])
        np.testing.assert_array_equal(drawn["phase"][place], trace.phase[shown])
        served = trace.served[shown] & ~np.isnan(trace.start_ms[shown])
        for name in ("start_ms", "predict_ms", "adapt_ms"):
            exact = getattr(trace, name)[shown][served]
            np.testing.assert_allclose(drawn[name][place][served], exact, atol=5.1e-4)


def test_asks_no_server_for_anything_and_runs_only_its_own_scripts(page: str) -> None:
    parsed = Text(page)
    wanted = [attributes.get(name) for _, attributes in parsed.elements for name in ("src", "href")]
    assert all(url is None or url.startswith("#") for url in wanted)
    policy = next(
        a["content"] for tag, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "'unsafe-inline'" not in policy.split("style-src")[0]
    assert [a for tag, a in parsed.elements if any(name.startswith("on") for name in a)] == []


def test_pictures_of_shifts_are_shown_with_their_names_where_a_run_keeps_some(
    tmp_path: Path, page: str
) -> None:
    assert "What the shifts look like" not in page
    results = write_run(tmp_path, scenarios=FEW, batches=8)
    write_pictures(tmp_path, {"clean": b"\xff\xd8\xff1", '"><script>': b"\xff\xd8\xff2"})
    shown = [given for tag, given in Text(render(results)).elements if tag == "img"]
    assert [one["alt"] for one in shown] == ["Sample images, Clean", 'Sample images, "><script>']
    assert all(one["src"].startswith("data:image/jpeg;base64,/9j/") for one in shown)


def test_a_run_without_pressure_says_who_is_most_accurate_and_what_is_open(tmp_path: Path) -> None:
    text = str(Text(render(write_run(tmp_path, scenarios=[Offline()], batches=8))))
    assert re.search(r"SAR is most accurate, \d\d\.\d %\. What its time costs a deployment was not", text)
    assert "What went wrong" not in text, "nothing did"
    assert "Temporal factors" not in text, "nor is there a table of what was not evaluated"
    assert "What if" not in text, "nor a slider to move"
    assert "1 scenario " in text


def test_the_top_is_the_list_of_the_terminal(results: Results, page: str) -> None:
    said, told = re.sub(r"\s+", " ", str(Text(page))), analysis.overview(results)
    for sentence in (*words.summary(told), *words.legend(told["answers"])):
        assert sentence in said
    section = page[page.index('<section id="answer">') : page.index("</table>")]
    rows = [re.sub(r"<[^>]*>", " ", row).split() for row in section.split("<tr")[2:]]
    assert len(rows) == len(told["answers"])
    for row, one in zip(rows, told["answers"], strict=True):
        best, after = one["ranking"][:2]
        assert best["label"] in row
        assert words.value(best["utility"]) in row
        assert words.value(after["utility"]) in row
        assert (words.MARKS.get(one["verdict"]) or "undecided") in row or not words.MARKS.get(one["verdict"])
    assert "tempora run --model a_net --out 'runs/made up'" in said
    assert "Some CPU" in said


def test_the_page_says_of_its_winners_what_the_summary_says(results: Results, page: str) -> None:
    summary = summary_of(results)
    assert words.sureness(vars(summary)) in str(Text(page))
    assert page.count(' undecided" href=') == summary.undecided, "hatched squares of the grid"
    assert page.count("<i>=</i>") == summary.equal


def test_only_methods_with_a_problem_are_told(results: Results, page: str) -> None:
    below = analysis.below_standard(analysis.cells_of(results))
    counts = below[below["group"] == "overall"].set_index("method")["count"]
    found = problems(results, offline_batches(results))
    assert found
    for one in found:
        assert one.below == counts[one.method]
        assert bool(one.mode) == (one.below > 0)
        assert one.mode or one.causes or one.not_scored
    advised = {method for method, _ in analysis.stretches(analysis.answers(results))}
    said = str(Text(page))
    assert all((one.sentence in said) == (one.method not in advised) for one in found if one.sentence)


def test_names_are_escaped(tmp_path: Path) -> None:
    script, image, code = (
        "</script><script>alert(1)</script>",
        "\"'><img src=x onerror=alert(1)>",
        "{{ 7*7 }}",
    )
    methods = {"standard": METHODS["standard"]}
    methods |= {f"mine:{name}": METHODS["tent"] for name in (script, image, code)}
    results = write_run(
        tmp_path,
        methods=methods,
        scenarios=FEW,
        shifts=(script, image, code),
        model=f"{script} {image} {code}",
        batches=10,
    )
    page = render(results)
    assert script not in page
    assert image not in page
    parsed = Text(page)
    assert all(name in str(parsed) for name in (script, image, code))
    assert "49" not in re.findall(r"<h1>.*?</h1>", page)[0]
    assert len([tag for tag, _ in parsed.elements if tag in ("script", "img")]) == 3


ALL_FAILED = dict.fromkeys(METHODS, "RuntimeError: no weights")
BUDGETS = [Amortised(budget_ms=100.0, rule=rule) for rule in ("strict", "overshoot")]
WITH_SEVERAL_LIMITS = (
    *(WIDE_GRID[0], Discrete(interval_ms=15.0, queue=0), Discrete(interval_ms=15.0, queue=1)),
    *(Continuous(threshold_ms=7.0), Deployment(interval_ms=15.0, threshold_ms=25.0, budget_ms=25.0)),
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"methods": {"tent": METHODS["tent"]}}, ["Tent"]),
        ({"broken": ALL_FAILED}, ["RuntimeError: no weights"]),
        ({"verdict": "INVALID", "finished": False}, ["Timing INVALID: baseline drifted", "is not finished"]),
        ({"finished": False, "judged": False}, ["UNKNOWN no verdict yet"]),
        (
            {"scenarios": WITH_SEVERAL_LIMITS, "seeds": (1, 2)},
            ["γ 15 ms, queue 0", "γ 15 ms, queue 1", "Mean over 2 seeds", "not applicable: threshold_ms=7"],
        ),
        ({"scenarios": (WIDE_GRID[0], *BUDGETS)}, ["B 0.1 s, strict", "B 0.1 s, overshoot"]),
    ],
    ids=["no standard", "all failed", "invalid", "not judged", "several limits", "both rules"],
)
def test_unusual_runs_have_a_page_that_says_so(
    tmp_path: Path, given: dict[str, Any], said: list[str]
) -> None:
    page = render(write_run(tmp_path, **{"scenarios": FEW, "shifts": ("fog",), "batches": 8} | given))
    text = str(Text(page))
    assert all(part in text for part in said)
    titles = [scenario["title"] for scenario in payload_of(page)["scenarios"]]
    assert len(set(titles)) == len(titles), "the menu of cells has no two entries alike"


def test_method_colours_can_be_seen_on_both_papers() -> None:
    for shown in SHOWN.values():
        assert contrast(on_dark(shown.colour), DARK_PAPER) >= 3
        assert contrast(text_on(shown.colour), shown.colour) >= 4.4


def test_the_command(tmp_path: Path) -> None:
    run = str(write_run(tmp_path / "run", scenarios=FEW[:1], batches=8).path)
    for more in ([], ["--figures", str(tmp_path / "figures"), "--format", "png"]):
        done = CliRunner().invoke(app, ["report", run, *more])
        assert done.exit_code == 0, done.output
    assert (tmp_path / "run" / "report.html").exists()
    assert len(list((tmp_path / "figures").glob("*.png"))) == 5
    folder = RunFolder(tmp_path / "begun")
    (folder.path / "traces").mkdir(parents=True)
    folder.write_manifest(RunFolder(run).record())
    for asked, part in (
        ([run, "--format", "png"], "--figures"),
        ([str(tmp_path / "nowhere")], "run folder"),
        ([str(folder.path)], "let the run finish"),
    ):
        wrong = CliRunner().invoke(app, ["report", *asked]).exception
        assert isinstance(wrong, TemporaError)
        assert part in str(wrong)


def test_charts_keep_to_vega_lite_s_schema(page: str) -> None:
    """Pages are made without asking it."""
    for name, chart in payload_of(page)["charts"].items():
        assert alt.Chart.from_dict(chart).to_dict(), name


def test_several_runs_are_linked_and_ranked(tmp_path: Path) -> None:
    few = {name: METHODS[name] for name in ("standard", "adabn", "tent")}
    name = "b <script>alert(1)</script>"
    write_run(tmp_path / "a", methods=few, scenarios=GRID[:3], batches=8)
    write_run(
        tmp_path / "b", methods=few | {"eta": Pace(10.0, 3.0, 0.6)}, scenarios=GRID[:3], batches=8, model=name
    )
    asked = [str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "all")]
    result = CliRunner().invoke(app, ["report", *asked])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "all" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"#]+)"', page)
    assert len(links) == 2
    assert all((tmp_path / "all" / unquote(link)).exists() for link in links)
    assert "<script>alert(1)" not in page
    runs = open_runs([tmp_path / "a", tmp_path / "b"])
    table = ranking(runs)
    assert table is not None
    regrets = [
        analysis.regret(run.cells, run.cards).set_index("method")["mean_regret"] for run in runs.values()
    ]
    shared = sorted(few, key=lambda method: sum(regret[method] for regret in regrets))
    labels = [str(row[0].value) for row in table.rows]
    cards = runs["a"].cards
    assert labels == [*map(cards.label, shared), cards.label("eta")], "methods of every run first"
    for row, method in zip(table.rows, shared, strict=False):
        assert [cell.value for cell in row[2:]] == pytest.approx([regret[method] for regret in regrets])
    alone = CliRunner().invoke(app, ["report", *asked[:2]])
    assert alone.exit_code != 0
    assert "--out DIR" in str(alone.exception)
