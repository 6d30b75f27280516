"""Tables by name: the paper's own numbers come out as the paper prints them, in every format."""

from __future__ import annotations

import json
import re
from functools import cache
from io import StringIO

import pandas as pd
import pytest

from analysis.runs import a_run
from tempora_tta import published
from tempora_tta.analysis.cells import cells
from tempora_tta.cards import CATALOGUE
from tempora_tta.errors import TemporaError
from tempora_tta.names import TABLES
from tempora_tta.report import tables
from tempora_tta.report.table import by_scenario, flag_notes, marks


@cache
def paper(name: str, setup: str = "rn50_inc") -> tables.Table:
    return tables.build_published(name, setup)


def lines(name: str, setup: str = "rn50_inc") -> dict[str, list[str]]:
    """The rows of a published table as words, by their first cell."""
    table = paper(name, setup)
    return {
        table.text(row, 0): [table.text(row, column) for column in range(1, len(table.columns))]
        for row in range(len(table.rows))
    }


PAPERS = [name for name in TABLES if name not in ("segments", "stream", "certainty", "seeds", "settings")]
"""The paper has single streams of one seed and no batches; `test_streams.py` and `test_one_answer.py` show
the tables of runs that have more."""


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize("format", tables.FORMATS)
def test_every_table_of_the_paper_in_every_format(name: str, format: str) -> None:
    text = tables.render(paper(name), format)
    assert text.endswith("\n")
    assert len(text.splitlines()) > 5
    assert "nan" not in text.lower().replace("nano", "")


def test_terms_are_written_as_the_paper_writes_them() -> None:
    assert lines("discrete")["ETA"] == ["41.0", "4,800", "45.6", "18.70"]
    assert lines("continuous")["CMF"] == ["49.13", "7.9", "-0.0002", "3.84"]
    assert lines("amortised")["SHOT-IM"] == ["1.7", "32.23", "32.22", "32.22"]
    assert lines("amortised")["AdaBN"] == ["100.0", "31.72", "–", "31.72"]


def test_aggregates_are_written_as_the_paper_writes_them() -> None:
    assert lines("deficit")["CMF"] == ["211", "15.00", "68", "14.77", "75", "11.60", "68", "18.96"]
    assert lines("below-standard")["CMF"] == ["79", "28", "30", "42"]
    assert lines("below-standard")["NEO"] == ["0", "–", "–", "–"]
    assert lines("overhead")["SAR"] == ["195.2", "41.1", "1.2", "154.1", "4.89×"]
    assert lines("temporal-factors")["DeYO"] == ["31.8", "10.2", "53"]
    assert lines("correlation")["Mean"][:5] == ["-0.19", "0.13", "0.45", "0.69", "0.97"]
    assert lines("winners")["Elastic transform"][-6:] == ["AdaBN", "SHOT-IM", "SHOT-IM", "ETA", "ETA", "ETA"]
    changes, waits = (
        ["50.1", "97.2", "+47.1", "15.9", "30.8", "+14.9", "3→1"],
        ["41.0 ± 0.1", "60.8 ± 11.5", "15.1"],
    )
    assert lines("buffering")["AdaBN"] == [*changes, *waits]
    assert lines("sweep", "vit_inc")["ZeroSIAM"][0] == "20.91"


def test_the_ablation_is_the_budget_s_table_by_shift() -> None:
    table = tables.build("amortised", published.as_utilities("rn50_inc", "ablation"), by_shift=True)
    texts = [[table.text(row, column) for column in range(5)] for row in range(len(table.rows))]
    assert ["Brightness", "1.6", "65.7", "66.5", "1.6"] in texts


def test_families_are_separated_and_wins_counted() -> None:
    table = paper("sweep")
    assert table.rules == {4}
    winners = paper("winners")
    assert winners.rules == {3, 7, 11}
    assert winners.notes == ("wins: ETA 103, AdaBN 55, CMF 39, SHOT-IM 26, DeYO 23, NEO 9",)


