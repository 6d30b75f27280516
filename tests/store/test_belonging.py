"""Files of two runs in one folder: each is whole, and yet no command believes them without a word."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from made_runs import METHODS, write_run
from tempora_tta.cli import app
from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.scenarios import Continuous, Offline
from tempora_tta.store import open_run
from tempora_tta.store.packs import pack
from tempora_tta.store.segments import segments_frame

FEW = (Offline(), Continuous(threshold_ms=15.0))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`this` and `other`: the same command on the same machine, so that all names of passes are the same."""
    place = tmp_path_factory.mktemp("runs")
    write_run(place / "this", scenarios=FEW)
    write_run(place / "other", scenarios=FEW, luck=1)
    assert open_run(place / "this").folder.passes().keys() == open_run(place / "other").folder.passes().keys()
    return place


def mixed(runs: Path, folder: Path, *foreign: str) -> Path:
    """A copy of `this` with files of `other`."""
    shutil.copytree(runs / "this", folder)
    for name in foreign:
        if (runs / "other" / name).is_dir():
            shutil.copytree(runs / "other" / name, folder / name, dirs_exist_ok=True)
        else:
            shutil.copy(runs / "other" / name, folder / name)
    return folder


FOREIGN = {
    "the table": ("utilities.parquet",),
    "run.json": ("run.json",),
    "the table and run.json": ("utilities.parquet", "run.json"),
    "the traces": ("traces",),
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
def test_reading_says_so(runs: Path, tmp_path: Path, foreign: tuple[str, ...]) -> None:
    folder = mixed(runs, tmp_path / "run", *foreign)
    with pytest.warns(TemporaWarning, match="of another run"):
        _ = open_run(folder).utilities


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("show", "--table", "offline", "--format", "csv"),
        ("recommend", "--interval-ms", "50"),
        ("recommend", "--p99-ms", "60"),
        ("report",),
    ],
)
def test_every_command_says_so(runs: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    folder = mixed(runs, tmp_path / "run", "utilities.parquet")
    with pytest.warns(TemporaWarning, match=r"utilities\.parquet was changed .* or is of another run"):
        CliRunner().invoke(app, [command[0], str(folder), *command[1:]])


def test_a_run_that_was_stopped_is_checked_by_its_passes(runs: Path, tmp_path: Path) -> None:
    """Its run.json names no table yet: tables follow shift by shift."""
    write_run(tmp_path / "begun", scenarios=FEW, finished=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        _ = open_run(tmp_path / "begun").utilities
    shutil.copy(runs / "other" / "utilities.parquet", tmp_path / "begun")
    with pytest.warns(
        TemporaWarning, match="refers to 10 traces that are missing, renamed or of another run"
    ):
        _ = open_run(tmp_path / "begun").utilities


def test_a_table_of_passes_that_are_nowhere_warns(runs: Path, tmp_path: Path) -> None:
    folder = mixed(runs, tmp_path / "run")
    for path in folder.glob("traces/fog--*"):
        path.unlink()
    with pytest.warns(TemporaWarning, match=f"refers to {len(METHODS)} traces that are missing"):
        _ = open_run(folder).utilities


def test_renamed_traces_are_noticed(runs: Path, tmp_path: Path) -> None:
    folder = mixed(runs, tmp_path / "run")
    for number, path in enumerate(sorted(folder.glob("traces/*.parquet"))):
        path.rename(path.with_name(f"{number}.parquet"))
    with pytest.warns(TemporaWarning, match="that are missing, renamed"):
        assert not open_run(folder).traces.empty


def test_segments_of_another_run_or_none_are_noticed(tmp_path: Path) -> None:
    folders = [tmp_path / "this", tmp_path / "other"]
    for luck, place in enumerate(folders):
        results = write_run(place, scenarios=FEW, shifts=("continual",), segments=("fog", "snow"), luck=luck)
        results.folder.write_segments(segments_frame(results))
        results.folder.seal()
        pack(place)
    this, other = (folder / "segments.parquet" for folder in folders)
    shutil.copy(other, this)
    with pytest.warns(TemporaWarning, match=r"segments\.parquet was changed .* or is of another run"):
        _ = open_run(folders[0]).utilities
    this.unlink()
    with pytest.raises(TemporaError, match=r"cannot be packed: .*segments\.parquet is missing"):
        pack(folders[0])


def test_a_steady_run_without_its_profile_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text("{}")
    write_run(tmp_path, scenarios=FEW, clock="steady:abc")
    (tmp_path / "profile.json").unlink()
    with pytest.raises(TemporaError, match=r"profile\.json is missing, and this run has one"):
        pack(tmp_path)


def test_run_json_is_small(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = mixed(runs, tmp_path / "run")
    monkeypatch.setattr("tempora_tta.store.record.MOST_BYTES", 1 << 20)
    (folder / "run.json").write_bytes(b" " * (1 << 20) + (folder / "run.json").read_bytes())
    with pytest.raises(TemporaError, match=r"run\.json is damaged.* more than 1 MiB"):
        open_run(folder)


@pytest.mark.parametrize("depth", [200, 900, 1000, 5000, 100_000])
def test_a_nest_in_run_json_is_no_traceback(runs: Path, tmp_path: Path, depth: int) -> None:
    folder = mixed(runs, tmp_path / "run")
    text = (folder / "run.json").read_text().rstrip().rstrip("}")
    (folder / "run.json").write_text(f'{text}, "nest": {"[" * depth}{"]" * depth}}}')
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        with pytest.raises((TemporaError, TemporaWarning), match=r"run\.json (is damaged|was changed)"):
            open_run(folder)
