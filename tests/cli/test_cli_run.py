"""The commands that run something, from start to report, on a few small batches of the bundled data."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tempora_tta as tempora
from tempora_tta.cli import app
from tempora_tta.engine.load_config import load_configs
from tempora_tta.errors import TemporaError
from tempora_tta.store.pictures import read_pictures
from tempora_tta.timing import load_profile

SMALL = ["--batches", "4", "--batch-size", "8", "--threads", "1", "--grid", "none", "--set", "data.workers=0"]
FEW = [*SMALL, "--shifts", "contrast", "--clock", "published:rn50_inc", "--methods"]
METHODS = "standard,adabn,tent"
CURSOR = re.compile(r"\x1b\[(\?25|\d*[ABCDGJK])|\r")
"""Codes that move the cursor or erase: a log that holds one is unreadable."""
INTERRUPTS = """
import os, signal
from tempora_tta.engine import Observer

class Once(Observer):
    def __init__(self, folder): ...

    def task_finished(self, method, shift, seed):
        os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that Ctrl-C ended after its first task, and its log, for which colours were asked."""
    folder = tmp_path_factory.mktemp("cli") / "a run"
    (folder.parent / "hook.py").write_text(INTERRUPTS)
    words = ["run", *FEW, METHODS, "--out", str(folder), "--log", f"{folder.parent / 'hook.py'}:Once"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tempora", *words])
        result = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": "1"}).invoke(app, words)
    assert result.exit_code == 130, result.output
    assert result.output.splitlines()[-1] == shlex.join(["tempora", *words])
    return folder, result.output


@pytest.fixture(scope="module")
def finished(stopped: tuple[Path, str], said) -> tuple[Path, str]:
    return stopped[0], said("run", *FEW, METHODS, "--out", stopped[0])


def test_a_log_has_colours_if_asked_and_no_moving_bars(stopped: tuple[Path, str]) -> None:
    assert "\x1b[" in stopped[1]
    assert not CURSOR.search(stopped[1])
    assert re.search(r"\d s  contrast \w+ \(seed 2025\) done", stopped[1])


def test_the_command_that_ctrl_c_leaves_finishes_the_run(finished: tuple[Path, str], said) -> None:
    folder, text = finished
    assert f"tempora show '{folder}'" in text
    results = tempora.open_run(folder)
    assert results.manifest["finished"]
    assert set(results.utilities["method"]) == set(METHODS.split(","))
    assert list(read_pictures(folder)) == ["clean", "contrast"]
    assert (folder / "report.html").exists()
    assert said("run", *FEW, METHODS, "--out", folder, "--quiet") == ""
    assert "3 of 3 cells" in said("audit", folder, "--cells", "3")


def test_a_run_folder_is_run_again_with_one_more_scenario(
    finished: tuple[Path, str], tmp_path: Path, said
) -> None:
    """Everything else is as it was there, and no pass that is there is made again."""
    folder = shutil.copytree(finished[0], tmp_path / "again")
    made = {path: path.stat().st_mtime_ns for path in (folder / "traces").iterdir()}
    told, before = tempora.open_run(folder).manifest, tempora.open_run(folder).utilities
    said("run", folder, "--scenario", "{protocol: discrete, interval_ms: 77}", "--quiet")
    after = tempora.open_run(folder)
    assert after.manifest["scenarios"] == [*told["scenarios"], {"protocol": "discrete", "interval_ms": 77}]
    assert {path: path.stat().st_mtime_ns for path in made} == made
    keys = ["method", "shift", "seed", "scenario", "utility", "adapting_pass"]
    assert len(before[keys].merge(after.utilities[keys])) == len(before)


def test_dry_run_plans_and_runs_nothing(tmp_path: Path, said) -> None:
    output = said("run", *FEW, METHODS, "--grid", "relative", "--dry-run", "--out", tmp_path / "none")
    assert re.search(r"51 cells in \d+ to \d+ passes", output)
    assert not (tmp_path / "none").exists()


def test_failing_cells_set_the_exit_status(tmp_path: Path, said) -> None:
    load_profile({"baseline_ms": 40, "standard": (38, 0)}).save(tmp_path / "clock.json")
    words = ["--clock", tmp_path / "clock.json", "--out", tmp_path / "run"]
    output = said("run", *FEW, "standard,neo", *words, status=1)
    assert "1 of 2 cells failed" in output
    assert "'neo'" in output


@pytest.mark.slow
def test_a_profile_is_a_table_and_a_file(tmp_path: Path, said) -> None:
    small = ["--profile-s", "0.5", "--batch-size", "8", "--shifts", "contrast", "--methods", "standard,tent"]
    assert "δ / λ" in said("profile", *small, "--out", tmp_path / "p.json")
    assert (tmp_path / "p.json").exists()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("run --model fashion_resnt", ["fashion_resnt", "fashion_resnet"]),
        ("run --methods tnet", ["tnet", "tent"]),
        ("run --shifts gausian_noise", ["gausian_noise", "gaussian_noise"]),
        ("run --dataset fashon", ["fashon", "fashion"]),
        ("run --seeds one", ["seeds", "one", "integer"]),
        ("run --methods spa", ["spa", "fashion_resnet"]),
        ("run --model fashion_resnet --dataset cifar10_c", ["expected"]),
        ("run four.yaml", ["severity", "9"]),
        ("run four.yaml --severity 8", ["severity", "8"]),
        ("run four.yaml --init", ["four.yaml", "there"]),
        ("run missing.yaml", ["missing.yaml"]),
        ("show nowhere", ["nowhere", "run folder"]),
        ("audit nowhere", ["nowhere", "run folder"]),
    ],
)
def test_mistakes_say_what_was_given_and_what_is_allowed(
    words: str, parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "four.yaml").write_text("data: {severity: 9}\n")
    with pytest.raises(TemporaError) as caught:
        said(*words.split())
    assert all(part in str(caught.value) for part in parts), caught.value


def test_a_configuration_is_begun_by_the_command(tmp_path: Path, said) -> None:
    said("run", tmp_path / "mine.yaml", "--init")
    assert load_configs(tmp_path / "mine.yaml")


def test_the_demos_have_methods_that_fit_and_whose_times_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tempora_tta import methods, models
    from tempora_tta.cli.demo import METHODS, QUICK_METHODS, with_times

    for model, names in QUICK_METHODS.items():
        for name in names:
            methods.create(name, models.load(model))
    known = with_times(METHODS["fashion_resnet"], "published:rn50_inc")
    assert set(METHODS["fashion_resnet"]) - set(known) == {"settle"}
    assert "settle" in capsys.readouterr().out
    assert with_times(METHODS["fashion_resnet"], "steady") == METHODS["fashion_resnet"]


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core, one process")
def test_processes_that_cannot_begin_end_the_run(tmp_path: Path) -> None:
    """A script that runs the command without asking whether it is the main module starts itself in every process."""
    options = "--shifts contrast,fog --methods standard,tent --batches 78 --grid relative"
    words = ["tempora", "run", *options.split(), "--clock", "published:rn50_inc", "--out", f"{tmp_path}/run"]
    script = tmp_path / "unguarded.py"
    script.write_text(f"import sys\nfrom tempora_tta.cli import main\nsys.argv = {words}\nmain()\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no process can begin" in done.stderr