def test_offline_by_shift_is_the_paper_s_full_table() -> None:
    table = tables.build("offline", published.as_utilities("rn50_inc"), by_shift=True)
    assert [column.title for column in table.columns[:5]] == ["Shift", "Standard", "NEO", "LAME", "AdaBN"]
    last = [table.text(15, column) for column in range(11)]
    assert last == [
        "Mean",
        "18.16",
        "22.14",
        "17.40",
        "31.72",
        "42.88",
        "48.35",
        "42.43",
        "48.76",
        "49.13",
        "44.14",
    ]
    assert [cell.mark for cell in table.rows[0][-3:]] == ["second", "best", ""]


def test_best_bold_second_underlined_ranks_next_to_it() -> None:
    table = paper("sweep")
    latex = tables.render(table, "latex")
    assert r"AdaBN & \textbf{30.83}~{\scriptsize\color{gray}(1)}" in latex
    assert r"NEO & \underline{22.14}~{\scriptsize\color{gray}(2)}" in latex
    assert r"\multicolumn{5}{c}{\textbf{Discrete}}" in latex
    assert r"\cmidrule(lr){2-6}" in latex
    assert r"\textbf{$\rho$ 100 \%}" in latex
    assert latex.count(r"\begin") == latex.count(r"\end")
    markdown = tables.render(table, "markdown")
    assert "| AdaBN | **30.83** (1) |" in markdown
    assert "| Method | Discrete ρ 100 % |" in markdown


def test_latex_rows_have_as_many_cells_as_columns() -> None:
    for name in PAPERS:
        table = paper(name)
        latex = tables.render(table, "latex")
        alignment = re.search(r"\\begin\{tabular\}\{([lr]+)\}", latex)
        assert alignment is not None
        assert len(alignment[1]) == len(table.columns)
        rows = [line for line in latex.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(table.columns)}


def test_the_terminal_stays_within_80_columns_and_cuts_between_groups() -> None:
    for name in PAPERS:
        text = tables.render(paper(name))
        assert max(map(len, text.splitlines())) <= 80, name
        assert "…" not in text, name
    sweep = tables.render(paper("sweep"))
    assert sweep.count("Standard") == 3, "one grid per protocol"
    wide = tables.to_terminal(paper("sweep"), width=200)
    assert wide.count("Standard") == 1


def test_colour_is_for_terminals_that_have_it() -> None:
    table = paper("sweep")
    assert "\x1b" not in tables.to_terminal(table)
    coloured = tables.to_terminal(table, colour=True)
    assert "\x1b[1m30.83" in coloured, "best is bold"
    assert "\x1b[4m22.14" in coloured, "second is underlined"
    assert "\x1b[2m16.63" in coloured, "below Standard is grey"


def test_numbers_align_at_every_rank() -> None:
    text = tables.render(paper("offline"))
    assert len({line.index(".") for line in text.splitlines() if re.search(r"\d\.\d", line)}) == 1


def test_csv_and_json_hold_fractions() -> None:
    table = paper("sweep")
    rows = pd.read_csv(StringIO(tables.render(table, "csv")))
    eta = rows[(rows["method"] == "eta") & (rows["label"] == "ρ 100 %")]
    assert eta["utility"].item() == 0.187
    content = json.loads(tables.render(table, "json"))
    assert content["table"] == "sweep"
    assert len(content["rows"]) == 160
    frozen = json.loads(tables.render(paper("amortised"), "json"))["rows"]
    assert next(row for row in frozen if row["method"] == "standard")["frozen_accuracy"] is None


