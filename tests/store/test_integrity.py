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

from made_runs import METHODS, write_run
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.recommend import recommend
from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline
from tempora_tta.store import SCHEMA_VERSION, RunFolder, files, open_run

SCENARIOS = (Offline(), Discrete(interval_ms=60), Continuous(threshold_ms=90), Amortised(budget_ms=100))
BATCHES = 6

pytestmark = pytest.mark.filterwarnings(
    "ignore::tempora_tta.errors.TemporaWarning"
)  # those besides the one meant


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods under four scenarios."""
    path = tmp_path_factory.mktemp("store") / "run"
    few = {name: METHODS[name] for name in ("standard", "tent")}
    write_run(path, methods=few, scenarios=SCENARIOS, shifts=("fog",), batches=BATCHES)
    return path


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "run"))


def read_all(run: Path) -> pd.DataFrame:
    return open_run(run).traces


def file_of(run: Path, kind: str) -> Path:
    return run / f"{kind}.parquet" if kind == "utilities" else next(run.glob("traces/*tent*offline*"))


def manifest_with(run: Path, **changes: Any) -> None:
    """Values of None are left out."""
    told = json.loads((run / "run.json").read_text()) | changes
    (run / "run.json").write_text(
        json.dumps({name: value for name, value in told.items() if value != "gone"})
    )


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a table as another program would that keeps what it does not understand."""
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


def told_otherwise(path: Path, **about: Any) -> None:
    table = pq.read_table(path)
    told = {**json.loads(table.schema.metadata[b"tempora"]), **about}
    pq.write_table(table.replace_schema_metadata({b"tempora": json.dumps(told)}), path)


def with_column(name: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    def changed(table: pa.Table) -> pa.Table:
        column = pa.array(change(table[name].to_pylist()), type=table.schema.field(name).type)
        return table.set_column(table.column_names.index(name), name, column)

    return changed


def test_an_untouched_folder_says_nothing(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(open_run(run).utilities) == 8
        assert len(open_run(run).traces) == 8 * BATCHES


FASTER = with_column("adapt_ms", lambda times: [time + 0.001 for time in times])
RERANKED = with_column("rank", lambda ranks: [3 - rank for rank in ranks])
CHANGED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a time in a trace": ("trace", lambda path: rewrite(path, FASTER)),
    "who was predicted": (
        "trace",
        lambda path: rewrite(path, with_column("predicted", lambda rows: [[1] * 50, *rows[1:]])),
    ),
    "facts of a trace": ("trace", lambda path: told_otherwise(path, facts={"timing_uncertainty": 0.1})),
    "the ranks": ("utilities", lambda path: rewrite(path, RERANKED)),
    "an absent row": ("utilities", lambda path: rewrite(path, lambda table: table.slice(1))),
    "the order of rows": (
        "utilities",
        lambda path: rewrite(path, lambda table: table.take([1, 0, *range(2, 8)])),
    ),
    "another program": ("utilities", lambda path: pd.read_parquet(path).to_parquet(path)),
    "no passes": ("utilities", lambda path: told_otherwise(path, passes=None)),
    "odd passes": ("utilities", lambda path: told_otherwise(path, passes={"0": 1})),
    "no table": ("utilities", lambda path: path.unlink()),
    "a manifest": ("run.json", lambda path: manifest_with(path.parent, clock="recorded:x")),
    "no checksum": ("run.json", lambda path: manifest_with(path.parent, checksum="gone")),
}


@pytest.mark.parametrize(("kind", "change"), CHANGED.values(), ids=CHANGED)
def test_what_was_changed_warns_by_name(run, kind, change):
    path = run / kind if kind == "run.json" else file_of(run, kind)
    change(path)
    with pytest.warns(TemporaWarning, match=path.name):
        read_all(run)


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


def test_a_trace_of_another_run_disagrees_with_the_utilities(run):
    """Both files are as they were written, but not by one run."""
    with RunFolder.for_writing(run) as folder:
        passes = folder.passes().values()
        tent = next(
            one for one in passes if one.identity["method"] == "tent" and one.identity["kind"] == "offline"
        )
        other = tent.trace()
        other.correct[:] = 1
        folder.write_pass(tent.identity, other, {})
    with pytest.warns(TemporaWarning, match=r"tent on fog, offline.* 0\.02"):
        read_all(run)


IMPOSSIBLE: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "a utility that its terms do not give": (
        "utilities",
        with_column("utility", lambda utilities: [utilities[0] / 2, *utilities[1:]]),
        "utility",
    ),
    "a term that does not give its utility": (
        "utilities",
        with_column("responsiveness", lambda values: [value / 2 for value in values]),
        "terms",
    ),
    "percent for fractions": (
        "utilities",
        with_column("accuracy", lambda values: [100 * value for value in values]),
        "accuracy.* 0 and 1",
    ),
    "a method without a name": ("utilities", with_column("method", lambda names: [None] * 8), "method"),
    "the same cell twice": ("utilities", lambda table: pa.concat_tables([table] * 2), "twice"),
    "a scenario that was not run": (
        "utilities",
        with_column("scenario", lambda places: [9] * 8),
        "twice|scenario",
    ),
    "no utilities at all": (
        "utilities",
        lambda table: table.drop_columns(["utility", "rank"]),
        "utility, rank",
    ),
    "words for numbers": (
        "utilities",
        lambda table: table.set_column(
            table.column_names.index("utility"), "utility", pa.array(["high"] * 8)
        ),
        "high",
    ),
    "more right than there are": ("trace", with_column("correct", lambda n: [99] * BATCHES), "correct"),
    "a time before zero": ("trace", with_column("predict_ms", lambda n: [-1.0] * BATCHES), "below 0"),
    "a lost batch": ("trace", lambda table: table.slice(0, 5), "5 rows.* 6"),
    "rows out of order": ("trace", lambda table: table.sort_by([("index", "descending")]), "order"),
    "a phase of no pass": (
        "trace",
        with_column("phase", lambda n: ["thaw"] * BATCHES),
        "adapt, frozen or fallback",
    ),
}


