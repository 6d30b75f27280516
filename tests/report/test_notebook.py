"""Results in the hands of a notebook's user: what they show of themselves, and what can be asked of them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import tempora_tta as tempora
from made_runs import METHODS, WIDE_GRID, Pace, write_run
from tempora_tta import analysis
from tempora_tta._numbers import percent
from tempora_tta.cli.app import app
from tempora_tta.engine.observer import Observer
from tempora_tta.errors import TemporaError
from tempora_tta.progress import Progress, watched
from tempora_tta.results import Results
from tempora_tta.scenarios import Amortised, Offline


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return tempora.open_run(write_run(tmp_path_factory.mktemp("run"), scenarios=WIDE_GRID).path)


def test_they_say_what_they_are_instead_of_an_address(results: Results):
    text = repr(results)
    assert f"{len(METHODS)} methods" in text
    assert "0x" not in text


def test_a_notebook_shows_the_list_of_the_terminal(results: Results):
    shown = results._repr_html_()
    for one in analysis.answers(results):
        best = one.ranking.iloc[0]
        label, utility = results.cards.label(best["method"]), percent(best["utility"])[:-2]
        assert f"<td>{label}</td><td>{utility}</td>" in shown


def test_names_are_text(results: Results, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(results.cards), "label", lambda self, name: f"<script>{name}</script>")
    assert "<script>" not in results._repr_html_()


def test_an_answer_is_that_of_the_command_word_for_word(tmp_path: Path):
    """With methods that may be better, how sure that is, and methods by their names."""
    methods = {name: METHODS[name] for name in ("standard", "adabn")} | {"tent": Pace(10.0, 14.0, 0.8)}
    budgets = (Amortised(budget_ms=198.0), Amortised(budget_ms=400.0))
    run = write_run(tmp_path, methods=methods, scenarios=[Offline(), *budgets])
    found = tempora.open_run(run.path).recommend(budget_s=0.2005)
    shown = CliRunner().invoke(app, ["recommend", str(run.path), "--budget", "0.2005"]).output
    assert found.method == "adabn"
    assert found.interval[0] <= found.ranking["utility"].iloc[0] <= found.interval[1]
    for line in str(found).splitlines():
        assert line in " ".join(shown.split())


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"interval": 5}, ["unknown knob of a deployment 'interval'", "interval_ms"]),
        ({"shift": "fog"}, ["unknown knob of a deployment 'shift'", "did you mean 'shifts'"]),
        ({}, ["no deployment given", "interval_ms", "budget_s"]),
        ({"interval_ms": 5.0, "fps": 1.0}, ["interval_ms and fps are different deployments"]),
        ({"budget_s": 1.0, "queue": 3}, ["queue=3: only with interval_ms"]),
        ({"scenario": "nope"}, ["unknown scenario of this run 'nope'"]),
    ],
)
def test_what_cannot_be_asked_is_said_in_the_words_of_python(results: Results, knobs, words):
    with pytest.raises(TemporaError) as error:
        results.recommend(**knobs)
    assert all(word in str(error.value) for word in words)
    assert "--" not in str(error.value)


def test_the_chart_has_every_method_and_kind_of_scenario(results: Results):
    drawn = results.plot().to_dict()
    assert len(drawn["hconcat"]) == results.utilities["protocol"].nunique() - 1, "offline nothing presses"
    shown = {row["label"] for rows in drawn["datasets"].values() for row in rows}
    assert shown == {results.cards.label(method) for method in METHODS}
    one_shift = results.utilities["shift"].iloc[0]
    assert results.plot(shift=one_shift).to_dict()["hconcat"]
    with pytest.raises(TemporaError, match="unknown shift of this run 'nope'"):
        results.plot(shift="nope")


def test_the_report_is_next_to_the_run_or_where_one_says(results: Results, tmp_path: Path, monkeypatch):
    assert results.report() == results.path / "report.html"
    page = (results.path / "report.html").read_text(encoding="utf-8")
    monkeypatch.setattr(
        "tempora_tta.report.html.page.render", lambda results: page
    )  # it would be the same again
    assert results.report(tmp_path / "mine.html").exists()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(results, "keeps_alive", object())
    assert results.report().resolve() == tmp_path / "report.html"


# -- progress --------------------------------------------------------------------------------------------------


def test_the_line_of_a_notebook_says_how_far_the_run_is():
    drawn: list[str] = []
    with Progress(Console(file=io.StringIO()), live=False, notebook=drawn.append).drawing() as line:
        line.started(4, 1)
        line.task_started("tent", "fog", 1)
        line.pass_started("offline", 30)
        line.task_started("\x1b[2J", "fog", 1)
        line.pass_started("offline", 3)
    assert drawn[1] == "1 of 4, about 0 s left; fog tent: offline, 0 %"
    assert not any("\x1b" in text for text in drawn), "names cannot move the cursor"
    assert drawn[-1] == "", "nothing is left behind"


def test_it_is_drawn_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with watched(None, True) as silent:
        assert type(silent) is Observer
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with watched(None, True) as bars:
        bars.note("mind the gap")
    assert "mind the gap" in terminal.getvalue()
    with watched(None, False) as silent:
        assert type(silent) is Observer
    mine = Observer()
    with watched(mine, True) as given:
        assert given is mine
