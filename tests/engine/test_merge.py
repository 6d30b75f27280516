"""A job in parts, each run by itself, joins to what one run gives."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from latencies import CLOCK
from typer.testing import CliRunner

from made_runs import Pace, write_run
from tempora_tta import TemporaError
from tempora_tta.cli.app import app
from tempora_tta.config import RunConfig, checked
from tempora_tta.engine import Run
from tempora_tta.engine.build import build_job
from tempora_tta.evaluation import finished
from tempora_tta.scenarios import Offline
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
        [
            {"data": on("contrast"), "methods": ["standard", "lame"]},
            {"data": on("clean"), "methods": ["neo", "tent"]},
        ],
    ],
)
def test_parts_join_to_the_whole_and_what_none_has_is_made_later(clock_file, whole, tmp_path, apart):
    parts = [run(configuration(clock_file, **part), tmp_path / str(at)) for at, part in enumerate(apart)]
    merged = tmp_path / "merged"
    command = ["merge", *map(str, parts), "--out", str(merged)]
    assert CliRunner().invoke(app, command).exit_code == 0
    traces = {path.name: path.stat().st_mtime_ns for path in merged.glob("traces/*.parquet")}
    run(configuration(clock_file), merged)
    assert traces.items() <= {path.name: path.stat().st_mtime_ns for path in merged.glob("traces/*")}.items()
    columns = [name for name in open_run(whole).utilities if not name.endswith("_pass")]
    found, expected = (open_run(folder).utilities[columns] for folder in (merged, whole))
    pd.testing.assert_frame_equal(found, expected)
    assert isinstance(CliRunner().invoke(app, command).exception, TemporaError)


SNOW = {"shifts": ("snow",)}
PARTS = {
    "methods": {"standard": Pace(9.0, 0.0, 0.3)},
    "shifts": ("fog",),
    "scenarios": (Offline(),),
    "batches": 4,
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batches": 3}, "batches"),
        ({"method_settings": {"standard": {"settings": {"lr": 1}}}, **SNOW}, "settings of standard"),
        ({"baseline": {"baseline_ms": 60.0}, **SNOW}, r"lambda.*10\.0.*60\.0"),
        ({"identity": {"standard": {"machine": "another one"}}, **SNOW}, r"machine.*'another one'"),
        (None, "two"),
    ],
)
def test_what_is_no_part_of_one_job_is_refused(tmp_path, change, said):
    write_run(tmp_path / "one", clock="measured", **PARTS)
    if change is not None:
        write_run(tmp_path / "two", clock="measured", **PARTS | change)
    parts = [path for path in (tmp_path / "one", tmp_path / "two") if path.exists()]
    with pytest.raises(TemporaError, match=said):
        merge(parts, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
