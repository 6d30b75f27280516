"""One run, one answer: what is counted, averaged or called best is the same on the terminal, in tables, figures,
the page's words and the page's data."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from made_runs import METHODS, Pace, write_run
from tempora_tta import analysis
from tempora_tta.analysis.of_run import cells_of, summary_of
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.recommend import recommend
from tempora_tta.cli.app import app
from tempora_tta.report import tables
from tempora_tta.report.charts import winners as winners_chart
from tempora_tta.report.html.page import render
from tempora_tta.scenarios import Continuous, Discrete, Offline
from tempora_tta.store import Results

SCENARIOS = (Offline(), Discrete(interval_ms=10.0), Discrete(interval_ms=25.0), Continuous(threshold_ms=15.0))
TWIN = "mocks"
"""As long a name as AdaBN's and the same numbers: the two tie offline and wherever nothing is skipped."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two seeds, clean images and two shifts, and a tie."""
    methods = {"standard": METHODS["standard"], "adabn": Pace(10.5, 0.0, 0.70), TWIN: Pace(10.5, 0.0, 0.70)}
    methods |= {"tent": METHODS["tent"]}
    return write_run(
        tmp_path_factory.mktemp("one"),
        methods=methods,
        scenarios=SCENARIOS,
        shifts=("fog", "snow", "clean"),
        seeds=(1, 2),
    )


@pytest.fixture(scope="module")
def page(run: Results) -> str:
    return render(run)


def shown(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def counts(text: str, labels: dict[str, str]) -> dict[str, int]:
    """`AdaBN 8, Tent 1` as numbers by method."""
    return {
        name: int(found[1]) for name, label in labels.items() if (found := re.search(rf"{label} (\d+)", text))
    }


def test_wins_are_one_number_everywhere(run: Results, page: str) -> None:
    labels = {name: run.cards.label(name) for name in run.manifest["methods"]}
    expected = analysis.wins_of(analysis.winners(analysis.cells_of(run), run.cards), run.cards)
    assert expected["adabn"] >= expected[TWIN] > 0, "a cell that methods share counts for each"
    said = shown("show", run.path)
    terminal = re.search(r"wins: (.*?);", said)
    assert terminal is not None
    table = tables.build("winners", run.utilities, cards=run.cards, certainty=cells_of(run)).notes[0]
    figure = json.dumps(
        winners_chart(run)[0].to_dict()["hconcat"][0]["layer"][0]["encoding"]["color"]["legend"]
    )
    grid = re.search(r'<ul class="legend"[^>]*>(.*?)</ul>', page[page.index('id="winners"') :], re.DOTALL)
    assert grid is not None
    drawn = counts(re.sub(r"<[^>]*>", "", grid[1]), labels)
    for found in (counts(terminal[1], labels), counts(table, labels), counts(figure, labels), drawn):
        assert found == expected
    cells = len(SCENARIOS) * 2
    assert summary_of(run).cells == cells, "two shifts, seeds together, clean apart"
    assert f" {cells} winners" in said


def test_every_method_that_shares_a_win_is_seen_in_its_square(run: Results, page: str) -> None:
    """It was counted in the legend and stood nowhere."""
    both = f"AdaBN, {run.cards.label(TWIN)}"
    assert both in shown("show", run.path)
    grid = page[page.index('id="winners"') :]
    assert f"<span>{both}</span>" in grid
    assert re.search(rf'title="Fog, offline: {both} [\d.]+ %\. Level with', grid)
    assert "AdaBN +1" in json.dumps(winners_chart(run)[0].to_dict()["datasets"])


def test_there_is_one_offline_champion(tmp_path: Path) -> None:
    """Tent wins two of three shifts by a little, AdaBN the third by far: the mean decides, in every sentence."""
    results = write_run(tmp_path, scenarios=SCENARIOS, shifts=("fog", "snow", "frost"))
    frame = results.utilities.copy()
    offline = frame["protocol"] == "offline"
    for shift, adabn, tent in (("fog", 0.50, 0.51), ("snow", 0.50, 0.51), ("frost", 0.90, 0.40)):
        for method, utility in (("adabn", adabn), ("tent", tent)):
            frame.loc[offline & (frame["shift"] == shift) & (frame["method"] == method), "utility"] = utility
    frame.loc[offline & ~frame["method"].isin(["adabn", "tent"]), "utility"] = 0.1
    cells = analysis.cells(frame, results.cards)
    assert analysis.offline_champion(cells) == "adabn"


def test_clean_images_are_in_no_mean_and_no_count(run: Results) -> None:
    rows = run.utilities
    shifted = rows[rows["shift"] != "clean"]
    expected = analysis.over_all(analysis.cells(shifted, run.cards))
    pd.testing.assert_frame_equal(
        analysis.over_all(analysis.cells(rows, run.cards)), expected, check_like=True
    )
    for name in ("sweep", "deficit", "below-standard"):
        built = [
            tables.build(name, frame, cards=run.cards).data.reset_index(drop=True)
            for frame in (rows, shifted)
        ]
        pd.testing.assert_frame_equal(*built)
    clean = rows[rows["shift"] == "clean"]
    for shifts, of in (((), expected), (("clean",), clean)):  # a user who asks for clean images gets them
        found = recommend(run, Question(threshold_ms=15.0, shifts=shifts)).ranking.set_index("method")[
            "utility"
        ]
        wanted = of[of["protocol"] == "continuous"].groupby("method")["utility"].mean()
        assert found.to_dict() == pytest.approx(wanted.to_dict())


def test_a_failed_method_is_shown_and_not_proposed(tmp_path: Path) -> None:
    why = "RuntimeError: no BatchNorm layer"
    write_run(tmp_path, scenarios=SCENARIOS, batches=8, broken={"tent": why}, config={"scenarios": []})
    text = shown("show", tmp_path)
    assert "Tent –" in text
    assert f"Tent failed everywhere: {why}" in text
    told = json.loads(shown("recommend", tmp_path, "--budget", 0.1, "--format", "json"))
    assert told["left_out"]["tent"]["why"] == f"failed: {why}"
    assert "tent" not in [row["method"] for row in told["ranking"]]


def test_seeds_and_certainty_are_shown_not_only_means(run: Results) -> None:
    build = partial(tables.build, utilities=run.utilities, cards=run.cards, certainty=cells_of(run))
    seeds = build("seeds")
    titles = [column.title for column in seeds.columns]
    assert titles == ["Method", "seed 1", "seed 2", "mean", "sd (pp)", "collapsed"]
    offline = run.utilities.query("protocol == 'offline' and shift != 'clean' and method == 'tent'")
    expected = offline.groupby("seed")["utility"].mean()
    found = {str(row[0].value): [cell.value for cell in row[1:]] for row in seeds.rows}["Tent"]
    assert found[:2] == pytest.approx(expected.tolist())
    assert found[3] == pytest.approx(expected.std(ddof=1))
    judged = analysis.over_all(analysis.cells_of(run))
    assert build("certainty").data["p_best"].tolist() == pytest.approx(judged["p_best"].tolist())
    records = json.loads(tables.render(build("offline"), "json"))["rows"]
    assert all(one["sample_lo"] <= one["utility"] <= one["sample_hi"] for one in records)
