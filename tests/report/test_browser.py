"""The report in a real browser: Chromium, headless, driven by Selenium."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from made_runs import BASELINE_MS, METHODS, WIDE_GRID, write_run
from tempora_tta import words
from tempora_tta._numbers import percent, points
from tempora_tta.analysis.of_run import cells_of, summary_of
from tempora_tta.report import tables
from tempora_tta.report.html import write_report
from tempora_tta.report.html.page import template
from tempora_tta.report.html.payload import axes
from tempora_tta.report.whatif import what_if
from tempora_tta.scenarios import (
    Continuous,
    Deployment,
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

    def limit(self, protocol: str, stop: int) -> None:
        """Move the slider of the what-if panel to a stop."""
        self.run(
            """const tab = document.querySelector(`#protocols input[value=${arguments[0]}]`);
            if (!tab.checked) tab.click();
            const slider = document.getElementById("slider");
            slider.value = arguments[1];
            slider.dispatchEvent(new Event("input"));""",
            protocol,
            stop,
        )

    def utilities(self) -> dict[str, float]:
        """Read the panel's ranking, best first, without the methods that have no answer."""
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
    assert len(drawn) == 6
    assert all(drawn)


def test_every_stop_of_every_slider_is_shown_as_it_was_worked_out(opened: Browser, results: Results) -> None:
    from selenium.webdriver.common.keys import Keys

    names = axes(results)
    for slider in what_if(results, names):
        for place, choice in ((0, "All shifts"), (1 + names["shifts"].index("fog"), "Fog")):
            opened.choose("whatif-shift", choice)
            for stop in (0, 7, len(slider.values) - 1):
                opened.limit(slider.protocol, stop)
                expected = dict(zip(names["methods"], slider.utility[place, stop], strict=True))
                expected = {name: value for name, value in expected.items() if not np.isnan(value)}
                shown = opened.utilities()
                assert shown == pytest.approx(expected, abs=1e-12)
                assert list(shown.values()) == sorted(shown.values(), reverse=True)
                said = slider.sentences[place * len(slider.values) + stop]
                assert opened.text("#recommendation") == said
                drawn = "document.getElementById('curves').view?.data('here')[0].x"
                opened.wait(f"return {drawn} === {float(slider.values[stop])!r}")
    opened.find("#slider").send_keys(Keys.HOME)
    assert opened.find("#slider").get_attribute("value") == "0", "it moves by keyboard"


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
    assert browser.run("return [...document.querySelectorAll('#ticks span')].map((t) => t.textContent)") == [
        "5 ms",
        "15 ms",
    ]
    browser.limit("'two cameras'", 1)
    cells = results.utilities[results.utilities["label"] == "s 15 ms"].set_index("method")["utility"]
    assert browser.utilities() == pytest.approx(cells.to_dict(), abs=1e-9)
    assert browser.find("#slider").get_attribute("max") == "1", "between evaluated points nothing is made up"
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
    browser.limit("continuous", 20)
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
    rows = "[...document.querySelectorAll('[data-table=\"0\"] tbody tr')]"
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
    """Sign, interval and rank stand next to a number, not in its cell."""
    written = write_run(tmp_path, scenarios=WIDE_GRID)
    browser.open(write_report(written))
    text = browser.run(
        """let blob = null;
        URL.createObjectURL = (given) => { blob = given; return "#"; };
        document.getElementById("download-table").click();
        return blob.text();"""
    )
    table = pd.read_csv(StringIO(text))
    built = tables.build("sweep", written.utilities, cards=written.cards, certainty=cells_of(written))
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


def test_names_are_text_with_any_content(browser: Browser, tmp_path: Path) -> None:
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
    browser.limit("continuous", 20)
    browser.run("document.querySelector('.square').click()")
    browser.wait("return document.activeElement.id === 'cell-title'")
    assert browser.run("return window.stolen") is None


@pytest.mark.parametrize("width", [320, 375, 800])
def test_the_page_is_as_wide_as_the_screen_in_any_font(browser: Browser, tmp_path: Path, width: int) -> None:
    """Spread letters stand for any font that a machine happens to have: none is wider."""
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
    assert words.sureness(vars(summary_of(results))) in browser.text(".remedy")
    assert "!" not in browser.text(".grid"), "doubt is shown where it changes an answer"
    assert "n/a" in browser.text(".grid")
    assert "RuntimeError: no BatchNorm layer" in browser.text("#provenance")
    assert browser.text("#recommendation").startswith("Use ")
    browser.choose("cell-method", "Mine")
    assert "RuntimeError: no BatchNorm layer" in browser.text("#cell-facts")
    browser.choose("cell-method", "Tent")
    assert "Its timing was judged INVALID." in browser.text("#cell-facts")
    browser.choose("cell-scenario", "T 7 ms")
    assert "not applicable" in browser.text("#cell-facts")
    assert browser.problems() == []


def test_the_address_holds_what_was_asked(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.limit("discrete", 10)
    browser.choose("whatif-shift", "Fog")
    kept, said = browser.run("return location.hash"), browser.text("#recommendation")
    assert kept.startswith("#what-if/discrete/")
    browser.open(page)
    assert browser.text("#recommendation") != said
    browser.run("location.hash = arguments[0]", kept)
    browser.wait("return document.getElementById('slider').value === '10'")
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


def test_what_was_asked_is_printed_with_the_answer(browser: Browser, page: Path) -> None:
    browser.open(page, width=1047)
    browser.limit("discrete", 10)
    browser.choose("whatif-shift", "Fog")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        seen = browser.run(
            """const parts = ["#protocols :checked + span", "#whatif-shift", "#slider-name", "#slider-value"];
            return [...parts, "#slider"].map((one) => document.querySelector(one).getClientRects().length > 0)"""
        )
        assert seen == [True] * 4 + [False]
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
