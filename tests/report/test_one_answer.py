"""One run, one answer: what is counted, averaged or called best is the same on the terminal, in tables, figures,
the page's words and the page's data."""

from __future__ import annotations

import json
import re
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
from tempora_tta.store.record import RunRecord

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
    terminal = re.search(r"wins: (.*?);", shown("show", run.path))
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
    assert f"of {cells} winners" in shown("show", run.path) or f"all {cells} winners" in shown(
        "show", run.path
    )


def test_every_method_that_shares_a_win_is_seen_in_its_square(run: Results, page: str) -> None:
    """It was counted in the legend and stood nowhere."""
    both = f"AdaBN, {run.cards.label(TWIN)}"
    assert both in shown("show", run.path)
    grid = page[page.index('id="winners"') :]
    assert f"<span>{both}</span>" in grid
    assert re.search(rf'title="Fog, offline: {both} [\d.]+ %\. Level with', grid)
    assert "AdaBN +1" in json.dumps(winners_chart(run)[0].to_dict()["datasets"])


def test_sharing_is_explained_only_where_it_counts(run: Results) -> None:
    rows = run.utilities[run.utilities["protocol"] == "offline"]
    note = "a cell that methods share counts for each"
    assert note in tables.build("winners", rows, cards=run.cards).notes[0]
    alone = rows[(rows["method"] != TWIN) | (rows["shift"] == "clean")]
    assert note not in tables.build("winners", alone, cards=run.cards).notes[0], (
        "they share clean images only"
    )


def test_clean_images_are_a_shift_in_no_heading(run: Results, page: str) -> None:
    assert "Fog and snow (mean of both)" in shown("show", run.path)
    assert "2 shifts and clean" in " ".join(re.sub(r"<[^>]*>", "", page).split())


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
    for frame in (rows, shifted):
        pooled = analysis.over_all(analysis.cells(frame, run.cards)).set_index(["label", "method"])["utility"]
        assert (
            pooled.to_dict()
            == analysis.over_all(analysis.cells(shifted, run.cards))
            .set_index(["label", "method"])["utility"]
            .to_dict()
        )
    sweep = tables.build("sweep", rows, cards=run.cards)
    assert "aggregated over 2 shifts, clean apart" in sweep.caption
    found = recommend(run, Question(threshold_ms=15.0))
    expected = analysis.over_all(analysis.cells(shifted, run.cards))
    expected = expected[expected["protocol"] == "continuous"].set_index("method")["utility"]
    assert found.ranking.set_index("method")["utility"].to_dict() == pytest.approx(expected.to_dict())
    for name in ("deficit", "below-standard"):
        built = [tables.build(name, frame, cards=run.cards).data for frame in (rows, shifted)]
        pd.testing.assert_frame_equal(*built)
    only = recommend(run, Question(threshold_ms=15.0, shifts=("clean",)))
    clean = (
        rows[(rows["shift"] == "clean") & (rows["protocol"] == "continuous")]
        .groupby("method")["utility"]
        .mean()
    )
    found = only.ranking.set_index("method")["utility"]
    assert found.to_dict() == pytest.approx(clean.to_dict()), "a user who asks for clean images gets them"


def test_a_failed_method_is_shown_and_not_proposed(run: Results, tmp_path: Path) -> None:
    results = write_run(
        tmp_path, scenarios=SCENARIOS, config={"methods": ["standard", "adabn", "tent"], "scenarios": []}
    )
    frame = results.utilities.copy()
    gone = frame["method"] == "tent"
    frame.loc[gone, "status"] = "failed: RuntimeError: no BatchNorm layer"
    numbers = frame.select_dtypes("number").columns.difference(
        ["seed", "scenario", "baseline_ms", "value", "queue"]
    )
    frame.loc[gone, list(numbers)] = None
    results.folder.write_utilities(frame)
    results.folder.write_manifest(results.folder.record())
    text = shown("show", tmp_path)
    assert "Tent –" in text
    assert "Tent failed everywhere: RuntimeError: no BatchNorm layer" in text
    told = json.loads(shown("recommend", tmp_path, "--budget", 0.1, "--format", "json"))
    assert told["left_out"]["tent"]["why"] == "failed: RuntimeError: no BatchNorm layer"
    assert "tent" not in [row["method"] for row in told["ranking"]]


def test_the_verdict_keeps_all_its_words(run: Results, tmp_path: Path) -> None:
    text = "INVALID: 13 of 56 passes are INVALID; close other programs"
    results = write_run(tmp_path, scenarios=SCENARIOS, verdict="INVALID")
    manifest = {**results.folder.manifest(), "verdict": {"status": "INVALID", "reasons": [], "text": text}}
    results.folder.write_manifest(RunRecord.model_validate(manifest))
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", render(Results(results.folder))))
    assert said.count("13 of 56 passes are INVALID") == 2, "in the banner and under provenance"


def test_one_sign_has_one_meaning(run: Results) -> None:
    """`!` and `≈` meant three things; winners have `=` and `?` now, and only they."""
    for name in ("winners", "sweep", "offline"):
        text = tables.render(tables.build(name, run.utilities, cards=run.cards, certainty=cells_of(run)))
        assert "!" not in text
        assert "≈" not in text
    assert "≈" not in shown("compare", run.path, run.path)


def test_seeds_and_certainty_are_shown_not_only_means(run: Results) -> None:
    seeds = tables.build("seeds", run.utilities, cards=run.cards, certainty=cells_of(run))
    titles = [column.title for column in seeds.columns]
    assert titles == ["Method", "seed 1", "seed 2", "mean", "sd (pp)", "collapsed"]
    rows = run.utilities
    offline = rows[(rows["protocol"] == "offline") & (rows["shift"] != "clean") & (rows["method"] == "tent")]
    expected = offline.groupby("seed")["utility"].mean()
    found = {str(row[0].value): [cell.value for cell in row[1:]] for row in seeds.rows}["Tent"]
    assert found[:2] == pytest.approx(expected.tolist())
    assert found[3] == pytest.approx(expected.std(ddof=1))
    certainty = tables.build("certainty", rows, cards=run.cards, certainty=cells_of(run))
    text = tables.render(certainty, "markdown")
    assert "P(best)" in text
    judged = analysis.over_all(analysis.cells_of(run))
    assert certainty.data["p_best"].tolist() == pytest.approx(judged["p_best"].tolist())
    latex = tables.render(tables.build("sweep", rows, cards=run.cards, certainty=cells_of(run)), "latex")
    assert r"\,$\pm$" in latex
    offline_table = tables.build("offline", rows, cards=run.cards, certainty=cells_of(run))
    assert "±" in tables.render(offline_table, "terminal"), "intervals where they cost no second grid"
    records = json.loads(tables.render(offline_table, "json"))["rows"]
    assert all(one["sample_lo"] <= one["utility"] <= one["sample_hi"] for one in records)