@pytest.mark.parametrize("name", [name for name in PAPERS if name != "overhead"])
def test_every_table_of_a_run(name: str) -> None:
    table = tables.build(name, a_run())
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_a_run_s_sweep_tells_queues_apart_and_shows_deployments() -> None:
    titles = [column.title for column in tables.build("sweep", a_run()).columns]
    assert titles[1:4] == ["γ 10 ms, queue 0", "γ 10 ms, queue 1", "γ 40 ms, queue 1"]
    assert titles[-1] == "γ 12 ms, T 30 ms, B 0.08 s"


def test_one_shift_one_scenario() -> None:
    run = a_run()
    table = tables.build("continuous", run, shift="snow", scenario="T 100 ms")
    assert table.caption == "Continuous utility (%) at T 100 ms and its terms, on Snow"
    assert set(table.data["label"]) == {"T 100 ms"}
    by_shift = tables.build("amortised", run, by_shift=True)
    assert [column.title for column in by_shift.columns[:4]] == [
        "Shift",
        "adapt accuracy",
        "frozen accuracy",
        "utility",
    ]
    assert len(by_shift.rows) == 3


def test_seeds_are_pooled_and_said_so() -> None:
    run = pd.concat([a_run(seed=1), a_run(seed=2)])
    table = tables.build("offline", run)
    assert table.notes[-1] == "mean over 2 seeds"
    assert len(table.rows) == 4


@pytest.mark.parametrize("name", ["offline", "continuous", "amortised"])
def test_calibration_is_a_column_of_its_own_and_low_is_good(name: str) -> None:
    run = a_run()
    errors = dict(zip(run["method"].unique(), (0.1, 0.05, 0.3, 0.2), strict=True))
    known = run.assign(ece=run["method"].map(errors) + 0.01 * (run["shift"] == "snow"))
    table = tables.build(name, known)
    assert [column.title for column in table.columns].count("ECE") == 1
    assert table.columns[-1].title == "ECE"
    own = known[known["label"].isin(table.data["label"]) & (known["shift"] != "clean")]
    served = own["availability"] * own.get("batches", 1)
    expected = (own["ece"] * served).groupby(own["method"]).sum() / served.groupby(own["method"]).sum()
    found = dict(zip(table.data["method"], table.data["ece"], strict=True))
    assert found == pytest.approx(expected.to_dict()), "weighted by what is served, in data, CSV and JSON"
    shown = {str(row[0].value): row[-1] for row in table.rows}
    best = min(shown, key=lambda name: shown[name].value)
    assert shown[best].mark == "best"
    for format in ("terminal", "markdown", "latex"):
        assert "ECE" in tables.render(table, format)
    titles = [column.title for column in tables.build(name, run.assign(ece=float("nan"))).columns]
    assert "ECE" not in titles, "runs that do not know have no column"


def test_latency_comes_from_traces() -> None:
    traces = pd.DataFrame(
        {
            "method": ["standard", "tent"],
            "protocol": "offline",
            "served": True,
            "predict_ms": 9.0,
            "adapt_ms": [0.0, 21],
        }
    )
    table = tables.build("overhead", a_run(), traces)
    shown = [table.text(1, column) for column in range(7)]
    assert shown == ["Tent", "30.0", "9.0", "0.0", "21.0", "3.00×", "2.10"]
    traces = pd.concat([traces, traces.assign(predict_ms=11.0)])
    table = tables.build("overhead", a_run(), traces)
    assert [table.text(1, column) for column in (1, 2, 3, 4)] == ["31.0", "1.0", "10.0", "1.0"]


def judged() -> tables.Table:
    """A sweep with an interval at every utility; winners of one protocol are undecided, of another equal."""
    rows = cells(a_run(shifts=("fog",))).query("shift == 'fog' and not reference")
    rows = rows.assign(verdict="holds", why="", sample_lo=0.3, sample_hi=0.32)
    rows.loc[rows["protocol"] == "discrete", ["verdict", "why"]] = "undecided", "sampling"
    rows.loc[rows["protocol"] == "continuous", "verdict"] = "equal"
    return by_scenario(rows, CATALOGUE).called("sweep", "Utility", flag_notes(rows))


