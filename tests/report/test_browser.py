"""The report in a real browser: Chromium, headless, driven by Selenium."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_runs import METHODS, WIDE_GRID, write_run
from tempora_tta import words
from tempora_tta._numbers import percent, points
from tempora_tta.analysis.of_run import summary_of
from tempora_tta.report.html import write_report
from tempora_tta.report.html.page import template
from tempora_tta.report.html.payload import axes
from tempora_tta.report.whatif import what_if
from tempora_tta.scenarios import (
    Continuous,
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


@pytest.fixture
def opened(browser: Browser, results: Results, page: str) -> Browser:
    browser.open(results.path / "report.html")
    return browser


def test_opens_with_the_network_off_and_without_a_complaint(opened: Browser) -> None:
    assert opened.problems() == []
    events = [json.loads(entry["message"])["message"] for entry in opened.driver.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    drawn = opened.run("return [...document.querySelectorAll('.chart')].map((c) => !!c.querySelector('svg'))")
    assert drawn == [True] * 6


def test_nothing_keeps_people_out(browser: Browser, results: Results, page: str) -> None:
    """axe-core: contrast, names, roles, order of headings, what the keyboard reaches."""
    browser.open(results.path / "report.html", dark=True)
    browser.run(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = browser.driver.execute_async_script(
        "axe.run(document, { resultTypes: ['violations'] }).then((found) => arguments[0](found.violations));"
    )
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


def test_stops_of_every_slider_are_shown_as_they_were_worked_out(opened: Browser, results: Results) -> None:
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
    kept = opened.run("return location.hash")
    opened.open(results.path / "report.html")
    opened.run("location.hash = arguments[0]", kept)
    opened.wait(f"return document.getElementById('slider').value === '{stop}'")
    assert opened.text("#recommendation") == said, "the address holds what was asked"
    opened.driver.get("about:blank")
    opened.driver.get(f"{(results.path / 'report.html').as_uri()}#%E0%A4%A")
    opened.wait("return document.documentElement.dataset.ready === 'true'")
    assert opened.text("#recommendation").startswith("Use "), "one that was cut off opens the page"


def test_a_winner_leads_to_its_cell_by_mouse_and_by_arrows(opened: Browser, results: Results) -> None:
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
    opened.run("document.querySelector('.square').focus()")
    for key in ("ArrowRight", "ArrowDown"):
        event = "new KeyboardEvent('keydown', {key: arguments[0], bubbles: true})"
        opened.run(f"document.activeElement.dispatchEvent({event})", key)
    at = "const at = document.activeElement; return [at.closest('tr').rowIndex, at.closest('td').cellIndex]"
    assert opened.run(at) == [3, 2]
    assert opened.run("return document.querySelectorAll('.square[tabindex=\"0\"]').length") == 1


def test_the_timeline_of_every_kind_of_cell_is_the_stored_one(opened: Browser, results: Results) -> None:
    shown = range(16)
    for method, label in (
        ("sar", "ρ 100 %"),
        ("adabn", "ρ 100 %"),
        ("tent", "T 5λ"),
        ("tent", "B 25 % of λN"),
    ):
        for name, text in (("shift", "Fog"), ("scenario", label), ("method", results.cards.label(method))):
            opened.choose(f"cell-{name}", text)
        drawn = opened.run(
            """const view = document.getElementById("timeline").view;
            const first = view.data("blocks").filter((block) => block.first);
            const skipped = view.data("arrivals").filter((one) => one.fate === "skipped");
            return { start: Object.fromEntries(first.map((block) => [block.batch, block.from])),
                     skipped: skipped.map((one) => one.batch) };"""
        )
        cells = results.utilities.query("method == @method and shift == 'fog' and label == @label")
        trace = results.trace(cells.iloc[0])
        timed = {str(batch): trace.start_ms[batch] for batch in shown if not np.isnan(trace.start_ms[batch])}
        assert {batch: drawn["start"][batch] for batch in timed} == pytest.approx(timed, rel=1e-6, abs=1e-3)
        assert drawn["skipped"] == [batch for batch in shown if not trace.served[batch]]


def test_a_phone_shows_all_of_it_with_any_names_in_any_font(browser: Browser, tmp_path: Path) -> None:
    """Spread letters stand for any font that a machine happens to have: none is wider."""
    methods = {"standard": METHODS["standard"], HOSTILE_METHOD: METHODS["tent"]}
    results = write_run(
        tmp_path, methods=methods, scenarios=WIDE_GRID, shifts=(HOSTILE_SHIFT, "fog"), model=LONG_MODEL
    )
    browser.open(write_report(results), width=375)
    assert browser.problems() == []
    assert browser.run("return document.documentElement.scrollWidth") <= 375
    assert browser.find("#slider").rect["width"] > 200
    shown = browser.run("return [...document.querySelectorAll('.method')].map((m) => m.textContent)")
    assert HOSTILE_METHOD.split(":", 1)[1] in shown
    assert LONG_MODEL in browser.text("h1")
    shifts = "[...document.querySelector('#cell-shift').options].map((option) => option.text)"
    assert HOSTILE_SHIFT in browser.run(f"return {shifts}")
    browser.limit("continuous", 20)
    browser.run("document.querySelector('.square').click()")
    browser.wait("return document.activeElement.id === 'cell-title'")
    assert browser.run("return window.stolen") is None
    browser.run(
        """const wide = document.createElement("style");
        wide.textContent = "* { letter-spacing: 0.25em !important; }";
        document.head.append(wide);"""
    )
    assert browser.run("return document.documentElement.scrollWidth") <= 375


def test_tables_sort_and_copy(opened: Browser) -> None:
    opened.run("document.querySelector('#table-choice').focus()")
    rows = "[...document.querySelectorAll('[data-table=\"0\"] tbody tr')]"
    heading = "[data-table='0'] thead tr:last-child th:nth-child(3) button"
    for _ in range(2):
        opened.run("document.querySelector(arguments[0]).click()", heading)
        values = [
            float(value) for value in opened.run(f"return {rows}.map((row) => row.cells[2].dataset.value)")
        ]
        order = opened.run(f'return document.querySelector("{heading}").parentElement.ariaSort')
        assert values == sorted(values, reverse=order == "descending")
    text = opened.run(
        """document.execCommand = () => { window.copied = document.activeElement.value; return true; };
        navigator.clipboard.writeText = async (text) => { window.copied = text; };
        document.getElementById('copy-table').click();
        return new Promise((done) => setTimeout(() => done(window.copied), 50));"""
    )
    lines = [line.split("\t") for line in text.split("\n")]
    assert lines[0][:2] == ["Method", "Discrete ρ 100 %"]
    assert {line[0] for line in lines[1:]} == {"Standard", "LAME", "AdaBN", "Tent", "SAR"}
    assert {len(line) for line in lines} == {len(lines[0])}


def test_doubt_and_failure_are_marked_wherever_results_appear(browser: Browser, tmp_path: Path) -> None:
    results = write_run(
        tmp_path,
        methods={**METHODS, "my_package:Mine": METHODS["tent"]},
        scenarios=(*WIDE_GRID, Continuous(threshold_ms=7.0)),
        verdict="INVALID",
        broken={"my_package:Mine": "RuntimeError: no BatchNorm layer"},
        batches=12,
    )
    browser.open(write_report(results))
    assert "Timing INVALID" in browser.text(".banner")
    assert words.sureness(vars(summary_of(results))) in browser.text(".remedy")
    assert "n/a" in browser.text(".grid")
    assert "RuntimeError: no BatchNorm layer" in browser.text("#provenance")
    for name, text, said in (
        ("method", "Mine", "RuntimeError: no BatchNorm layer"),
        ("method", "Tent", "INVALID"),
        ("scenario", "T 7 ms", "not applicable"),
    ):
        browser.choose(f"cell-{name}", text)
        assert said in browser.text("#cell-facts")
    assert browser.problems() == []


def test_on_paper_every_table_and_what_was_asked_is_seen_and_no_word_is_broken(
    browser: Browser, results: Results, page: str
) -> None:
    """As wide as A4 between its margins, which is narrow enough for the rules of small screens."""
    browser.open(results.path / "report.html", width=718, dark=True)
    browser.limit("discrete", 10)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        lefts = "[...document.querySelectorAll('.panel')].map((one) => one.getBoundingClientRect().left)"
        assert min(browser.run(f"return {lefts}")) >= 0
        hidden = "[...document.querySelectorAll('[data-table]')].filter((t) => t.offsetHeight === 0).length"
        assert browser.run(f"return {hidden}") == 0
        paper = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)", "on white paper, also from a dark screen"
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
        parts = ["#protocols :checked + span", "#whatif-shift", "#slider-name", "#slider-value", "#slider"]
        seen = "arguments[0].map((one) => document.querySelector(one).getClientRects().length > 0)"
        assert browser.run(f"return {seen}", parts) == [True] * 4 + [False]
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_page_rounds_as_the_tables_do(opened: Browser) -> None:
    """One number was 16.0 points on a card and 16.1 in the panel: sums in another order."""
    differences = [0.1605, 0.352 - 0.1915, 0.1605 - 1e-16, 0.0, -0.0005, 0.00049999999999999]
    told = opened.run(
        template("charts.js") + "; return arguments[0].map((one) => `${hundredths(one, 1)} points`)",
        differences,
    )
    assert told == [points(one) for one in differences]
    assert told[0] == told[1] == "16.1 points"
