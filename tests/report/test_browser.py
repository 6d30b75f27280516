"""The report in a real browser: Chromium, headless, driven by Selenium."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from made_runs import BASELINE_MS, METHODS, WIDE_GRID, write_run
from tempora_tta._numbers import percent, points
from tempora_tta.analysis.doubt import doubt
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.recommend import recommend
from tempora_tta.analysis.replays import answer
from tempora_tta.report import tables
from tempora_tta.report.frames import offline_batches
from tempora_tta.report.html import write_report
from tempora_tta.report.html.page import template
from tempora_tta.report.over_time import over_time
from tempora_tta.scenarios import (
    Amortised,
    Continuous,
    Deployment,
    Discrete,
    Offline,
    Scenario,
    ScenarioCard,
)
from tempora_tta.store import Results

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        shutil.which("chromium") is None, reason="needs Debian's chromium and chromium-driver"
    ),
]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOSTILE_METHOD = "mine:<script>window.stolen = 1</script>\"'&amp;"
HOSTILE_SHIFT = '<img src=x onerror="window.stolen = 2">\' ${alert(1)} {{ 7 * 7 }}'
LONG_MODEL = "a_model_with_" + "an_endless_name_" * 20 + "</title><script>window.stolen = 3</script>"


class Browser:
    """A window with a report in it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, width: int = 1280, dark: bool = False) -> None:
        self.driver.get("about:blank")
        self.driver.get_log("browser"), self.driver.get_log("performance")
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wishes = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get(page.as_uri())
        self.wait("return document.documentElement.dataset.ready === 'true'")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 600, poll_frequency=0.05).until(
            lambda driver: driver.execute_script(script)
        )

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def choose(self, select: str, text: str) -> None:
        self.run(
            """const select = document.getElementById(arguments[0]);
            select.value = [...select.options].find((option) => option.text === arguments[1]).value;
            select.dispatchEvent(new Event("change"));""",
            select,
            text,
        )

    def limit(self, protocol: str, value_ms: float) -> None:
        """Type a limit into the what-if panel."""
        self.run(
            """const tab = document.querySelector(`#protocols input[value=${arguments[0]}]`);
            if (!tab.checked) tab.click();
            const exact = document.getElementById("exact");
            exact.value = arguments[1];
            exact.dispatchEvent(new Event("change"));""",
            protocol,
            repr(value_ms),
        )

    def utilities(self) -> dict[str, float]:
        """What the panel's ranking holds, best first; methods without an answer left out."""
        items = self.run(
            "return [...document.querySelectorAll('#ranking li[data-utility]')]"
            ".map((item) => [item.dataset.method, Number(item.dataset.utility)])"
        )
        return dict(items)

    def problems(self) -> list[str]:
        """Everything that the console complained about."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.execute_cdp_cmd("Network.enable", {})
    nothing = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", nothing)
    yield Browser(driver)
    driver.quit()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return write_run(tmp_path_factory.mktemp("run"), scenarios=WIDE_GRID)


@pytest.fixture(scope="module")
def page(results: Results) -> Path:
    return write_report(results)


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    return browser


def test_opens_with_the_network_off_and_without_a_complaint(opened: Browser) -> None:
    assert opened.problems() == []
    events = [json.loads(entry["message"])["message"] for entry in opened.driver.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    drawn = opened.run("return [...document.querySelectorAll('.chart')].map((c) => !!c.querySelector('svg'))")
    assert len(drawn) == 5
    assert all(drawn)


def scored(results: Results, scenario: Callable[[], Continuous], shifts: list[str]) -> dict[str, float]:
    """What `Continuous.score` gives per method, over shifts of equal length."""
    offline = results.utilities[results.utilities["protocol"] == "offline"]
    found: dict[str, list[float]] = {}
    for _, row in offline[offline["shift"].isin(shifts)].iterrows():
        trace = results.trace(row)
        score = scenario().score(
            accuracy=trace.accuracy,
            predict_ms=trace.predict_ms,
            adapt_ms=trace.adapt_ms,
            baseline_ms=BASELINE_MS,
        )
        found.setdefault(row["method"], []).append(score.utility)
    return {method: float(np.mean(values)) for method, values in found.items()}


@pytest.mark.parametrize("threshold_ms", [10.4, 15.8, 50.0, 80.4, 1250.0])
def test_any_patience_gives_what_continuous_score_gives(
    opened: Browser, results: Results, threshold_ms: float
) -> None:
    for choice, shifts in (("All shifts", ["fog", "snow"]), ("Fog", ["fog"])):
        opened.choose("whatif-shift", choice)
        opened.limit("continuous", threshold_ms)
        expected = scored(results, lambda: Continuous(threshold_ms=threshold_ms), shifts)
        shown = opened.utilities()
        assert shown == pytest.approx(expected, abs=1e-9)
        assert list(shown) == sorted(expected, key=lambda name: -expected[name])
        best = {"adabn": "AdaBN", "standard": "Standard", "tent": "Tent", "sar": "SAR"}[next(iter(shown))]
        assert opened.text("#recommendation").startswith(f"Use {best}:")


def test_the_slider_moves_by_keyboard_and_the_recommendation_follows(
    opened: Browser, results: Results
) -> None:
    from selenium.webdriver.common.keys import Keys

    slider = opened.find("#slider")
    slider.send_keys(Keys.HOME)
    strict = opened.text("#recommendation")
    slider.send_keys(Keys.END)
    relaxed = opened.text("#recommendation")
    assert strict.startswith("Use Standard")
    assert relaxed.startswith(("Use SAR", "Use Tent"))
    slider.send_keys(*[Keys.ARROW_LEFT] * 25)
    threshold_ms = float(opened.run("return document.getElementById('exact').value"))
    assert opened.utilities() == pytest.approx(
        scored(results, lambda: Continuous(threshold_ms=threshold_ms), ["fog", "snow"]), abs=1e-9
    )


@pytest.mark.parametrize(
    "scenario",
    [
        *(Discrete(interval_ms=ms) for ms in (7.5, 9.6, 10.0, 10.8, 11.7, 26.2, 62.5)),
        *(Amortised(budget_ms=ms) for ms in (0.2, 8.7, 19.2, 37.5, 400.0, 5000.0)),
    ],
    ids=lambda scenario: scenario.label,
)
def test_other_limits_have_the_answers_that_the_analysis_has_and_no_others(
    opened: Browser, results: Results, scenario: Scenario
) -> None:
    expected = answer(results, scenario, ["fog"])
    opened.choose("whatif-shift", "Fog")
    opened.limit(scenario.protocol, getattr(scenario, scenario.parameter))
    utilities = expected.rows.set_index("method")["utility"].to_dict() if len(expected.rows) else {}
    assert opened.utilities() == pytest.approx(utilities, abs=1e-9)
    silent = opened.run(
        "return [...document.querySelectorAll('#ranking li:not([data-utility])')]"
        ".map((item) => item.dataset.method)"
    )
    assert set(silent) == set(expected.unanswered)
    value_ms = getattr(scenario, scenario.parameter)
    opened.wait(f"return document.getElementById('curves').view.data('here')[0].x === {value_ms!r}")


@dataclass(frozen=True, kw_only=True)
class Turns(Scenario):
    """A scenario of the user's own: a short wait, then a long one."""

    protocol: ClassVar[str] = "two cameras"
    parameter: ClassVar[str] = "short_ms"
    card = ScenarioCard(situation="Two cameras take turns", knob="The short wait", symbol="s")
    short_ms: float

    @property
    def label(self) -> str:
        return f"s {self.short_ms:g} ms"

    def deployment(self) -> Deployment:
        return Deployment(arrivals=np.cumsum(np.tile([self.short_ms, 22.0], 40)))