def test_only_winners_that_do_not_hold_are_marked() -> None:
    table = judged()
    text = tables.render(table)
    assert "? best here, but undecided (by sampling)" in text
    assert "= best, and equal with another method within half a point" in text
    for number, column in enumerate(table.columns):
        signs = {cells[number].flag for cells in table.rows if cells[number].rank == 1}
        expected = {"Discrete": {"?"}, "Continuous": {"="}, "": {""}}.get(column.group, {""})
        assert number == 0 or signs == expected
        assert all(cells[number].flag == "" for cells in table.rows if cells[number].rank != 1)
    assert "±1.0" in tables.render(table, "markdown")
    assert r"$\pm$1.0" in tables.render(table, "latex")
    assert '"sample_lo":0.3' in tables.render(table, "json").replace(" ", "")


@pytest.mark.parametrize("width", [60, 80, 120, 250])
def test_intervals_are_shown_and_explained_however_wide_the_terminal_is(width: int) -> None:
    table = judged()
    numbers = sum(cell.rank is not None for row in table.rows for cell in row)
    assert tables.to_terminal(table, width).count("±1.0") == numbers
    for format in ("terminal", "markdown"):
        assert "± half of the 95 % interval over other samples" in tables.render(table, format)
    assert "±" not in tables.render(tables.build("winners", a_run())), "no interval, nothing to explain"


def test_a_group_that_says_what_its_column_says_is_named_once_in_markdown() -> None:
    text = tables.render(tables.build("winners", a_run()), "markdown")
    assert "offline" in text.lower()
    assert "Offline offline" not in text


HOSTILE = r"evil:<script>alert(1)</script>|[bold]_x_ & 50% \input{x} " + "very long " * 8


