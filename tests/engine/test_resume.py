"""A killed run resumes and loses nothing; damage is found, named and mended; one writer per folder."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from latencies import CLOCK
from watching import Watches

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.engine import Stopped
from tempora_tta.scenarios import Amortised, Deployment, Discrete
from tempora_tta.store import RunFolder, atomic
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


def test_stopped_anywhere_and_resumed_gives_the_same_files_readable_meanwhile(
    network, batches, tmp_path, uninterrupted
):
    """Stopped again and again, each time a few batches further; a finished run does nothing again."""
    cells = []
    for stop_after in (1, 13, 13, 8, 21):
        with pytest.raises(Stopped):
            run(network("fashion_resnet"), batches, tmp_path / "run", Watches(stop_after))
        cells.append(len(tempora.open_run(tmp_path / "run").utilities))
    assert cells == sorted(cells)
    assert len(set(cells)) >= 3, cells
    watches = [Watches(), Watches()]
    for watch in watches:
        run(network("fashion_resnet"), batches, tmp_path / "run", watch)
        assert contents(tmp_path / "run") == uninterrupted
    assert len(watches[0].passes) > len(watches[1].passes) == 0


def test_damaged_files_are_named_set_aside_and_made_again(network, batches, tmp_path, uninterrupted):
    folder = tmp_path / "run"
    run(network("fashion_resnet"), batches, folder)
    victim = sorted(folder.glob("traces/*tent*offline*.parquet"))[0]
    victim.write_bytes(victim.read_bytes()[:100])
    (folder / "run.json").write_text('{"schema_version": 1, "bas')
    (folder / "utilities.parquet").write_bytes(b"")
    watches = Watches()
    run(network("fashion_resnet"), batches, folder, watches)
    assert contents(folder) == uninterrupted
    for name in (victim.name, "run.json", "utilities.parquet"):
        assert any(name in note and "damaged" in note for note in watches.notes)
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
    with pytest.raises(TemporaError, match="disk is full"):
        run(network("fashion_resnet"), batches, folder)
    kept = len(list(folder.glob("traces/*.parquet")))
    assert kept > 0
    assert not list(folder.rglob("*.part"))
    monkeypatch.undo()
    run(network("fashion_resnet"), batches, folder)
    assert contents(folder) == uninterrupted


def _passes(folder: Path) -> int:
    return len(list(folder.glob("traces/*.parquet")))


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_loses_nothing(tmp_path):
    """kill -9, many times, at random: no row lost, doubled or changed against an uninterrupted run."""
    clock = tmp_path / "clock.json"

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
    for _ in range(3):
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


def test_a_folder_has_one_writer_and_what_cannot_be_written_or_read_is_named(tmp_path):
    with RunFolder.for_writing(tmp_path / "run"), pytest.raises(TemporaError, match="another run"):
        RunFolder.for_writing(tmp_path / "run")
    RunFolder.for_writing(tmp_path / "run").close()
    (tmp_path / "run.lock").mkdir()
    with pytest.raises(TemporaError, match=r"run\.lock.*--out"):
        RunFolder.for_writing(tmp_path)
    with pytest.raises(TemporaError, match="run folder"):
        tempora.open_run(tmp_path)