def test_a_scenario_of_the_user_s_own_has_its_panel_and_its_timelines(
    browser: Browser, tmp_path: Path
) -> None:
    grid = (Offline(), Turns(short_ms=5.0), Turns(short_ms=15.0))
    results = write_run(tmp_path, scenarios=grid, shifts=("fog",), batches=20)
    browser.open(write_report(results))
    assert browser.problems() == []
    assert browser.text("#protocols") == "Two cameras take turns"
    assert browser.text("#slider-name") == "The short wait"
    assert browser.text("#exact-unit") == "ms"
    assert browser.run("return [...document.querySelectorAll('#ticks span')].map((t) => t.textContent)") == [
        "5 ms",
        "15 ms",
    ]
    browser.limit("'two cameras'", 15.0)
    cells = results.utilities[results.utilities["label"] == "s 15 ms"].set_index("method")["utility"]
    assert browser.utilities() == pytest.approx(cells.to_dict(), abs=1e-9)
    browser.limit("'two cameras'", 12.0)
    assert browser.utilities() == {}, "between evaluated points nothing is made up"
    assert '{scenario: "report.test_browser:Turns", short_ms: 12}' in browser.text("#unanswered")
    # AdaBN shares the offline pass: its course on these arrivals was computed for the page.
    for name, text in (("scenario", "s 5 ms"), ("method", "AdaBN")):
        browser.choose(f"cell-{name}", text)
    drawn = "document.getElementById('timeline').view?.data('arrivals')"
    browser.wait(f"return {drawn}?.length")
    arrived = dict(browser.run(f"return {drawn}.map((one) => [one.batch, one.from])"))
    wanted = grid[1].deployment().resolve(num_batches=20).arrivals_ms
    assert wanted is not None
    assert [arrived[batch] for batch in range(8)] == pytest.approx(wanted[:8], abs=1e-3)


