"""A run folder that was changed is read with a warning, one that cannot be true is refused, and both are mended."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tempora_tta.analysis.question import Question
from tempora_tta.analysis.recommend import recommend
from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline, Scenario, to_spec
from tempora_tta.store import (
    ADAPTED,
    SCHEMA_VERSION,
    Cell,
    RunFolder,
    Trace,
    files,
    open_run,
    utilities_frame,
    utility_row,
)
from tempora_tta.store.record import RunRecord

SCENARIOS: tuple[Scenario, ...] = (
    Offline(),
    Discrete(interval_ms=60),
    Continuous(threshold_ms=90),
    Amortised(budget_ms=100),
)
BATCHES, BASELINE_MS = 6, 40.0

pytestmark = pytest.mark.filterwarnings(
    "ignore::tempora_tta.errors.TemporaWarning"
)  # those besides the one meant


def a_trace(adapt_ms: float, correct: int) -> Trace:
    trace = Trace.empty(BATCHES, 4)
    trace.phase[:], trace.correct[:], trace.predicted[:] = ADAPTED, correct, 1
    trace.correct[::2] += 1
    trace.predict_ms[:], trace.adapt_ms[:], trace.action[:] = 41.0, adapt_ms, "step"
    return trace


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods under four scenarios, all replayed from one pass each."""
    path = tmp_path_factory.mktemp("store") / "run"
    rows = []
    with RunFolder.for_writing(path) as folder:
        for method, adapt_ms, correct in (("standard", 0.0, 1), ("tent", 50.0, 2)):
            identity = {
                "kind": "offline",
                "method": method,
                "shift": "fog",
                "seed": 1,
                "num_batches": BATCHES,
            }
            stored = folder.write_pass(identity, a_trace(adapt_ms, correct), {})
            for index, scenario in enumerate(SCENARIOS):
                cell = Cell(method, "net", "fog", 1, scenario, index, BASELINE_MS)
                placed = Cell(**{**vars(cell), "adapting_pass": stored.key, "frozen_pass": stored.key})
                rows.append(utility_row(placed, stored.trace(), stored.trace()))
        folder.write_utilities(utilities_frame(rows))
        record = RunRecord.model_validate(
            {
                "model": "net",
                "methods": ["standard", "tent"],
                "shifts": ["fog"],
                "seeds": [1],
                "batch_size": 4,
                "batches": {"fog": BATCHES},
                "clock": "measured",
                "finished": True,
                "scenarios": [to_spec(scenario) for scenario in SCENARIOS],
                "baseline": {"baseline_ms": BASELINE_MS},
            }
        )
        folder.write_manifest(record)
    return path


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "run"))


def read_all(run: Path) -> pd.DataFrame:
    return open_run(run).traces


