"""A job in parts, each run by itself, joins to what one run gives."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
import typer
from latencies import CLOCK
from typer.testing import CliRunner

from tempora_tta import TemporaError
from tempora_tta.analysis.doubt import keep_doubt
from tempora_tta.cli.merge import merge as merge_command
from tempora_tta.engine import Run
from tempora_tta.engine.config import RunConfig
from tempora_tta.engine.schedule import Shard
from tempora_tta.engine.setup import job_from_config
from tempora_tta.measure import load_profile
from tempora_tta.store import RunFolder
from tempora_tta.store.merge import merge


@pytest.fixture(scope="module")
def clock_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("clock") / "clock.json"
    load_profile(CLOCK).save(path)
    return path


def configuration(clock: object, **changes) -> RunConfig:
    return RunConfig.model_validate(
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


def run(config: RunConfig, out: Path, shard: str | None = None) -> Path:
    with RunFolder.for_writing(out) as folder:
        Run(job_from_config(config), folder, shard=Shard.parse(shard) if shard else None).execute()
    return out


def contents(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("traces/*.parquet"), folder / "utilities.parquet"]
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(clock_file, tmp_path_factory):
    return run(configuration(clock_file), tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.parametrize("count", [2, 6])
def test_shards_join_to_the_whole(clock_file, whole, tmp_path, count):
    parts = [run(configuration(clock_file), tmp_path / str(i), f"{i}/{count}") for i in range(1, count + 1)]
    merged = merge(parts[::-1], tmp_path / "merged")
    keep_doubt(merged.results)  # as `tempora merge` does: a part knows nothing about winners of the whole
    assert contents(tmp_path / "merged") == contents(whole)
    assert merged.missing == []
    manifest, expected = merged.results.manifest, RunFolder(whole).manifest()
    assert manifest["finished"]
    assert manifest["standard_above_baseline"] == expected["standard_above_baseline"]
    assert [part["shard"] for part in manifest["merged_from"]] == [
        f"{i}/{count}" for i in range(count, 0, -1)
    ]
    assert RunFolder(parts[0]).manifest()["shard"] == f"1/{count}"


@pytest.mark.parametrize("count", range(1, 7))
def test_every_task_is_in_one_shard_and_standard_stays_with_who_needs_it(clock_file, count):
    job = job_from_config(configuration(clock_file))
    shards = [Shard(number, count).of(job) for number in range(1, count + 1)]
    tasks = [(source.shift, spec.label) for source, specs in itertools.chain(*shards) for spec in specs]
    assert sorted(tasks) == sorted((s.shift, m.label) for s in job.streams for m in job.methods)
    for shard in shards:
        assert shard
        for _, specs in shard:
            labels = {spec.label for spec in specs}
            assert "lame" not in labels or "standard" in labels


def test_too_many_shards(clock_file):
    job = job_from_config(configuration(clock_file))
    with pytest.raises(TemporaError, match=r"--shard 1/7: this job has only 6 separate parts"):
        Shard(1, 7).of(job)


@pytest.mark.parametrize("text", ["", "3", "0/2", "3/2", "a/b", "1/2/3"])
def test_wrong_shards(text):
    with pytest.raises(TemporaError, match="write i/n"):
        Shard.parse(text)


def test_a_missing_shard_is_named_and_can_be_made_later(clock_file, whole, tmp_path):
    parts = [run(configuration(clock_file), tmp_path / str(i), f"{i}/6") for i in (1, 2)]
    app = typer.Typer()
    app.command()(merge_command)
    command = [*map(str, parts), "--out", str(tmp_path / "merged")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "none of them has " in result.output
    assert not RunFolder(tmp_path / "merged").manifest()["finished"]
    run(configuration(clock_file), tmp_path / "merged")
    assert contents(tmp_path / "merged") == contents(whole)
    assert isinstance(CliRunner().invoke(app, command).exception, TemporaError)


def test_different_jobs_are_refused(clock_file, whole, tmp_path):
    other = run(configuration(clock_file, batches=3), tmp_path / "other", "1/2")
    with pytest.raises(TemporaError, match=r"not parts of one job: batches is .*4.* and .*3"):
        merge([whole, other], tmp_path / "merged")
    reweighted = run(configuration(clock_file, deterministic=True), tmp_path / "deterministic", "1/2")
    torch.use_deterministic_algorithms(False)
    with pytest.raises(TemporaError, match="not parts of one job: deterministic is False"):
        merge([whole, reweighted], tmp_path / "merged")
    with pytest.raises(TemporaError, match="at least two"):
        merge([whole], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_different_lambdas_are_joined_only_when_told(tmp_path):
    config = configuration("measured", threads=1)
    parts = [
        run(config.model_copy(update={"baseline_ms": ms}), tmp_path / str(ms), f"{i}/2")
        for i, ms in enumerate((50.0, 60.0), 1)
    ]
    with pytest.raises(
        TemporaError, match=r"different lambdas \(50.0 50 ms, 60.0 60 ms\): run them again with"
    ):
        merge(parts, tmp_path / "merged")
    merged = merge(parts, tmp_path / "merged", mix_devices=True)
    assert set(merged.results.utilities["baseline_ms"]) == {50.0, 60.0}


def test_different_devices_are_joined_only_when_told(tmp_path):
    config = configuration("measured", threads=1, baseline_ms=50.0)
    parts = [run(config, tmp_path / str(i), f"{i}/5") for i in range(1, 6)]
    _pretend_another_machine(parts[1])
    with pytest.raises(TemporaError, match="timed on different devices"):
        merge(parts, tmp_path / "merged")
    merged = merge(parts, tmp_path / "merged", mix_devices=True)
    assert "ranked across them, as was asked for" in merged.results.manifest["mixed_devices"]
    assert merged.results.utilities.query("status == 'ok'")["rank"].notna().all()


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