def test_a_winner_leads_to_its_cell(opened: Browser, results: Results) -> None:
    square = opened.find(".grid tbody tr:nth-child(2) td:nth-of-type(3) a")
    title, winner = square.get_attribute("title"), square.text
    square.click()
    opened.wait("return document.activeElement.id === 'cell-title'")
    shift, label = re.match(r"(.+?), (.+): .+ [\d.]+ %\.", title).groups()  # type: ignore[union-attr]
    assert opened.text("#cell-title") == f"{shift}, {label}"
    assert opened.text("#cell-facts").startswith(f"{winner.rstrip('=')} ranks 1")
    cell = results.utilities[(results.utilities["label"] == label) & (results.utilities["rank"] == 1)]
    cell = cell[cell["shift"] == shift.lower().replace(" ", "_")].iloc[0]
    assert percent(cell["utility"], 2) in opened.text("#cell-facts")
    terms = opened.run("return [...document.querySelectorAll('#terms dd')].map((term) => term.textContent)")
    assert terms[0] == percent(cell["availability"])
    assert len(terms) == 6


def test_the_timeline_of_every_kind_of_cell_is_the_stored_one(opened: Browser, results: Results) -> None:
    for method, label in (
        ("sar", "ρ 100 %"),
        ("adabn", "ρ 100 %"),
        ("tent", "T 5λ"),
        ("tent", "B 25 % of λN"),
    ):
        opened.choose("cell-shift", "Fog")
        opened.choose("cell-scenario", label)
        opened.choose("cell-method", {"sar": "SAR", "adabn": "AdaBN", "tent": "Tent"}[method])
        drawn = opened.run(
            """const view = document.getElementById("timeline").view;
            const first = view.data("blocks").filter((block) => block.first);
            const skipped = view.data("arrivals").filter((one) => one.fate === "skipped");
            return { start: Object.fromEntries(first.map((block) => [block.batch, block.from])),
                     skipped: skipped.map((one) => one.batch) };"""
        )
        cells = results.utilities
        row = cells[(cells["method"] == method) & (cells["shift"] == "fog") & (cells["label"] == label)]
        trace = results.trace(row.iloc[0])
        shown = range(16)
        timed = {str(batch): trace.start_ms[batch] for batch in shown if not np.isnan(trace.start_ms[batch])}
        assert {batch: drawn["start"][batch] for batch in timed} == pytest.approx(timed, rel=1e-6, abs=1e-3)
        assert drawn["skipped"] == [batch for batch in shown if not trace.served[batch]]


@pytest.mark.parametrize("cost", ["free", "charged"])
def test_the_fallback_is_drawn_where_it_works(browser: Browser, tmp_path: Path, cost: str) -> None:
    """A free one has a lane of its own, and the pipeline looks as if it were not there."""
    grid = (Offline(), Deployment(interval_ms=BASELINE_MS, queue=0, fallback="latest", fallback_cost=cost))
    results = write_run(tmp_path, scenarios=grid, shifts=("fog",), batches=20)
    browser.open(write_report(results))
    assert browser.problems() == []
    assert "fallback" in browser.text(".legend.parts")
    browser.choose("cell-scenario", grid[1].label)
    browser.choose("cell-method", "SAR")
    drawn = browser.run(
        """const view = document.getElementById("timeline").view, blocks = view.data("blocks");
        return { blocks: blocks.filter((one) => one.first).map((one) => [one.batch, one.part, one.lane, one.from]),
                 idle: blocks.filter((one) => one.part === "idle").map((one) => one.length),
                 fates: view.data("arrivals").map((one) => one.fate) };"""
    )
    cell = results.utilities.query("method == 'sar' and scenario == 1").iloc[0]
    trace, resolved = results.trace(cell), results.resolved(cell, 20)
    names = {1: "baseline", 2: "frozen", 3: "fallback"}
    parts = [names[int(phase)] for phase in trace.phase[:16]]
    assert drawn["fates"] == ["fallback" if part == "fallback" else "served" for part in parts]
    assert parts.count("fallback") > 5
    for batch, part, lane, start_ms in drawn["blocks"]:
        assert part == parts[batch]
        assert lane == ("fallback" if part == "fallback" and cost == "free" else "pipeline")
        assert start_ms == pytest.approx(trace.start_ms[batch], abs=1e-3)
    assert len(drawn["blocks"]) == 16
    course = trace.course(resolved)
    shown = course.idle_ms[(course.served < 16) & (course.idle_ms > 1e-6)]
    assert sorted(drawn["idle"]) == pytest.approx(sorted(shown), abs=1e-3)
    assert f"The fallback answered {percent(cell['fallback_fraction'])} of all batches" in browser.text(
        "#cell-facts"
    )
    assert browser.text("#terms").endswith(f"Fallback accuracy{percent(cell['fallback_accuracy'], 2)}")


