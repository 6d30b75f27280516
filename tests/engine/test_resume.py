"""A killed run resumes and loses nothing; damage is found, named and mended; one writer per folder."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from latencies import CLOCK

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.engine import Observer, Stopped
from tempora_tta.scenarios import Amortised, Deployment, Discrete
from tempora_tta.store import RunFolder, atomic, pack
from tempora_tta.timing import load_profile

SCENARIOS = [
    Discrete(utilisation=1),
    Discrete(utilisation=0.5),
    Amortised(budget_x=0.25),
    Amortised(budget_x=0.5),
    Deployment(fps=180, deadline_ms=60, budget_ms=120),
]


def run(model, batches, out, observer=None):
    return tempora.evaluate(
        model,
        {"first": batches[:5], "second": batches[3:]},
        ["standard", "neo", "tent"],
        SCENARIOS,
        clock=CLOCK,
        device="cpu",
        warmup_batches=1,
        out=out,
        observer=observer,
    )


def contents(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("traces/*.parquet"), folder / "utilities.parquet"]
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def uninterrupted(network, batches, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    run(network("fashion_resnet"), batches, folder)
    return contents(folder)


class StopsAfter(Observer):
    """Observer that asks for a stop after a number of batches, as Ctrl-C does."""

    def __init__(self, batches: int) -> None:
        self.left = batches

    def batch_done(self, trace, index) -> None:
        self.left -= 1
        self.stop_requested = self.left <= 0


class Counts(Observer):
    def __init__(self) -> None:
        self.passes = 0

    def pass_started(self, kind, batches) -> None:
        self.passes += 1


def test_tables_of_an_unfinished_run_are_readable_after_each_task(network, batches, tmp_path):
    cells = []

    class Reads(Observer):
        def task_started(self, method, shift, seed) -> None:
            cells.append(len(tempora.open_run(tmp_path).utilities) if cells else 0)

    run(network("fashion_resnet"), batches, tmp_path, Reads())
    assert cells == sorted(cells)
    assert len(set(cells)) >= 4, "more cells now and then, also within a stream"


@pytest.mark.parametrize("stop_after", [1, 5, 13, 21, 34, 47])
def test_stopped_anywhere_and_resumed_gives_the_same_files(
    network, batches, tmp_path, uninterrupted, stop_after
):
    with pytest.raises(Stopped):
        run(network("fashion_resnet"), batches, tmp_path / "run", StopsAfter(stop_after))
    run(network("fashion_resnet"), batches, tmp_path / "run")
    assert contents(tmp_path / "run") == uninterrupted


def test_a_finished_run_does_nothing_again(network, batches, tmp_path):
    run(network("fashion_resnet"), batches, tmp_path / "run")
    counts = Counts()
    run(network("fashion_resnet"), batches, tmp_path / "run", counts)
    assert counts.passes == 0


def test_damaged_files_are_named_set_aside_and_made_again(network, batches, tmp_path, uninterrupted):
    folder = tmp_path / "run"
    run(network("fashion_resnet"), batches, folder)
    victim = sorted(folder.glob("traces/*tent*offline*.parquet"))[0]
    victim.write_bytes(victim.read_bytes()[:100])
    (folder / "run.json").write_text('{"schema_version": 1, "bas')
    (folder / "utilities.parquet").write_bytes(b"")
    notes = []

    class Listens(Observer):
        def note(self, text: str) -> None:
            notes.append(text)

    run(network("fashion_resnet"), batches, folder, Listens())
    assert contents(folder) == uninterrupted
    for name in (victim.name, "run.json", "utilities.parquet"):
        assert any(name in note and "damaged" in note for note in notes)
    assert victim.with_name(victim.name + ".damaged").exists()


def test_a_full_disk_is_a_clear_error_and_loses_nothing(
    network, batches, tmp_path, uninterrupted, monkeypatch
):
    folder = tmp_path / "run"
    replace = atomic.os.replace
    left = [5]

    def full_disk(source, target):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(atomic.os, "replace", full_disk)
    with pytest.raises(TemporaError, match=r"the disk is full: .* Everything finished before is kept"):
        run(network("fashion_resnet"), batches, folder)
    kept = len(list(folder.glob("traces/*.parquet")))
    assert kept > 0
    assert not list(folder.rglob("*.part"))
    monkeypatch.undo()
    run(network("fashion_resnet"), batches, folder)
    assert contents(folder) == uninterrupted


def test_only_leftovers_of_writers_that_are_gone_are_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    stay = {"film.mkv.part", f"run.json.{os.getppid()}.part"}
    for name in (*stay, f"run.json.{gone.pid}.part"):
        (tmp_path / name).write_text("half")
    RunFolder.for_writing(tmp_path).close()
    assert {path.name for path in tmp_path.glob("*.part")} == stay


def test_two_processes_on_one_folder(tmp_path):
    with (
        RunFolder.for_writing(tmp_path / "run"),
        pytest.raises(TemporaError, match="is in use by another run"),
    ):
        RunFolder.for_writing(tmp_path / "run")
    RunFolder.for_writing(tmp_path / "run").close()


def test_a_folder_that_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "run.lock").mkdir()
    with pytest.raises(TemporaError, match=r"cannot write to .*run\.lock: .*give another --out"):
        RunFolder.for_writing(tmp_path)


def test_not_a_run_folder(tmp_path):
    with pytest.raises(TemporaError, match="is not a run folder"):
        tempora.open_run(tmp_path)


def _passes(folder: Path) -> int:
    return len(list(folder.glob("traces/*.parquet")))


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_loses_nothing(tmp_path):
    """kill -9, many times, at random: no row lost, doubled or changed against an uninterrupted run."""
    clock = tmp_path / "clock.json"
    from tempora_tta.timing import load_profile

    load_profile(CLOCK).save(clock)
    command = [
        *(sys.executable, "-m", "tempora_tta", "run", "--quiet", "--threads", "1", "--clock", str(clock)),
        *("--shifts", "contrast,clean", "--methods", "standard,adabn,tent,shot_im"),
        *("--batches", "8", "--batch-size", "16", "--set", "data.workers=0"),
    ]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*command, "--out", str(whole)], check=True, capture_output=True)
    moments = random.Random(2025)
    kills = 0
    for _ in range(12):
        # After none to three more passes, and a moment: however fast the machine is, the run is under way.
        enough = _passes(killed) + moments.randrange(4)
        process = subprocess.Popen([*command, "--out", str(killed)], stdout=subprocess.DEVNULL)
        while process.poll() is None and _passes(killed) < enough:
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.2))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    subprocess.run([*command, "--out", str(killed)], check=True, capture_output=True)
    assert kills > 0
    assert contents(killed) == contents(whole)


def test_a_profile_that_was_given_stays_with_the_run(network, batches, tmp_path):
    """The times travel with the folder and its pack; resuming makes nothing again."""
    load_profile(CLOCK).save(tmp_path / "given.json")
    watches = []
    for _ in range(2):
        watches.append(Counts())
        results = tempora.evaluate(
            network("fashion_resnet"),
            batches[:3],
            ["standard"],
            [],
            clock=tmp_path / "given.json",
            device="cpu",
            out=tmp_path / "run",
            observer=watches[-1],
        )
    assert [one.passes for one in watches] == [1, 0]
    kept = load_profile(tmp_path / "run" / "profile.json")
    assert results.manifest["clock"] == f"recorded:{kept.id}"
    opened = tempora.open_run(pack(tmp_path / "run"))
    assert load_profile(opened.path / "profile.json") == kept
    load_profile({**CLOCK, "baseline_ms": 1.0}).save(tmp_path / "run" / "profile.json")
    with pytest.raises(TemporaError, match=r"profile\.json was changed"):
        pack(tmp_path / "run")