def a_trace_file(run: Path) -> Path:
    return sorted(run.glob("traces/*tent*"))[0]


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a table as another program would that keeps what it does not understand."""
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


def with_column(name: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    def changed(table: pa.Table) -> pa.Table:
        place = table.column_names.index(name)
        column = pa.array(change(table[name].to_pylist()), type=table.schema.field(name).type)
        return table.set_column(place, name, column)

    return changed


def test_an_untouched_folder_says_nothing(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = open_run(run)
        assert len(results.utilities) == 8
        assert len(results.traces) == 8 * BATCHES


CHANGED: dict[str, tuple[str, Callable[[pa.Table], pa.Table]]] = {
    "a time in a trace": ("trace", with_column("adapt_ms", lambda times: [time + 0.001 for time in times])),
    "who was predicted": ("trace", with_column("predicted", lambda batches: [[0, 1, 1, 1], *batches[1:]])),
    "the ranks": ("utilities", with_column("rank", lambda ranks: [3 - rank for rank in ranks])),
    "an absent row": ("utilities", lambda table: table.slice(1)),
    "the order of rows": ("utilities", lambda table: table.sort_by([("utility", "ascending")])),
}


@pytest.mark.parametrize(("kind", "change"), CHANGED.values(), ids=CHANGED)
def test_changed_numbers_warn(run, kind, change):
    path = a_trace_file(run) if kind == "trace" else run / "utilities.parquet"
    rewrite(path, change)
    with pytest.warns(TemporaWarning, match=f"{path.name} was changed after Tempora wrote it"):
        read_all(run)


@pytest.mark.parametrize("passes", [None, [], {"0": 1}], ids=str)
def test_a_table_with_odd_metadata_warns(run, passes):
    table = pq.read_table(run / "utilities.parquet")
    about = json.loads(table.schema.metadata[b"tempora"])
    odd = table.replace_schema_metadata({b"tempora": json.dumps({**about, "passes": passes})})
    pq.write_table(odd, run / "utilities.parquet")
    with pytest.warns(TemporaWarning, match=r"utilities\.parquet was changed"):
        read_all(run)


def test_a_trace_with_other_facts_warns(run):
    path = a_trace_file(run)
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"tempora"])
    told = {**about, "facts": {"timing_uncertainty": 0.1}}
    pq.write_table(table.replace_schema_metadata({b"tempora": json.dumps(told)}), path)
    with pytest.warns(TemporaWarning, match=rf"{path.name} was changed"):
        open_run(run).folder.passes()


def test_a_run_json_without_its_checksum_was_changed(run):
    manifest = json.loads((run / "run.json").read_text())
    del manifest["checksum"]
    (run / "run.json").write_text(json.dumps(manifest))
    with pytest.warns(TemporaWarning, match=r"run\.json was changed"):
        open_run(run)


@pytest.mark.parametrize(
    "odd", [pa.array([["a"]]), pa.array([b"a"], pa.large_binary()), pa.array([1])], ids=str
)
def test_a_column_of_another_kind_is_no_traceback(run, odd):
    table = pq.read_table(run / "utilities.parquet")
    column = pa.concat_arrays([odd] * table.num_rows)
    place = table.column_names.index("label")
    pq.write_table(table.set_column(place, "label", column), run / "utilities.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        with pytest.raises((TemporaError, TemporaWarning)):
            _ = open_run(run).utilities


def test_a_changed_manifest_warns(run):
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**manifest, "clock": "recorded:x"}))
    with pytest.warns(TemporaWarning, match=r"run\.json was changed"):
        open_run(run)


def test_a_table_of_another_program_is_read_with_a_warning(run):
    pd.read_parquet(run / "utilities.parquet").to_parquet(run / "utilities.parquet")
    with pytest.warns(TemporaWarning, match="was changed"):
        assert len(open_run(run).utilities) == 8


def test_a_trace_of_another_run_disagrees_with_the_utilities(run):
    """Both files are as they were written, but not by one run."""
    with RunFolder.for_writing(run) as folder:
        identity = next(
            found.identity for found in folder.passes().values() if found.identity["method"] == "tent"
        )
        folder.write_pass(identity, a_trace(50.0, 3), {})
    with pytest.warns(
        TemporaWarning, match=r"tent on fog, offline: its batches give utility 0\.875000, .* 0\.625000"
    ):
        read_all(run)


def test_missing_cells_warn(run):
    (run / "utilities.parquet").unlink()
    with pytest.warns(TemporaWarning, match="is missing"):
        assert open_run(run).utilities.empty


IMPOSSIBLE: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "a utility that its terms do not give": (
        "utilities",
        with_column("utility", lambda utilities: [utilities[0] / 2, *utilities[1:]]),
        "utility is outside its interval",
    ),
    "a term that does not give its utility": (
        "utilities",
        with_column("responsiveness", lambda values: [value / 2 for value in values]),
        "its terms do not give its utility",
    ),
    "percent for fractions": (
        "utilities",
        with_column("accuracy", lambda values: [100 * value for value in values]),
        "accuracy is not between 0 and 1",
    ),
    "a method without a name": (
        "utilities",
        with_column("method", lambda names: [None] * 8),
        "method is empty",
    ),
    "the same cell twice": ("utilities", lambda table: pa.concat_tables([table] * 2), "stands there twice"),
    "a scenario that was not run": (
        "utilities",
        with_column("scenario", lambda places: [9] * 8),
        "stands there twice|another scenario",
    ),
    "no utilities at all": (
        "utilities",
        lambda table: table.drop_columns(["utility", "rank"]),
        "lacks the columns utility, rank",
    ),
    "words for numbers": (
        "utilities",
        lambda table: table.set_column(
            table.column_names.index("utility"), "utility", pa.array(["high"] * 8)
        ),
        "high",
    ),
    "more right than there are": ("trace", with_column("correct", lambda n: [9] * BATCHES), "correct counts"),
    "a time before zero": (
        "trace",
        with_column("predict_ms", lambda n: [-1.0] * BATCHES),
        "below 0 or infinite",
    ),
    "a lost batch": ("trace", lambda table: table.slice(0, 5), "it has 5 rows, one per batch would be 6"),
    "rows out of order": (
        "trace",
        lambda table: table.sort_by([("index", "descending")]),
        "order of the batches",
    ),
    "a phase of no pass": (
        "trace",
        with_column("phase", lambda n: ["thaw"] * BATCHES),
        "phase is adapt, frozen or fallback",
    ),
}


@pytest.mark.parametrize(("kind", "change", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_numbers_are_refused(run, kind, change, message):
    path = a_trace_file(run) if kind == "trace" else run / "utilities.parquet"
    rewrite(path, change)
    with pytest.raises(TemporaError, match=message):
        read_all(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("methods", "tent"),
        ("batches", {"fog": 0}),
        ("batches", {}),
        ("baseline", None),
        ("baseline", {"baseline_ms": -1}),
        ("seeds", [True]),
        ("verdict", {"status": "FINE", "text": ""}),
        ("machine", []),
        ("machine", None),
        ("machine", {"command": "tempora run"}),
        ("config", {"scenarios": None}),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(run, name, value):
    manifest = json.loads((run / "run.json").read_text())
    del manifest["checksum"]
    (run / "run.json").write_text(json.dumps({**manifest, name: value}))
    with pytest.raises(TemporaError, match=r"run\.json is damaged"):
        open_run(run)


def test_what_was_changed_is_set_aside_when_the_run_goes_on(run):
    rewrite(a_trace_file(run), CHANGED["a time in a trace"][1])
    rewrite(run / "utilities.parquet", CHANGED["the ranks"][1])
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**manifest, "clock": "recorded:x"}))
    victim = a_trace_file(run).name
    with RunFolder.for_writing(run) as folder:
        assert set(folder.damaged) == {victim, "run.json"}
        assert not folder.certainty_parquet.exists()
        assert [found.identity["method"] for found in folder.passes().values()] == ["standard"]


@pytest.mark.parametrize("version", [1, 99])
def test_files_of_another_tempora_are_refused_and_not_set_aside(run, version):
    (run / "run.json").write_text(json.dumps({"schema_version": version}))
    for look in (open_run, RunFolder.for_writing):
        said = f"schema version {version}, this Tempora reads {SCHEMA_VERSION}: run again"
        with pytest.raises(TemporaError, match=said):
            look(run)
    assert (run / "run.json").exists()


def test_a_lost_pass_is_named(run):
    a_trace_file(run).unlink()
    with pytest.raises(TemporaError, match=r"lacks the pass .*: run the same command again"):
        read_all(run)
    with pytest.raises(TemporaError, match="lacks the pass"):
        recommend(open_run(run), Question(interval_ms=50))


def test_a_folder_may_be_called_as_an_address_begins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("a:") / "table.parquet"
    path.parent.mkdir()
    path.write_bytes(files.table_bytes(pa.table({"x": [1, 2]}), {"about": "it"}))
    assert files.read_about(path)["about"] == "it"
    assert files.read_table(path, {"x": (pa.int64(), "")})["x"].to_pylist() == [1, 2]
