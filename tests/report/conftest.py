"""One made-up run that most of the report is drawn from, and its page."""

from __future__ import annotations

import pytest

from made_runs import WIDE_GRID, write_run
from tempora_tta.report.html import write_report
from tempora_tta.results import Results, open_run


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return open_run(write_run(tmp_path_factory.mktemp("made") / "run", scenarios=WIDE_GRID).path)


@pytest.fixture(scope="session")
def page(results: Results) -> str:
    return write_report(results).read_text(encoding="utf-8")
