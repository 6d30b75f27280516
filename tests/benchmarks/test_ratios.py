"""Comparing two tables of ratios, on tables made up here; and the command itself on its two cheapest benchmarks."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import page
import ratios
from ratios import Ratio, Table

everything = importlib.import_module("all")
BENCHMARKS = Path(sys.path.pop(0))  # no longer on the path: benchmarks/ and tests/ have names in common

SPEED = Ratio("engine", "speed", "higher", "naive over shared", (2.9, 3.0, 3.1))
SHARE = Ratio("engine", "harness", "lower", "share of a batch", (0.0019, 0.002, 0.0021))


def table(*rows: Ratio, engine: str = "--batches 8") -> Table:
    return Table({"device": "a CPU"}, {"engine": engine, "serve": ""}, list(rows))


def verdicts(now: Table, before: Table | None) -> dict[str, str]:
    return {change.ratio.name: change.verdict for change in ratios.compare(now, before)}


@pytest.mark.parametrize(
    ("committed", "values", "verdict"),
    [
        (SPEED, (2.4, 2.5, 2.6), "WORSE"),
        (SPEED, (3.5, 3.6, 3.7), "better"),
        (SPEED, (2.8, 2.85, 2.89), "same"),  # repeats apart, but a move within the tolerance
        (SPEED, (1.0, 2.0, 3.2), "same"),  # a large move, but the repeats overlap
        (SPEED, (2.9, 3.0, 3.1), "same"),
        (SHARE, (0.003, 0.0031, 0.004), "WORSE"),
        (SHARE, (0.001, 0.0011, 0.0012), "better"),
        (replace(SHARE, values=(0.0, 0.0, 0.0)), (0.1, 0.1, 0.1), "WORSE"),  # nothing to divide by
    ],
)
def test_a_ratio_is_marked_when_it_moved_beyond_the_noise(
    committed: Ratio, values: tuple[float, ...], verdict: str
) -> None:
    found = verdicts(table(replace(committed, values=values)), table(committed))
    assert found == {committed.name: verdict}


def test_ratios_that_come_and_go_are_named() -> None:
    assert verdicts(table(SHARE), table(SPEED)) == {"harness": "new", "speed": "gone"}


def test_benchmarks_that_were_not_run_are_left_out() -> None:
    served = Ratio("serve", "linearity", "lower", "", (1.0, 1.0, 1.0))
    now = Table({}, {"serve": ""}, [served])
    assert verdicts(now, table(SPEED, served)) == {"linearity": "same"}


def test_different_work_is_not_compared() -> None:
    worse = replace(SPEED, values=(1.0, 1.0, 1.0))
    assert verdicts(table(worse, engine="--batches 40"), table(SPEED)) == {"speed": "other work"}


def test_without_a_committed_table_there_is_no_verdict() -> None:
    assert verdicts(table(SPEED), None) == {"speed": ""}


def test_seconds_are_neither_compared_nor_stored(tmp_path: Path) -> None:
    seconds = Ratio("engine", "run", "orientation", "", (1.0, 2.0, 3.0))
    now = table(SPEED, seconds)
    assert verdicts(now, table(SPEED))["run"] == ""
    now.save(tmp_path / "table.json")
    assert Table.load(tmp_path / "table.json") == table(SPEED)


def test_figures_of_the_engine_become_ratios() -> None:
    figures = {
        "harness": {"inside_share": 0.002},
        "sharing": {"all methods": {"speedup": 3.0, "shared_passes": 30, "unshared_passes": 120}},
        "gpu_idle": {"tent": 0.1},
    }
    found = {one.name: one for one in ratios.from_repeats("engine", [figures, figures])}
    assert {name: one.values for name, one in found.items()} == {
        "sharing, all methods: speed": (3.0, 3.0),
        "sharing, all methods: passes": (4.0, 4.0),
        "harness share": (0.002, 0.002),
        "GPU idle, tent": (0.1, 0.1),
    }
    assert {one.better for name, one in found.items() if "sharing" in name} == {"higher"}


def test_the_page_is_the_one_that_the_results_give() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run python benchmarks/page.py"


def test_the_committed_tables_name_no_machine_and_no_folder() -> None:
    for path in (BENCHMARKS / "results").glob("ratios-*.json"):
        text = path.read_text(encoding="utf-8")
        assert str(BENCHMARKS.parent) not in text
        assert set(json.loads(text)["about"]) == {
            *("device", "cores", "torch", "python", "commit", "changed_since_commit", "date", "load", "quick")
        }


ABOUT = {"device": "a CPU, 1 threads", "cores": 2, "torch": "2.9", "python": "3.12"}
WORSE = replace(SPEED, values=(1.0, 1.1, 1.2))


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Calls the command with `rows` as what the benchmarks found; SPEED is committed for the same work."""
    path = tmp_path / "ratios-cpu.json"
    commands = {
        name: f"python benchmarks/{name}.py {work.full}".strip()
        for name, work in everything.WORK["cpu"].items()
    }
    Table(ABOUT, commands, [SPEED]).save(path)
    monkeypatch.setattr(everything, "RESULTS", tmp_path)
    app = typer.Typer()
    app.command()(everything.main)

    def call(*arguments: str, rows: list[Ratio], failed: dict[str, str] | None = None, python: str = "3.12"):
        monkeypatch.setattr(everything, "run_all", lambda work, device: (rows, failed or {}))
        monkeypatch.setattr(everything, "about", lambda *_: {**ABOUT, "python": python})
        return CliRunner().invoke(app, arguments), Table.load(path)

    return call


