"""A run in one file: what goes in comes out, the same every time, and a file that was touched is refused."""

from __future__ import annotations

import gc
import io
import json
import shutil
import tempfile
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tempora_tta as tempora
from made_runs import METHODS, write_run
from tempora_tta.cli import app
from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.scenarios import Amortised, Discrete, Offline
from tempora_tta.store import RunFolder, pack
from tempora_tta.store.pictures import write_pictures
from tempora_tta.store.record import RunRecord

FEW = {name: METHODS[name] for name in ("standard", "adabn", "tent")}
MADE = {"methods": FEW, "shifts": ("fog",), "batches": 8}
Members = dict[str, bytes]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pack") / "run"
    write_run(folder, scenarios=(Offline(), Discrete(utilisation=0.5), Amortised(budget_x=0.25)), **MADE)
    (folder / "profile.json").write_text("{}")
    write_pictures(folder, {"fog": b"\xff\xd8\xff a picture"})
    RunFolder(folder).seal()
    return folder


@pytest.fixture(scope="module")
def packed(run: Path) -> Path:
    return pack(run)


def files(folder: Path) -> Members:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != "run.lock"}


def rewritten(packed: Path, target: Path, change: Callable[[Members], object]) -> Path:
    """The pack with other members."""
    with zipfile.ZipFile(packed) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def relisted(members: Members) -> None:
    """Let run.json list the files as they are now, as an attacker who knows the format would."""
    record = RunRecord.model_validate_json(members["run.json"])
    others = (name for name in members if name != "run.json" and "/" not in name)
    listed = {name: sha256(members[name]).hexdigest() for name in others}
    members["run.json"] = record.model_copy(update={"files": listed}).text().encode()


def parquet(table: pa.Table, **options: object) -> bytes:
    target = io.BytesIO()
    pq.write_table(table, target, **options)
    return target.getvalue()


def with_column(members: Members, name: str, make: Callable[[int], pa.Array], **options: object) -> None:
    """A column that a hand has made better, written as Parquet with everything else as it was."""
    table = pq.read_table(io.BytesIO(members["utilities.parquet"]))
    table = table.set_column(table.column_names.index(name), name, make(table.num_rows))
    members["utilities.parquet"] = parquet(table, **options)


def test_what_goes_in_comes_out_and_leaves_no_folder_behind(run: Path, packed: Path, tmp_path: Path) -> None:
    tempora.open_run(packed).save(tmp_path / "back")
    assert files(tmp_path / "back") == files(run)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        here, there = tempora.open_run(run), tempora.open_run(packed)
        pd.testing.assert_frame_equal(here.utilities, there.utilities)
        pd.testing.assert_frame_equal(here.traces, there.traces)
    assert here.manifest == there.manifest
    place = there.path
    assert (place / "run.json").exists()
    del there
    gc.collect()
    assert not place.exists(), "it lives as long as its results"


def test_the_same_run_gives_the_same_bytes_wherever_and_whenever(
    run: Path, packed: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "lr0.01"))
    (copy / "report.html").write_text("is made from the rest")
    assert pack(copy).read_bytes() == packed.read_bytes()
    assert (tmp_path / "lr0.01.tempora").exists(), "a name with dots is kept"


def test_without_traces_the_tables_stay_and_batches_are_missed_by_name(
    run: Path, packed: Path, tmp_path: Path
) -> None:
    small = pack(run, tmp_path / "small.tempora", traces=False)
    assert small.stat().st_size < packed.stat().st_size / 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        results = tempora.open_run(small)
        pd.testing.assert_frame_equal(results.utilities, tempora.open_run(run).utilities)
        with pytest.raises(TemporaError, match="without traces"):
            _ = results.traces


def test_a_run_that_is_not_finished_or_was_changed_is_not_packed(run: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "half", scenarios=(Offline(),), finished=False, **MADE)
    changed = Path(shutil.copytree(run, tmp_path / "changed"))
    text = (changed / "run.json").read_text()
    (changed / "run.json").write_text(text.replace('"a_net"', '"b_net"'))
    for folder, said in ((tmp_path / "half", "not finished"), (changed, "changed after")):
        with pytest.raises(TemporaError, match=said):
            pack(folder)


def a_trace(members: Members, place: int = 0) -> str:
    return sorted(name for name in members if name.startswith("traces/"))[place]


def unchecked(members: Members) -> None:
    """Without its checksum, anything may stand in run.json."""
    told = json.loads(members["run.json"])
    del told["checksum"]
    members["run.json"] = json.dumps({**told, "model": "b_net"}).encode()


