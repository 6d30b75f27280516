"""Several runs: a page each, and one that links them and ranks their methods."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from made_runs import GRID, METHODS, Pace, write_run
from tempora_tta import analysis
from tempora_tta.cli.app import app
from tempora_tta.report.html.index import ranking
from tempora_tta.results import open_runs


def test_several_runs_are_linked_and_ranked(tmp_path: Path) -> None:
    few = {name: METHODS[name] for name in ("standard", "adabn", "tent")}
    name = "b <script>alert(1)</script>"
    write_run(tmp_path / "a", methods=few, scenarios=GRID[:3], batches=8)
    write_run(
        tmp_path / "b", methods=few | {"eta": Pace(10.0, 3.0, 0.6)}, scenarios=GRID[:3], batches=8, model=name
    )
    asked = [str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "all")]
    result = CliRunner().invoke(app, ["report", *asked])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "all" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"#]+)"', page)
    assert len(links) == 2
    assert all((tmp_path / "all" / unquote(link)).exists() for link in links)
    assert "<script>alert(1)" not in page
    runs = open_runs([tmp_path / "a", tmp_path / "b"])
    table = ranking(runs)
    assert table is not None
    regrets = [
        analysis.regret(run.cells, run.cards).set_index("method")["mean_regret"] for run in runs.values()
    ]
    shared = sorted(few, key=lambda method: sum(regret[method] for regret in regrets))
    labels = [str(row[0].value) for row in table.rows]
    cards = runs["a"].cards
    assert labels == [*map(cards.label, shared), cards.label("eta")], "methods of every run first"
    for row, method in zip(table.rows, shared, strict=False):
        assert [cell.value for cell in row[2:]] == pytest.approx([regret[method] for regret in regrets])
    alone = CliRunner().invoke(app, ["report", *asked[:2]])
    assert alone.exit_code != 0
    assert "--out DIR" in str(alone.exception)
