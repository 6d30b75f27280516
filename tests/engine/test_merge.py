"""A job in parts, each run by itself, joins to what one run gives."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch
import typer
from latencies import CLOCK
from typer.testing import CliRunner

from tempora_tta import TemporaError
from tempora_tta.cli.files import merge as merge_command
from tempora_tta.config import RunConfig, checked
from tempora_tta.engine import Run
from tempora_tta.engine.build import build_job
from tempora_tta.evaluation import finished
from tempora_tta.store import RunFolder, open_run
from tempora_tta.store.merge import merge
from tempora_tta.timing import load_profile


@pytest.fixture(scope="module")
def clock_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("clock") / "clock.json"
    load_profile(CLOCK).save(path)
    return path


def configuration(clock: object, **changes) -> RunConfig:
    return checked(
        {
            "data": {"shifts": ["contrast", "clean"], "workers": 0},
            "methods": ["standard", "lame", "neo", "tent"],
            "grid": "none",
            "scenarios": [
                {"protocol": "discrete", "utilisation": 1},
                {"protocol": "continuous", "threshold_ms": 30},  # below lambda: not applicable
                {"protocol": "amortised", "budget_x": 0.05},
            ],
            "batches": 4,
            "batch_size": 8,
            "warmup_batches": 1,
            "clock": str(clock),
            "device": "cpu",
            "calibration_batches": 10,
            **changes,
        }
    )


def run(config: RunConfig, out: Path) -> Path:
    with RunFolder.for_writing(out) as folder:
        finished(Run(build_job(config), folder))
    return out


@pytest.fixture(scope="module")
def whole(clock_file, tmp_path_factory):
    return run(configuration(clock_file), tmp_path_factory.mktemp("whole") / "run")


def on(shift: str) -> dict[str, object]:
    return {"shifts": [shift], "workers": 0}


@pytest.mark.parametrize(
    "apart",
    [
        [{"data": on("contrast")}, {"data": on("clean")}],
        [{"methods": ["standard", "lame"]}, {"methods": ["neo", "tent"]}],
    ],
)
def test_parts_join_to_the_whole(clock_file, whole, tmp_path, apart):
    parts = [run(configuration(clock_file, **part), tmp_path / str(at)) for at, part in enumerate(apart)]
    assert merge(parts, tmp_path / "merged") == len(list(whole.glob("traces/*.parquet")))
    traces = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("merged/traces/*.parquet")}
    run(configuration(clock_file), tmp_path / "merged")
    assert traces == {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("merged/traces/*.parquet")}
    assert open_run(tmp_path / "merged").utilities.equals(open_run(whole).utilities)


def test_what_no_part_has_is_made_later(clock_file, whole, tmp_path):
    apart = {"contrast": ["standard", "lame"], "clean": ["neo", "tent"]}
    parts = [
        run(configuration(clock_file, data=on(shift), methods=methods), tmp_path / shift)
        for shift, methods in apart.items()
    ]
    app = typer.Typer()
    app.command()(merge_command)
    command = [*map(str, parts), "--out", str(tmp_path / "merged")]
    assert CliRunner().invoke(app, command).exit_code == 0
    run(configuration(clock_file), tmp_path / "merged")
    columns = [name for name in open_run(whole).utilities if not name.endswith("_pass")]
    found, expected = (open_run(folder).utilities[columns] for folder in (tmp_path / "merged", whole))
    pd.testing.assert_frame_equal(found, expected)
    assert isinstance(CliRunner().invoke(app, command).exception, TemporaError)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batches": 3}, ".*batches"),
        ({"methods": ["standard", {"name": "tent", "lr": 0.5}]}, "method_settings of tent"),
        ({"deterministic": True}, "deterministic is False"),
    ],
)
def test_different_jobs_are_refused(clock_file, whole, tmp_path, change, said):
    other = run(configuration(clock_file, **change), tmp_path / "other")
    torch.use_deterministic_algorithms(False)
    with pytest.raises(TemporaError, match=f"not parts of one job: {said}"):
        merge([whole, other], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_one_folder_is_nothing_to_merge(whole, tmp_path):
    with pytest.raises(TemporaError, match="at least two"):
        merge([whole], tmp_path / "merged")


def test_different_lambdas_are_refused(tmp_path):
    parts = [
        run(configuration("measured", threads=1, baseline_ms=ms, methods=[method]), tmp_path / str(ms))
        for method, ms in (("standard", 50.0), ("neo", 60.0))
    ]
    with pytest.raises(TemporaError, match=r"lambda is 50\.0 in the first and 60\.0 in the second"):
        merge(parts, tmp_path / "merged")


def test_different_devices_are_refused(tmp_path):
    parts = [
        run(configuration("measured", threads=1, baseline_ms=50.0, methods=[method]), tmp_path / method)
        for method in ("standard", "neo")
    ]
    _pretend_another_machine(parts[1])
    with pytest.raises(TemporaError, match=r"machine is .* and 'another machine' in the second"):
        merge(parts, tmp_path / "merged")


def _pretend_another_machine(path: Path) -> None:
    """Rewrite a run's passes as if they had been made on another kind of device."""
    folder = RunFolder(path)
    keys = {}
    for key, stored in list(folder.passes().items()):
        trace = stored.trace()
        folder.remove_pass(key)
        identity = {**stored.identity, "machine": "another machine"}
        keys[key] = folder.write_pass(identity, trace, stored.facts).key
    table = folder.utilities()
    for name in ("adapting_pass", "frozen_pass"):
        table[name] = table[name].map(lambda key: keys.get(key, key))
    folder.write_utilities(table)