def impossible(members: Members) -> None:
    """Percent for fractions, in a file that run.json lists."""
    with_column(members, "accuracy", lambda rows: pa.array([100.0] * rows))
    relisted(members)


TAMPERED: dict[str, Callable[[Members], object]] = {
    "another trace": lambda members: members.update({a_trace(members): members[a_trace(members, 1)]}),
    "better": lambda members: with_column(members, "response_ms", lambda rows: pa.array([1.0] * rows)),
    "run.json": lambda members: members.update({"run.json": members["run.json"].replace(b"a_net", b"b_net")}),
    "unchecked": unchecked,
    "profile.json": lambda members: members.update({"profile.json": b'{"standard_ms": 100}'}),
    "no profile": lambda members: members.pop("profile.json"),
    "no trace": lambda members: members.pop(a_trace(members)),
    "impossible": impossible,
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_pack_is_refused_with_what_its_reader_can_do(packed: Path, tmp_path: Path, change) -> None:
    """The reader of a file has no command to run again, and its files lie in a passing place."""
    forged = rewritten(packed, tmp_path / "forged.tempora", change)
    with pytest.raises(TemporaError, match=r"forged\.tempora.*changed after.*ask for it again") as found:
        tempora.open_run(forged)
    assert "tempora-pack-" not in str(found.value)


def repeated(members: Members) -> None:
    """A file keeps a text once, however many rows repeat it: as a column it would fill the memory."""

    def texts(rows: int) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["a" * (1 << 20)]))

    with_column(members, "label", texts, dictionary_pagesize_limit=1 << 30)
    relisted(members)


MANY = parquet(pa.table({"x": pa.nulls(1_000_000, pa.int8())}))
ODD = ("../escaped", "/tmp/escaped", "traces/../../escaped", "traces/a/b.parquet", "run.lock", "traces\\x")
NO_RUN: dict[str, tuple[Callable[[Members], object], str]] = {
    **{name: (lambda members, name=name: members.update({name: b"x"}), "no run folder") for name in ODD},
    "a bomb": (lambda members: members.update({"profile.json": bytes(40 << 20)}), "more than a run"),
    "equal numbers": (lambda members: members.update({"segments.parquet": MANY}), "numbers, more than a run"),
    "one text": (repeated, r"label.*\d+ bytes, more than a run"),
    "later": (lambda members: members.update({"run.json": b'{"schema_version": 99}'}), "99"),
}


@pytest.mark.parametrize(("change", "said"), NO_RUN.values(), ids=NO_RUN)
def test_nothing_but_the_files_of_a_run_is_taken(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change, said: str
) -> None:
    odd = rewritten(packed, tmp_path / "odd.tempora", change)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("tempora_tta.store.packs.MOST_VALUES", 999_999)
    with pytest.raises(TemporaError, match=said):
        tempora.open_run(odd)
    assert [path.name for path in tmp_path.rglob("*")] == ["odd.tempora"]
    assert not Path("/tmp/escaped").exists()


def test_a_member_longer_than_it_says_is_not_read_to_its_end(packed: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.tempora"
    with zipfile.ZipFile(packed) as archive, zipfile.ZipFile(long, "w", zipfile.ZIP_DEFLATED) as liar:
        for name in archive.namelist():
            liar.writestr(name, bytes(64 << 20) if name == "profile.json" else archive.read(name))
        liar.getinfo("profile.json").file_size = 2
    tracemalloc.start()
    try:
        with pytest.raises(TemporaError, match="damaged"):
            tempora.open_run(long)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no", b"not a zip"])
def test_files_that_are_no_packs(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.tempora").write_bytes(content)
    with pytest.raises(TemporaError, match="damaged"):
        tempora.open_run(tmp_path / "x.tempora")


@pytest.mark.parametrize(
    "command",
    [("show",), ("show", "--table", "overhead"), ("recommend", "--interval-ms", "80")],
    ids=" ".join,
)
def test_commands_take_a_pack_where_they_take_a_folder(run: Path, packed: Path, command) -> None:
    said = [CliRunner().invoke(app, [command[0], str(of), *command[1:]]) for of in (run, packed)]
    assert [one.exit_code for one in said] == [0, 0], said[1].output
    assert said[0].output == said[1].output


def test_the_command_packs_and_a_pack_compares_with_its_folder(
    run: Path, packed: Path, tmp_path: Path
) -> None:
    made = CliRunner().invoke(app, ["pack", str(run), "--out", str(tmp_path / "sent.tempora"), "--no-traces"])
    assert (made.exit_code, "no traces" in made.output) == (0, True)
    compared = CliRunner().invoke(app, ["compare", str(run), str(packed)])
    assert "0 of 9 numbers changed" in compared.output