def test_accuracy_over_time_is_that_of_the_passes(browser: Browser, tmp_path: Path) -> None:
    results = write_run(
        tmp_path,
        scenarios=(Offline(),),
        shifts=("recurring",),
        seeds=(1, 2, 3),
        segments=("fog", "snow", "fog", "snow"),
    )
    browser.open(write_report(results))
    assert browser.problems() == []
    found = over_time(results, offline_batches(results))
    assert found is not None
    drawn = browser.run(
        """const view = document.getElementById("stream").view;
        return { rows: view.data("rows").filter((row) => row.method === "tent"),
                 parts: view.data("parts").map((part) => [part.name, part.from, part.to]) };"""
    )
    assert [row["accuracy"] for row in drawn["rows"]] == pytest.approx(found.mean["tent"].tolist(), abs=1e-6)
    reach = [(row["high"] - row["low"]) / 2 for row in drawn["rows"]]
    clipped = np.minimum(found.mean["tent"] + found.reach["tent"], 1) - found.mean["tent"]
    assert max(reach) > 0
    assert [row["high"] - row["accuracy"] for row in drawn["rows"]] == pytest.approx(
        clipped.tolist(), abs=1e-6
    )
    assert drawn["parts"] == [["Snow", 9.5, 19.5], ["Snow visit 2", 29.5, 39.5]]
    assert "mean and 95 % interval of 3 seeds" in browser.text("#over-time .caption")
    assert "No method is reset on this stream." in browser.text("#over-time")


@pytest.mark.parametrize("dark", [False, True])
def test_is_usable_on_a_phone(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, width=375, dark=dark)
    assert browser.problems() == []
    assert browser.run("return document.documentElement.scrollWidth") <= 375
    wide = browser.run(
        """return [...document.querySelectorAll('main *')].filter((element) =>
             !element.closest('.scroll') && !element.closest('.chart')
             && element.getBoundingClientRect().right > 376).map((element) => element.className || element.tagName)"""
    )
    assert wide == []
    assert browser.find("#slider").rect["width"] > 200
    browser.limit("continuous", 15.0)
    assert len(browser.utilities()) == len(METHODS)
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background))) < 60) == dark


def test_numbers_below_a_chart_keep_their_distance_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    """Limits of 12.5 to 250 ms: a logarithmic axis numbers 10, 20, 30, 40, 50 and so on."""
    limits = [Continuous(threshold_ms=ms) for ms in (12.5, 25.0, 50.0, 100.0, 250.0)]
    browser.open(write_report(write_run(tmp_path, scenarios=[Offline(), *limits])), width=390)
    touching = browser.run(
        """return [...document.querySelectorAll(".chart .role-axis")].flatMap((axis) => {
          const boxes = [...axis.querySelectorAll(".role-axis-label text")]
            .filter((label) => label.textContent && getComputedStyle(label).opacity > 0)
            .map((label) => [label.textContent, label.getBoundingClientRect()]);
          const near = (one, other) => one.left < other.right + 2 && other.left < one.right + 2
            && one.top < other.bottom && other.top < one.bottom;
          return boxes.flatMap(([text, box], place) => boxes.slice(place + 1)
            .filter(([, other]) => near(box, other)).map(([other]) => `${text}|${other}`));
        })"""
    )
    assert touching == []