@pytest.mark.parametrize("format", tables.FORMATS)
def test_hostile_names_are_text(format: str) -> None:
    run = a_run()
    run["method"] = run["method"].replace("tent", HOSTILE)
    run["shift"] = run["shift"].replace("mine", "<b>&|")
    text = tables.render(tables.build("offline", run, by_shift=True), format)
    if format == "terminal":
        assert "[bold]" in re.sub(r"\s+", "", text)
    if format == "markdown":
        assert "<script>" not in text
        assert (
            len({len(re.split(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")})
            == 1
        )
    if format == "latex":
        assert r"\input{x}" not in text
        assert r"\textbackslash{}input\{x\}" in text
    if format == "json":
        assert json.loads(text)["rows"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tables.build("winer", a_run()), "unknown table 'winer': did you mean 'winners'"),
        (lambda: tables.build("sweep", a_run(), shift="fogg"), "unknown shift 'fogg': did you mean 'fog'"),
        (lambda: tables.build("sweep", a_run(), by_shift=True), "has no rows by shift"),
        (lambda: tables.build("discrete", a_run(), scenario="ρ 9 %"), "unknown discrete scenario"),
        (lambda: tables.build("overhead", a_run()), "read from the traces"),
        (
            lambda: tables.build("amortised", a_run().query("protocol == 'offline'")),
            r"no amortised cells in this run \(it has offline\)",
        ),
        (lambda: tables.build_published("buffering", "vit_inc"), "rn50_inc only"),
        (lambda: tables.render(tables.build("offline", a_run()), "html"), "unknown format 'html'"),
    ],
)
def test_mistakes_say_what_is_allowed(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(TemporaError, match=message):
        call()


def test_marks_share_and_skip_what_is_missing() -> None:
    assert marks([1.0, 3.0, 3.0, float("nan"), 2.0]) == ["", "best", "best", "", "second"]
    assert marks([1.0, 3.0], higher_is_better=False) == ["best", "second"]


def needed(setup: str, against: str, label: str) -> dict[str, float]:
    """Accuracy in percent that each method needs to match a competitor, by what the paper prints."""
    rows = published.as_utilities(setup, "aggregate")
    table = tables.build("solvency", rows, scenario=label, against=against)
    assert list(table.data["insolvent"]) == list(table.data["break_even_accuracy"] > 1)
    return dict(zip(table.data["method"], 100 * table.data["break_even_accuracy"], strict=True))


def test_solvency_says_the_needed_accuracy_also_above_a_hundred() -> None:
    """Section 4.2: against AdaBN, from rounded terms."""
    discrete = needed("rn50_inc", "adabn", "ρ 100 %")
    assert [discrete[name] for name in ("eta", "cmf", "sar")] == pytest.approx([75.1, 122.7, 149.5], abs=0.3)
    continuous = needed("rn50_inc", "adabn", "T 50 ms")
    assert [continuous[name] for name in ("eta", "sar")] == pytest.approx([189.5, 458.4], abs=0.3)
    gradient = ("tent", "eta", "shot_im", "deyo", "cmf", "sar")
    standard = needed("rn50_inc", "standard", "T 50 ms")
    assert standard["tent"] == pytest.approx(120.3, abs=0.3)
    assert all(min(continuous[name], standard[name]) > 100 for name in gradient)
    vit = needed("vit_inc", "standard", "ρ 100 %")
    insolvent = {name for name, percent in vit.items() if percent > 100}
    assert insolvent == {*gradient, "spa", "zerosiam"}
    assert (vit["eta"], vit["spa"]) == pytest.approx((111.7, 304.9), abs=0.3)


def test_solvency_by_shift_and_what_it_cannot_say() -> None:
    rows = published.as_utilities("rn50_inc")
    table = tables.build("solvency", rows.assign(availability=rows["availability"] / 2), by_shift=True)
    assert len(table.rows) == 15
    with pytest.raises(TemporaError, match="every method can pay for its time"):
        tables.build("solvency", rows[rows["protocol"].isin(["offline", "amortised"])])
    with pytest.raises(TemporaError, match="only table solvency compares"):
        tables.build("sweep", rows, against="adabn")


def test_a_method_that_collapses_for_some_seeds_shows_it() -> None:
    """DeYO on contrast with five seeds, as reported to its authors; Standard gets 32.6 %."""
    reported = {"deyo": [0.624, 0.0021, 0.332, 0.336, 0.635], "standard": [0.326] * 5}
    parts = []
    for number in range(5):
        rows = a_run(seed=2025 + number, shifts=("contrast",)).replace({"method": {"tent": "deyo"}})
        rows = rows[rows["method"].isin(list(reported)) & (rows["protocol"] == "offline")]
        parts.append(rows.assign(utility=[reported[method][number] for method in rows["method"]]))
    table = tables.build("seeds", pd.concat(parts))
    last = len(table.columns) - 1
    rows = {table.text(row, 0): [table.text(row, column) for column in (last - 1, last)] for row in range(2)}
    assert rows == {"Standard": ["0.00", "0"], "DeYO": ["26.05", "1"]}


def test_one_family_of_methods_alone() -> None:
    rows = published.as_utilities("rn50_inc")
    table = tables.build("discrete", rows, by_shift=True, family="gradient-free")
    assert {column.group for column in table.columns[1:]} == {"Standard", "NEO", "LAME", "AdaBN"}
    with pytest.raises(TemporaError, match="did you mean 'gradient-free'"):
        tables.build("discrete", rows, family="gradient-fre")


def test_the_cut_off_says_which_rule_it_follows() -> None:
    table = tables.build("temporal-factors", published.as_utilities("rn50_inc", "aggregate"))
    assert table.notes == ("cut-off by rule overshoot",)


def test_overhead_shows_deviations_and_adaptation_over_lambda() -> None:
    titles = [column.title for column in paper("overhead", "rn18_c10c_rpi5").columns]
    assert titles == ["Method", "adapt (ms)", "adapt / λ"]
