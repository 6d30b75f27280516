"""The commands that run something, from start to report, on a few small batches of the bundled data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tempora_tta as tempora
from tempora_tta.cli import app
from tempora_tta.errors import TemporaError
from tempora_tta.store.pictures import read_pictures

runner = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"})
SMALL = ["--batches", "4", "--batch-size", "16", "--threads", "1", "--set", "data.workers=0"]
CLOCK = ["--clock", "published:rn50_inc"]
FEW = ["--shifts", "contrast", "--methods", "standard,adabn,tent"]


def tempora_says(*arguments: str, status: int = 0) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == status, result.output + str(result.exception)
    return result.output


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    tempora_says("run", *FEW, *SMALL, *CLOCK, "--plain", "--out", str(folder))
    return folder


def test_a_run_leaves_a_folder_that_opens(run_folder):
    results = tempora.open_run(run_folder)
    assert results.manifest["finished"]
    assert set(results.utilities["method"]) == {"standard", "adabn", "tent"}
    assert (run_folder / "utilities.parquet").exists()
    assert list(read_pictures(run_folder)) == ["clean", "contrast"]


def test_the_severity_is_an_option(tmp_path, monkeypatch):
    """It wins over the file's, and reaches the data."""
    opened = []

    def stop(name, *_, **options):
        opened.append(options["severity"])
        raise TemporaError("far enough")

    monkeypatch.setattr("tempora_tta.data.open", stop)
    written = tmp_path / "run.yaml"
    written.write_text("data: {severity: 4}\n")
    for more in ([], ["--severity", "2"]):
        with pytest.raises(TemporaError, match="far enough"):
            runner.invoke(app, ["run", str(written), *FEW, *SMALL, *CLOCK, *more], catch_exceptions=False)
    assert opened == [4, 2]


def test_the_same_command_resumes_and_shows_who_wins(run_folder):
    output = tempora_says("run", *FEW, *SMALL, *CLOCK, "--plain", "--out", str(run_folder))
    assert "unlimited time" in output
    assert "Timing valid." in output
    assert f"tempora show {run_folder}" in output


def test_a_run_folder_is_run_again_with_one_more_scenario(run_folder, tmp_path):
    """Everything else is as it was there, and no pass that is there is made again."""
    folder = shutil.copytree(run_folder, tmp_path / "again")
    made = {path: path.stat().st_mtime_ns for path in (folder / "traces").iterdir()}
    results = tempora.open_run(folder)
    told, before = results.manifest, results.utilities
    tempora_says("run", str(folder), "--scenario", "{protocol: discrete, interval_ms: 77}", "--quiet")
    after = tempora.open_run(folder)
    assert after.manifest["scenarios"] == [*told["scenarios"], {"protocol": "discrete", "interval_ms": 77}]
    assert {path: path.stat().st_mtime_ns for path in made} == made
    keys = ["method", "shift", "seed", "scenario", "utility", "adapting_pass"]
    assert len(before[keys].merge(after.utilities[keys])) == len(before)


def test_show_fits_eighty_columns(run_folder, monkeypatch):
    monkeypatch.chdir(run_folder.parent)  # a command is one line, however long the path in it
    output = tempora_says("show", run_folder.name)
    assert max(len(line.rstrip()) for line in output.splitlines()) <= 80


def test_show_ends_at_a_damaged_table(run_folder, tmp_path):
    copy = shutil.copytree(run_folder, tmp_path / "run")
    (copy / "utilities.parquet").write_bytes(b"PAR1")
    with pytest.raises(TemporaError, match=r"utilities\.parquet is damaged"):
        runner.invoke(app, ["show", str(copy)], catch_exceptions=False)


@pytest.mark.parametrize("format", ["latex", "markdown", "csv", "json"])
def test_show_any_table_ready_to_paste(run_folder, format):
    assert "adabn" in tempora_says("show", str(run_folder), "--table", "sweep", "--format", format).lower()


def test_dry_run_plans_and_runs_nothing(tmp_path):
    output = tempora_says("run", *FEW, *SMALL, *CLOCK, "--dry-run", "--out", str(tmp_path / "none"))
    assert re.search(r"51 cells in \d+ to \d+ passes", output)
    assert not (tmp_path / "none").exists()