def test_tables_sort_and_copy(opened: Browser) -> None:
    opened.run("document.querySelector('#table-choice').focus()")
    rows = "[...document.querySelectorAll('[data-table=\"0\"] table:not(.part) tbody tr')]"
    column = f"return {rows}.map((row) => row.cells[2].dataset.value)"
    heading = "[data-table='0'] thead tr:last-child th:nth-child(3) button"
    for _ in range(2):
        opened.run("document.querySelector(arguments[0]).click()", heading)
        values = [float(value) for value in opened.run(column)]
        falling = (
            opened.run(f'return document.querySelector("{heading}").parentElement.ariaSort') == "descending"
        )
        assert values == sorted(values, reverse=falling)
    text = opened.run(
        """document.execCommand = () => { window.copied = document.activeElement.value; return true; };
        navigator.clipboard.writeText = async (text) => { window.copied = text; };
        document.getElementById('copy-table').click();
        return new Promise((done) => setTimeout(() => done(window.copied), 50));"""
    )
    lines = [line.split("\t") for line in text.split("\n")]
    assert lines[0][:2] == ["Method", "Discrete ρ 100 %"]
    assert {line[0] for line in lines[1:]} == {"Standard", "LAME", "AdaBN", "Tent", "SAR"}
    assert all(len(line) == len(lines[0]) for line in lines)


def test_a_downloaded_table_has_numbers_in_columns_of_numbers(browser: Browser, tmp_path: Path) -> None:
    """Sign, interval and rank stand beside a number, not in its cell."""
    written = write_run(tmp_path, scenarios=WIDE_GRID)
    browser.open(write_report(written))
    text = browser.run(
        """let blob = null;
        URL.createObjectURL = (given) => { blob = given; return "#"; };
        document.getElementById("download-table").click();
        return blob.text();"""
    )
    table = pd.read_csv(StringIO(text))
    built = tables.build("sweep", written.utilities, cards=written.cards, doubt=doubt(written))
    assert list(table["Method"]) == [str(row[0].value) for row in built.rows]
    signs = 0
    for number, column in enumerate(built.columns[1:], 1):
        cells, title = [row[number] for row in built.rows], column.whole_title
        assert list(table[title]) == pytest.approx(
            [100 * float(str(cell.value)) for cell in cells], abs=0.006
        )
        assert list(table[f"{title} rank"]) == [cell.rank for cell in cells]
        for place, name in enumerate(("low", "high")):
            ends = [100 * cell.interval[place] for cell in cells if cell.interval]
            assert list(table[f"{title} {name}"].dropna()) == pytest.approx(ends, abs=0.006)
        if any(cell.flag for cell in cells):
            assert list(table[f"{title} sign"].fillna("")) == [cell.flag for cell in cells]
            signs += 1
    assert signs, "some winner is equal or undecided"


def test_names_are_text_whatever_they_contain(browser: Browser, tmp_path: Path) -> None:
    methods = {"standard": METHODS["standard"], HOSTILE_METHOD: METHODS["tent"]}
    results = write_run(
        tmp_path,
        methods=methods,
        scenarios=WIDE_GRID,
        shifts=(HOSTILE_SHIFT, "fog"),
        model=LONG_MODEL,
        batches=12,
    )
    browser.open(write_report(results), width=375)
    assert browser.problems() == []
    assert browser.run("return window.stolen") is None
    assert browser.run("return document.documentElement.scrollWidth") <= 375
    label = HOSTILE_METHOD.split(":", 1)[1]
    assert label in browser.run("return [...document.querySelectorAll('.method')].map((m) => m.textContent)")
    assert LONG_MODEL in browser.text("h1")
    titles = browser.run(
        "return [...document.querySelector('#cell-shift').options].map((option) => option.text)"
    )
    assert HOSTILE_SHIFT in titles
    browser.limit("continuous", 22.0)
    browser.run("document.querySelector('.square').click()")
    browser.wait("return document.activeElement.id === 'cell-title'")
    assert browser.run("return window.stolen") is None


