"""The board in a real browser: filters, sorting, winners; nothing in a name runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_runs import METHODS
from report.test_board import board, of, runs  # noqa: F401
from report.test_browser import Browser, browser, pytestmark  # noqa: F401
from tempora_tta.report.board import gather, write_board
from tempora_tta.report.colours import contrast
from tempora_tta.scenarios import Discrete, Offline
from tempora_tta.store.suite_claims import departures_of


@pytest.fixture
def opened(browser: Browser, board: Path) -> Browser:  # noqa: F811
    browser.open(board / "index.html")
    return browser


def column(page: Browser, title: str) -> list[str]:
    return page.run(
        """const table = document.getElementById("board");
        const place = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === arguments[0]);
        return [...table.tBodies[0].rows].map((row) => row.cells[place].textContent);""",
        title,
    )


def sort(page: Browser, title: str) -> None:
    page.run(
        """[...document.querySelectorAll("#board thead button")]
            .find((one) => one.textContent === arguments[0]).click()""",
        title,
    )


def test_opens_without_a_complaint_and_no_name_runs(opened: Browser) -> None:
    assert opened.problems() == []
    assert opened.run("return window.stolen") is None
    assert "<script>" in opened.text("h1")


def test_filters_leave_what_they_say(opened: Browser) -> None:
    assert len(column(opened, "method")) == 4 * 3
    opened.choose("f-network", "b_net")
    assert set(column(opened, "network")) == {"b_net"}
    assert opened.text("#count") == "3 results"
    opened.choose("f-network", "all")
    device = next(name for name in column(opened, "device") if "script" in name)
    opened.choose("f-device", device)
    assert set(column(opened, "device")) == {device}
    before = column(opened, "utility %")
    opened.choose("f-scenario", "Discrete: ρ 50 %")
    assert len(column(opened, "method")) == 3
    assert column(opened, "utility %") != before


def test_sorts_by_any_column_both_ways(opened: Browser) -> None:
    falling = [float(value) for value in column(opened, "utility %")]
    assert falling == sorted(falling, reverse=True)
    sort(opened, "utility %")
    assert [float(value) for value in column(opened, "utility %")] == sorted(falling)
    sort(opened, "method")
    assert column(opened, "method") == sorted(column(opened, "method"))
    sort(opened, "95 % interval")
    assert column(opened, "95 % interval")[-3:] == ["–"] * 3, "what is not known comes last"
    sort(opened, "95 % interval")
    assert column(opened, "95 % interval")[-3:] == ["–"] * 3


def test_winners_of_a_network_on_every_device(opened: Browser) -> None:
    headings = "return document.querySelectorAll('#winner-grid thead th').length"
    assert opened.run(headings) == 3, "one empty, two devices of this network"
    opened.choose("w-network", "b_net")
    assert opened.run("return document.querySelectorAll('#winner-grid .square').length") == 2


def test_one_method_across_devices(opened: Browser) -> None:
    opened.choose("a-method", "Tent")
    rows = opened.run("return document.getElementById('across-table').tBodies[0].rows.length")
    assert rows == 4


@pytest.fixture
def unlike(browser: Browser, tmp_path: Path) -> Browser:  # noqa: F811
    """One network and device at two severities, of which the newer run has an undecided winner, and another grid."""
    close = dict.fromkeys(("standard", "adabn"), METHODS["adabn"]) | {"tent": METHODS["lame"]}
    made = [
        of(tmp_path / "five"),
        of(tmp_path / "one", severity=1, methods=close, commit="b"),
        of(tmp_path / "grid", scenarios=(Offline(), Discrete(utilisation=0.5, queue=4)), commit="c"),
    ]
    write_board(gather(made, departures_of), tmp_path / "site", reports=False)
    browser.open(tmp_path / "site" / "index.html")
    return browser


def test_what_runs_differ_in_is_a_column_and_a_filter(unlike: Browser) -> None:
    assert set(column(unlike, "severity")) == {"1", "5"}
    unlike.choose("f-severity", "1")
    assert set(column(unlike, "severity")) == {"1"}
    titles = unlike.run(
        "return [...document.querySelectorAll('#board thead th')].map((one) => one.textContent)"
    )
    assert titles[:2] == ["method", "run"], "the link to the report is in sight"
    assert "dataset" not in titles, "all runs have the same"


def test_no_column_of_winners_mixes_runs(unlike: Browser) -> None:
    heads = unlike.run(
        "return [...document.querySelectorAll('#winner-grid thead th')].map((one) => one.textContent)"
    )
    assert heads[1:] == [
        "Some CPU, 2 threads, severity 5 (five)",
        "Some CPU, 2 threads, severity 1",
        "Some CPU, 2 threads, severity 5 (grid)",
    ]
    squares = unlike.run(
        """return [...document.querySelectorAll('#winner-grid tbody tr')].map((line) =>
            [...line.cells].map((cell) => cell.querySelector('.square')?.title.split(', ').at(-1) ?? ''))"""
    )
    assert squares == [
        ["", "five", "one", "grid"],
        ["", "five", "one", ""],
        ["", "", "", "grid"],
    ]


def test_undecided_winners_can_be_read(unlike: Browser) -> None:
    colours = unlike.run(
        """const two = (text) => Number(text).toString(16).padStart(2, "0");
        const hex = (text) => "#" + text.match(/[0-9]+/g).slice(0, 3).map(two).join("");
        return [...document.querySelectorAll("#winner-grid .square.undecided")].map((one) =>
            [hex(getComputedStyle(one.firstChild).color), hex(getComputedStyle(one).backgroundColor)]);"""
    )
    assert colours
    assert all(contrast(*pair) >= 4.4 for pair in colours)
