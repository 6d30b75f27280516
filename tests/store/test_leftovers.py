"""Leftovers of killed writers: the next writer in the folder removes them, and no other files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from made_runs import write_run
from tempora_tta.report.html import write_report
from tempora_tta.scenarios import Offline
from tempora_tta.store import Results, RunFolder


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return write_run(tmp_path_factory.mktemp("left") / "run", scenarios=(Offline(),), shifts=("fog",))


def test_a_report_removes_what_a_killed_one_left(results: Results, tmp_path: Path, dead: int) -> None:
    page = tmp_path / "report.html"
    own, other = tmp_path / f"report.html.{dead}.part", tmp_path / f"film.mkv.{dead}.part"
    for path in (own, other):
        path.write_text("half")
    write_report(results, page)
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, page.name]


def test_a_run_removes_all_in_its_folder_but_those_of_living_writers(tmp_path: Path, dead: int) -> None:
    """A report may be on its way while a run begins: its file is not taken from under it."""
    (tmp_path / "traces").mkdir()
    gone = [tmp_path / f"report.html.{dead}.part", tmp_path / "traces" / f"x.parquet.{dead}.part"]
    kept = [tmp_path / f"report.html.{os.getppid()}.part", tmp_path / "mine.part"]
    for path in (*gone, *kept):
        path.write_text("half")
    with RunFolder.for_writing(tmp_path):
        assert not any(path.exists() for path in gone)
        assert all(path.exists() for path in kept)


def test_a_copy_leaves_them_behind(results: Results, tmp_path: Path) -> None:
    part = results.path / "report.html.1.part"
    part.write_text("half")
    assert not (results.save(tmp_path / "copy") / part.name).exists()