def test_only_strict_makes_a_worsened_ratio_an_error(pretend) -> None:
    assert pretend(rows=[WORSE])[0].exit_code == 0
    assert pretend("--strict", rows=[WORSE])[0].exit_code == 1
    assert pretend("--strict", rows=[SPEED])[0].exit_code == 0
    assert pretend("--strict", rows=[])[0].exit_code == 1


def test_another_machine_is_named(pretend) -> None:
    assert "Committed with" not in pretend(rows=[SPEED])[0].output
    assert "Committed with python 3.12, here 3.13" in pretend(rows=[SPEED], python="3.13")[0].output


def test_the_table_shows_both_sides_and_marks_the_change() -> None:
    change = ratios.compare(table(WORSE), table(SPEED))[0]
    assert everything.line(change).split() == ["speed", "1.1", "1", "–", "1.2", "3", "-63%", "WORSE"]


def test_save_replaces_the_committed_table_unless_something_failed(pretend) -> None:
    done, stored = pretend("--save", rows=[WORSE], failed={"serve": "no such module"})
    assert (done.exit_code, stored.ratios) == (1, [SPEED])
    done, stored = pretend("--save", rows=[WORSE])
    assert (done.exit_code, stored.ratios) == (0, [WORSE])


def test_each_kind_of_gpu_has_its_table() -> None:
    assert everything.committed("cpu", {"device": "a CPU, 1 threads"}).name == "ratios-cpu.json"
    assert everything.committed("cuda", {"device": "NVIDIA H200"}).name == "ratios-h200.json"
    assert everything.committed("cuda", {"device": "NVIDIA RTX A6000"}).name == "ratios-rtx-a6000.json"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / "all.py"), *arguments], capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "serv"), "did you mean 'serve'?"),
        (("--device", "tpu"), "unknown device 'tpu'"),
        (("--only", "serve", "--save"), "leave out --only or --save"),
    ],
)
def test_a_mistake_is_said_before_anything_runs(arguments: tuple[str, ...], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.slow
def test_two_benchmarks_end_to_end(tmp_path: Path) -> None:
    done = command("--quick", "--only", "serve,scaling", "--json", str(tmp_path / "table.json"))
    assert done.returncode == 0, done.stderr
    written = Table.load(tmp_path / "table.json")
    assert {ratio.benchmark for ratio in written.ratios} == {"serve", "scaling"}
    assert all(len(ratio.values) == 3 and ratio.value > 0 for ratio in written.ratios)
    assert all(ratio.name in done.stdout for ratio in written.ratios)


def test_no_benchmark_hides_a_module_that_others_import() -> None:
    """A script's folder comes first where Python looks: numba, say, would take a coverage.py here for the package."""
    names = {path.stem for path in BENCHMARKS.glob("*.py")}
    assert names.isdisjoint({*sys.stdlib_module_names, "coverage", "numpy", "torch", "tempora"})