@pytest.mark.parametrize(("kind", "change", "said"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_numbers_are_refused(run, kind, change, said):
    rewrite(file_of(run, kind), change)
    with pytest.raises(TemporaError, match=said):
        read_all(run)


def test_a_lost_pass_is_named(run):
    file_of(run, "trace").unlink()
    for read in (read_all, lambda run: recommend(open_run(run), Question(interval_ms=50))):
        with pytest.raises(TemporaError, match="lacks the pass"):
            read(run)


def test_what_was_changed_is_set_aside_when_the_run_goes_on(run):
    victim = file_of(run, "trace")
    rewrite(victim, FASTER)
    rewrite(run / "utilities.parquet", RERANKED)
    manifest_with(run, clock="recorded:x")
    with RunFolder.for_writing(run) as folder:
        assert set(folder.damaged) == {victim.name, "run.json"}
        assert not folder.certainty_parquet.exists()
        assert victim.stem not in {found.key for found in folder.passes().values()}


@pytest.mark.parametrize("version", [1, 99])
def test_files_of_another_tempora_are_refused_and_not_set_aside(run, version):
    (run / "run.json").write_text(json.dumps({"schema_version": version}))
    for look in (open_run, RunFolder.for_writing):
        with pytest.raises(TemporaError, match=f"{version}.*{SCHEMA_VERSION}.*run again"):
            look(run)
    assert (run / "run.json").exists()


def test_a_folder_may_be_called_as_an_address_begins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("a:") / "table.parquet"
    path.parent.mkdir()
    path.write_bytes(files.table_bytes(pa.table({"x": [1, 2]}), {"about": "it"}))
    assert files.read_about(path)["about"] == "it"
    assert files.read_table(path, {"x": (pa.int64(), "")})["x"].to_pylist() == [1, 2]
