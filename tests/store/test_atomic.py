"""Files that are replaced: regular ones, by any number of writers at once; leftovers of killed ones are removed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from made_runs import write_run
from tempora_tta import TemporaError
from tempora_tta.report.html import write_report
from tempora_tta.scenarios import Offline
from tempora_tta.store import Results, RunFolder
from tempora_tta.store.atomic import check_replaceable, remove_leftovers, write_atomically
from tempora_tta.store.packs import pack

PATIENCE_S = 60


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return write_run(tmp_path_factory.mktemp("atomic") / "run", scenarios=(Offline(),), shifts=("fog",))


def a_link(path: Path) -> None:
    path.with_name("linked").write_text("mine")
    path.symlink_to("linked")


@pytest.mark.parametrize(
    ("make", "kind", "write"),
    [(os.mkfifo, "pipe", "pack"), (a_link, "link", "pack"), (Path.mkdir, "folder", "report")],
)
def test_out_replaces_only_regular_files(
    make: Callable[[Path], None], kind: str, write: str, results: Results, tmp_path: Path
) -> None:
    place = tmp_path / "out"
    make(place)
    before = os.lstat(place)
    with pytest.raises(TemporaError, match=kind):
        write_report(results, place) if write == "report" else pack(results.path, place)
    assert os.lstat(place) == before
    assert {path.name for path in tmp_path.iterdir()} <= {"out", "linked"}


def test_a_device_is_never_replaced() -> None:
    """Only asked about: run by root, a test that wrote there would take the machine's own device away."""
    with pytest.raises(TemporaError, match="device"):
        check_replaceable(Path(os.devnull))


def test_two_threads_write_one_path(tmp_path: Path) -> None:
    """Each has put its half down before either renames."""
    path, both, failed = tmp_path / "state", threading.Barrier(2, timeout=PATIENCE_S), []

    def save(text: str) -> None:
        def write(part: Path) -> None:
            part.write_text(text)
            both.wait()

        try:
            write_atomically(path, write)
        except TemporaError as error:
            failed.append(error)

    threads = [threading.Thread(target=save, args=(text * 1000,)) for text in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert path.read_text() in {"a" * 1000, "b" * 1000}
    assert list(tmp_path.iterdir()) == [path]


def test_cleaning_leaves_a_writer_of_this_process_alone_and_no_earlier_one_of_its_number(
    tmp_path: Path,
) -> None:
    def write(part: Path) -> None:
        part.write_text("whole")
        remove_leftovers(tmp_path, "page.html")

    (tmp_path / f"other.html.{os.getpid()}.part").write_text("half")
    remove_leftovers(tmp_path, "other.html")
    write_atomically(tmp_path / "page.html", write)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


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
