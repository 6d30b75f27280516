"""Results in the hands of a notebook's user: what they show of themselves, and what can be asked of them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import tempora_tta as tempora
from made_runs import METHODS, Pace, write_run
from tempora_tta import analysis, words
from tempora_tta._numbers import percent
from tempora_tta.cli.app import app
from tempora_tta.engine.observer import Observer
from tempora_tta.errors import TemporaError
from tempora_tta.progress import Progress, watched
from tempora_tta.results import Results
from tempora_tta.scenarios import Amortised, Offline


def test_a_notebook_shows_the_list_of_the_terminal(results: Results):
    assert f"{len(METHODS)} methods" in repr(results)
    assert "\n".join(words.listing(analysis.overview(results)["answers"])) in repr(results)
    shown = results._repr_html_()
    for one in analysis.answers(results):
        best = one.ranking.iloc[0]
        label, utility = results.cards.label(best["method"]), percent(best["utility"])[:-2]
        assert f"<td>{label}</td><td>{utility}</td>" in shown


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
    ("knobs", "parts"),
    [
        ({"interval": 5}, ["interval", "interval_ms"]),
        ({"shift": "fog"}, ["shift", "shifts"]),
        ({}, ["interval_ms", "budget_s"]),
        ({"interval_ms": 5.0, "fps": 1.0}, ["interval_ms", "fps"]),
        ({"budget_s": 1.0, "queue": 3}, ["queue=3", "interval_ms"]),
        ({"scenario": "nope"}, ["nope", "scenario"]),
    ],
)
def test_what_cannot_be_asked_is_said_in_the_words_of_python(results: Results, knobs, parts):
    with pytest.raises(TemporaError) as error:
        results.recommend(**knobs)
    assert all(part in str(error.value) for part in parts), error.value
    assert "--" not in str(error.value)


def test_the_report_is_next_to_the_run_or_where_one_says(tmp_path: Path):
    run = tempora.open_run(write_run(tmp_path / "run", scenarios=[Offline()], batches=8).path)
    assert run.report() == run.path / "report.html"
    assert run.report(tmp_path / "mine.html").read_bytes() == run.report().read_bytes()


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


@pytest.mark.parametrize("is_terminal", [False, True])
def test_it_is_drawn_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch, is_terminal: bool):
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    with watched(None, True) as bars:
        bars.note("mind the gap")
    assert ("mind the gap" in stderr.getvalue()) == is_terminal
    with watched(None, False) as silent:
        assert type(silent) is Observer
    mine = Observer()
    with watched(mine, True) as given:
        assert given is mine