@pytest.mark.parametrize("width", [320, 375, 800])
def test_the_page_is_as_wide_as_the_screen_in_any_font(browser: Browser, tmp_path: Path, width: int) -> None:
    """Spread letters stand for whatever font a machine happens to have: none is wider."""
    methods = {"standard": METHODS["standard"], HOSTILE_METHOD: METHODS["tent"]}
    results = write_run(
        tmp_path, methods=methods, scenarios=WIDE_GRID, shifts=(HOSTILE_SHIFT, "fog"), model=LONG_MODEL
    )
    browser.open(write_report(results), width=width)
    browser.run(
        """const wide = document.createElement("style");
        wide.textContent = "* { letter-spacing: 0.25em !important; }";
        document.head.append(wide);"""
    )
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_doubt_and_failure_are_marked_wherever_results_appear(browser: Browser, tmp_path: Path) -> None:
    methods = {**METHODS, "my_package:Mine": METHODS["tent"]}
    scenarios = (*WIDE_GRID, Continuous(threshold_ms=7.0))
    results = write_run(
        tmp_path,
        methods=methods,
        scenarios=scenarios,
        verdict="INVALID",
        broken={"my_package:Mine": "RuntimeError: no BatchNorm layer"},
        batches=12,
    )
    browser.open(write_report(results))
    assert "Timing INVALID" in browser.text(".banner")
    assert browser.text(".sure").startswith(f"Cell by cell: {doubt(results).summary.sentence()}")
    assert "!" not in browser.text(".grid"), "doubt is shown where it changes an answer"
    assert "n/a" in browser.text(".grid")
    assert "RuntimeError: no BatchNorm layer" in browser.text("#provenance")
    sure = browser.run("return document.querySelector('#recommendation').textContent")
    assert any(word in sure for word in (" holds.", " is equal with ", " is undecided by "))
    browser.choose("cell-method", "Mine")
    assert "RuntimeError: no BatchNorm layer" in browser.text("#cell-facts")
    browser.choose("cell-method", "Tent")
    assert "Its timing was judged INVALID." in browser.text("#cell-facts")
    browser.choose("cell-scenario", "T 7 ms")
    assert "not applicable" in browser.text("#cell-facts")
    assert browser.problems() == []


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (375, True)])
def test_nothing_keeps_people_out(browser: Browser, page: Path, width: int, dark: bool) -> None:
    """axe-core: contrast, names, roles, order of headings, what the keyboard reaches."""
    browser.open(page, width=width, dark=dark)
    browser.run(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = browser.driver.execute_async_script(
        """const done = arguments[0];
        axe.run(document, { resultTypes: ["violations"] }).then((found) => done(found.violations));"""
    )
    serious = [
        (one["id"], node["html"][:120], node["failureSummary"])
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
    assert serious == []
    charts = browser.run(
        "return [...document.querySelectorAll('.chart')].map((c) => [c.id, c.getAttribute('aria-label')])"
    )
    assert all("Vega" not in label and re.search(r"\d", label) for _, label in charts), (
        "they say what they show"
    )


def test_the_box_shows_a_rounded_value_and_the_panel_works_with_the_whole_one(
    browser: Browser, tmp_path: Path
) -> None:
    """Relative limits are seldom round: λ √2³ is 82.0621… ms of some machine."""
    whole = 82.0621361234
    written = write_run(tmp_path, scenarios=[Offline(), Continuous(threshold_ms=whole)])
    browser.open(write_report(written))
    assert browser.run("return document.getElementById('exact').value") == "82.062"
    expected = scored(written, lambda: Continuous(threshold_ms=whole), ["fog", "snow"])
    assert browser.utilities() == pytest.approx(expected, abs=1e-12)
    browser.limit("continuous", 82.062)  # what is shown, typed again, is what it stands for
    assert browser.utilities() == pytest.approx(expected, abs=1e-12)
    browser.limit("continuous", 82.06213)  # and what the reader types stays as it is
    assert browser.run("return document.getElementById('exact').value") == "82.06213"
    assert browser.utilities() == pytest.approx(
        scored(written, lambda: Continuous(threshold_ms=82.06213), ["fog", "snow"]), abs=1e-12
    )


def test_the_address_holds_what_was_asked(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.limit("discrete", 19.0)
    browser.choose("whatif-shift", "Fog")
    kept, said = browser.run("return location.hash"), browser.text("#recommendation")
    assert kept.startswith("#what-if/discrete/19/")
    browser.open(page)
    assert browser.text("#recommendation") != said
    browser.run("location.hash = arguments[0]", kept)
    browser.wait("return document.getElementById('exact').value === '19'")
    assert browser.text("#recommendation") == said
    assert browser.run("return document.querySelector('#whatif-shift').selectedOptions[0].text") == "Fog"


def test_all_scenarios_are_seen_on_screen_and_on_paper(browser: Browser, page: Path) -> None:
    hidden = """return [...document.querySelectorAll(".scroll")]
        .filter((box) => !box.hidden && box.scrollWidth > box.clientWidth + 1).length"""
    browser.open(page, width=1400)
    grid = "const box = document.querySelector('#winners .scroll'); return box.scrollWidth - box.clientWidth"
    assert browser.run(grid) <= 1, "17 scenarios fit"
    browser.open(page, width=800)
    told = "return [...document.querySelectorAll('.more')].filter((hint) => !hint.hidden).length"
    assert browser.run(hidden) == browser.run(told) > 0, "what does not fit is said"
    browser.open(page, width=1040, dark=True)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        tables = (
            "return [...document.querySelectorAll('[data-table]')].filter((t) => t.offsetHeight === 0).length"
        )
        assert browser.run(tables) == 0, "every table is printed"
        assert browser.run("return document.documentElement.scrollWidth") <= 1040, "no column is lost"
        square = "getComputedStyle(document.querySelector('.square'))"
        assert browser.run(f"return {square}.printColorAdjust") == "exact"
        paper = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)", "on white paper, also from a dark screen"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_on_paper_nothing_is_cut_off_and_no_word_is_broken(browser: Browser, page: Path) -> None:
    """As wide as A4 between its margins, which is narrow enough for the rules of small screens."""
    browser.open(page, width=718)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        lefts = browser.run(
            "return [...document.querySelectorAll('.panel')].map((one) => one.getBoundingClientRect().left)"
        )
        assert min(lefts) >= 0
        broken = browser.run(
            """const words = ".grid tbody th, .table td:first-child, .table td small";
            return [...document.querySelectorAll(words)].filter((one) => {
              const range = document.createRange();
              range.selectNodeContents(one);
              const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
              return one.getClientRects().length && lines.size > one.textContent.trim().split(/\\s+/).length;
            }).map((one) => one.textContent)"""
        )
        assert broken == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("font", ["", "monospace"])
def test_on_paper_numbers_are_whole_and_wide_tables_come_in_parts(
    browser: Browser, tmp_path: Path, font: str
) -> None:
    many = {f"tuned{number}": METHODS["tent"] for number in range(15)}
    written = write_run(tmp_path, scenarios=WIDE_GRID, methods={**METHODS, **many})
    browser.open(write_report(written), width=1047)
    if font:
        browser.run("document.body.style.setProperty('--sans', arguments[0])", font)
        browser.run("document.body.style.fontFamily = arguments[0]", font)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        broken = browser.run(
            """return [...document.querySelectorAll("[data-table] td")].filter((cell) => {
              const text = [...cell.childNodes].find((node) => node.nodeType === Node.TEXT_NODE);
              if (!cell.getClientRects().length || !text) return false;
              const range = document.createRange();
              range.selectNodeContents(text);
              const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
              return lines > text.textContent.trim().split(/\\s+/).length;
            }).map((cell) => cell.textContent)"""
        )
        assert broken == []
        wide = browser.run(
            """return [...document.querySelectorAll("[data-table] table")]
              .filter((table) => table.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
              .map((table) => table.caption.textContent)"""
        )
        assert wide == []
        printed = browser.run(
            """return [...document.querySelectorAll('[data-name="amortised"]')].at(-1).innerText"""
        )
        assert "part 2 of" in printed
        assert all(label in printed for label in ("Standard", *many)), "no method is lost"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_what_was_asked_is_printed_with_the_answer(browser: Browser, page: Path) -> None:
    browser.open(page, width=1047)
    browser.limit("discrete", 19.0)
    browser.choose("whatif-shift", "Fog")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        seen = browser.run(
            """const parts = ["#protocols :checked + span", "#whatif-shift", "#slider-name", "#exact", "#exact-unit"];
            return [...parts, "#slider"].map((one) => document.querySelector(one).getClientRects().length > 0)"""
        )
        assert seen == [True] * 5 + [False]
        others = "return [...document.querySelectorAll('#protocols label')].filter((one) => one.offsetHeight).length"
        assert browser.run(others) == 1, "only the kind of deployment that the answer is about"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_command_that_decides_more_takes_one_line_until_it_is_opened(
    browser: Browser, tmp_path: Path
) -> None:
    browser.open(write_report(write_run(tmp_path, batches=8)), width=1200)
    line = "return document.querySelector('.remedy').getBoundingClientRect().height"
    assert browser.run(line) < 40
    browser.run("document.querySelector('.remedy summary').click()")
    assert browser.run(line) > 40
    assert browser.run("return document.getElementById('copy-remedy').getClientRects().length") == 1
    assert "batches" in browser.text("#remedy")


def test_arrows_go_from_cell_to_cell(opened: Browser) -> None:
    stops = "return document.querySelectorAll('.square[tabindex=\"0\"]').length"
    assert opened.run(stops) == 1
    opened.run("document.querySelector('.square').focus()")
    for key in ("ArrowRight", "ArrowDown"):
        opened.run(
            "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))",
            key,
        )
    at = "const at = document.activeElement; return [at.closest('tr').rowIndex, at.closest('td').cellIndex]"
    assert opened.run(at) == [3, 2]
    assert opened.run(stops) == 1


def test_a_measured_neighbour_is_not_contradicted(browser: Browser, tmp_path: Path) -> None:
    """AdaBN has an answer at any interval; Tent has none between two intervals at which it is better."""
    scenarios = (Offline(), Discrete(interval_ms=20.0), Discrete(interval_ms=22.0))
    methods = {name: METHODS[name] for name in ("standard", "adabn")}
    methods["tent"] = METHODS["tent"]._replace(accuracy=0.7)
    results = write_run(tmp_path, methods=methods, scenarios=scenarios, shifts=("fog",))
    browser.open(write_report(results))
    browser.limit("discrete", 21.0)
    cells = results.utilities[results.utilities["method"] == "tent"].set_index("label")["utility"]
    said = browser.text("#recommendation")
    assert next(iter(browser.utilities())) == "adabn"
    lo, hi = sorted((cells["γ 20 ms"], cells["γ 22 ms"]))
    assert said.startswith(
        f"Probably Tent, between {percent(lo)} and {percent(hi)} at γ 20 ms and γ 22 ms; it was not measured here. "
        "Of the 2 of 3 methods with an exact answer, AdaBN is best: utility"
    )
    assert "At γ 20 ms: The lead of Tent holds." in said, "how sure the neighbours are, not this point"
    assert recommend(results, Question(interval_ms=21.0)).ranking["method"].iloc[0] in said.lower()


def test_a_method_that_looks_at_the_clock_has_dots_and_a_way_to_be_measured(
    browser: Browser, tmp_path: Path
) -> None:
    """Only dotted lines join dots; stricter than its strictest dot nothing is known about it."""
    methods = {
        "standard": METHODS["standard"],
        "tent": METHODS["tent"]._replace(predict_ms=9.0, adapt_ms=0.0),
    }
    results = write_run(
        tmp_path,
        methods=methods,
        scenarios=(Offline(), Continuous(threshold_ms=15.0), Continuous(threshold_ms=50.0)),
        shifts=("fog",),
        facts={"tent": {"time_aware": True}},
        identity={"tent": {"deployment": {"threshold_ms": "inf"}}},
    )
    browser.open(write_report(results))
    browser.limit("continuous", 11.0)
    said = browser.text("#recommendation")
    assert said.startswith("Use Standard, best of the 1 of 2 methods with an exact answer: ")
    assert ", which is more relaxed." in said
    assert "add --set 'scenarios=[{protocol: continuous, threshold_ms: 11}]'" in browser.text("#unanswered")
    browser.wait("return document.getElementById('curves').view !== undefined")
    guides = browser.run(
        "return document.getElementById('curves').view.data('rows').map((row) => [row.method, row.guide])"
    )
    assert {method for method, guide in guides if guide} == {"tent"}


def test_equal_methods_share_a_rank(browser: Browser, tmp_path: Path) -> None:
    methods = {"standard": METHODS["standard"], "adabn": METHODS["adabn"], "mocks": METHODS["adabn"]}
    scenarios = (Offline(), Continuous(threshold_ms=15.0))
    browser.open(write_report(write_run(tmp_path, methods=methods, scenarios=scenarios)))
    browser.limit("continuous", 15.0)
    browser.wait("return document.getElementById('curves').view !== undefined")
    dots = browser.run(
        "return document.getElementById('curves').view.data('rows').filter((row) => row.evaluated)"
        ".map((row) => [row.method, row.rank])"
    )
    assert dict(dots) == {"adabn": "1", "mocks": "1", "standard": "3"}
    assert "Equal with mocks" in browser.text("#recommendation")


def test_an_address_that_was_cut_off_opens_the_page(browser: Browser, page: Path) -> None:
    browser.driver.get("about:blank")
    browser.driver.get(f"{page.as_uri()}#%E0%A4%A")
    browser.wait("return document.documentElement.dataset.ready === 'true'")
    assert browser.text("#recommendation").startswith("Use ")


def test_the_page_rounds_as_the_tables_do(browser: Browser, page: Path) -> None:
    """One number was 16.0 points on a card and 16.1 in the panel: sums in another order."""
    browser.open(page)
    differences = [0.1605, 0.352 - 0.1915, 0.1605 - 1e-16, 0.0, -0.0005, 0.00049999999999999]
    assert points(0.1605) == points(0.352 - 0.1915) == "16.1 points"
    told = browser.run(
        template("charts.js") + "; return arguments[0].map((one) => `${hundredths(one, 1)} points`)",
        differences,
    )
    assert told == [points(one) for one in differences]
