"""Whole screens as text, on a made-up run under a given clock, so that no wording changes unseen.

Screens are files in `screens/`. TEMPORA_SCREENS=write pytest tests/cli/test_screens.py renews them after a change on
purpose.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tempora_tta as tempora
from made_runs import METHODS, Pace, write_run
from tempora_tta import analysis, words
from tempora_tta.cli.app import app
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline

SCREENS = Path(__file__).parent / "screens"
SCENARIOS = (
    Offline(),
    *(Discrete(utilisation=share) for share in (1.0, 0.5, 0.25)),
    *(Continuous(threshold_x=x) for x in (1.25, 5.0, 25.0)),
    *(Amortised(budget_x=x) for x in (0.125, 0.5, 1.0)),
)
ASKED = {
    "show": ["show", "made"],
    "recommend-1-camera": ["recommend", "made", "--fps", "30", "--within-ms", "200"],
    "recommend-20-cameras": ["recommend", "made", "--fps", "30", "--cameras", "20", "--within-ms", "200"],
    "recommend-1000-cameras": ["recommend", "made", "--fps", "30", "--cameras", "1000", "--within-ms", "200"],
    "recommend-patience": ["recommend", "made", "--patience-ms", "40", "--why"],
    "recommend-highest-rate": ["recommend", "made", "--p99-ms", "50"],
    "compare": ["compare", "made", "other"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one, and the same with a better AdaBN on another machine."""
    folder = tmp_path_factory.mktemp("screens")
    settings = {"clock": "steady:made", "shifts": ("gaussian_noise", "contrast"), "model": "a_net"}
    write_run(folder / "made", scenarios=SCENARIOS, **settings)  # type: ignore[arg-type]
    better = {**METHODS, "adabn": Pace(10.5, 0.0, 0.70)}
    write_run(folder / "other", scenarios=SCENARIOS, methods=better, machine={"gpu": "Big GPU"}, **settings)  # type: ignore[arg-type]
    return folder


def same(name: str, text: str) -> None:
    """Compare a screen with its file; trailing blanks are no difference."""
    text = "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"
    if os.environ.get("TEMPORA_SCREENS") == "write":
        (SCREENS / f"{name}.txt").write_text(text, encoding="utf-8")
    assert text == (SCREENS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ASKED)
def test_a_screen_is_as_it_was_approved(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, ASKED[name], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    same(name, result.output)
    assert all(len(line) <= 80 for line in result.output.splitlines() if "tempora run" not in line)


def test_a_run_ends_with_the_list_on_one_screen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    lines = words.first_screen(analysis.overview(tempora.open_run("made")))
    same("run", "\n".join(lines))
    assert len(lines) <= 26
    assert max(map(len, lines)) <= 80