def test_init_writes_a_configuration_once(tmp_path):
    path = tmp_path / "mine.yaml"
    tempora_says("run", str(path), "--init")
    assert path.exists()
    with pytest.raises(TemporaError, match="is there already"):
        runner.invoke(app, ["run", str(path), "--init"], catch_exceptions=False)


def test_audit_agrees(run_folder):
    assert "3 of 3 cells agree exactly" in tempora_says("audit", str(run_folder), "--cells", "3")


@pytest.mark.slow
def test_profile_prints_the_papers_table_two(tmp_path):
    small = ["--profile-s", "0.5", "--batch-size", "8", "--shifts", "contrast", "--methods", "standard,tent"]
    output = tempora_says("profile", *small, "--plain", "--out", str(tmp_path / "p.json"))
    assert "δ / λ" in output
    assert "tail: not known on this machine" in output
    assert (tmp_path / "p.json").exists()


def test_failing_cells_set_the_exit_status(tmp_path):
    output = tempora_says(
        *("run", "--shifts", "contrast", "--methods", "standard,neo", *SMALL, "--plain", "--grid", "none"),
        *("--clock", str(_clock_without_neo(tmp_path)), "--out", str(tmp_path / "run")),
        status=1,
    )
    assert "1 of 2 cells failed" in output
    assert "has no times for 'neo'" in output


def _clock_without_neo(folder: Path) -> Path:
    from tempora_tta.timing import load_profile

    load_profile({"baseline_ms": 40, "standard": (38, 0)}).save(folder / "clock.json")
    return folder / "clock.json"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--model", "fashion_resnt"], "unknown model"),
        (["run", "--methods", "tnet"], "did you mean 'tent'"),
        (["run", "--shifts", "gausian_noise"], "did you mean 'gaussian_noise'"),
        (["run", "--dataset", "fashon"], "did you mean 'fashion'"),
        (["run", "--seeds", "one"], "seeds.0='one': must be a valid integer"),
        (["run", "--methods", "spa"], "spa does not fit fashion_resnet"),
        (["run", "--model", "fashion_resnet", "--dataset", "cifar10_c"], "expected"),
        (["show", "nowhere"], "is not a run folder"),
        (["audit", "nowhere"], "is not a run folder"),
        (["run", "missing.yaml"], "no configuration 'missing.yaml'"),
    ],
)
def test_mistakes_are_user_errors(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TemporaError) as caught:
        runner.invoke(app, arguments, catch_exceptions=False)
    assert message in str(caught.value)


def test_the_quick_demo_fits_both_networks() -> None:
    from tempora_tta import methods, models
    from tempora_tta.cli.demo import QUICK_METHODS

    for model, names in QUICK_METHODS.items():
        for name in names:
            methods.create(name, models.load(model))


def test_a_demo_under_a_recorded_clock_has_the_methods_that_it_knows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tempora_tta.cli.demo import METHODS, with_times

    known = with_times(METHODS["fashion_resnet"], "published:rn50_inc")
    assert set(METHODS["fashion_resnet"]) - set(known) == {"settle"}
    assert "left out settle: published:rn50_inc has no times for it" in capsys.readouterr().out
    assert with_times(METHODS["fashion_resnet"], "steady") == METHODS["fashion_resnet"]


@pytest.mark.slow
def test_processes_that_cannot_begin_end_the_run(tmp_path):
    """A script that runs the command without asking whether it is the main module starts itself in every process."""
    script = tmp_path / "unguarded.py"
    options = [
        "--shifts",
        "contrast,fog",
        "--methods",
        "standard,tent",
        "--batches",
        "78",
        "--grid",
        "relative",
    ]
    words = ["tempora", "run", *options, "--clock", "published:rn50_inc", "--out", str(tmp_path / "run")]
    script.write_text(f"import sys\nfrom tempora_tta.cli import main\nsys.argv = {words}\nmain()\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    processes = len(os.sched_getaffinity(0)) > 1
    assert done.returncode == (1 if processes else 0), done.stderr
    assert ("no process can begin" in done.stderr) is processes
