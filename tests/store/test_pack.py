"""A run in one file: what goes in comes out, the same every time, and a file that was touched is refused."""

from __future__ import annotations

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
SCENARIOS = (Offline(), Discrete(utilisation=0.5), Amortised(budget_x=0.25))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pack") / "run"
    write_run(folder, methods=FEW, shifts=("fog",), scenarios=SCENARIOS, batches=8)
    (folder / "profile.json").write_text("{}")
    write_pictures(folder, {"fog": b"\xff\xd8\xff a picture"})
    RunFolder(folder).seal()
    return folder


@pytest.fixture(scope="module")
def packed(run: Path) -> Path:
    return pack(run)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def rewritten(packed: Path, target: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The pack with other members."""
    with zipfile.ZipFile(packed) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def relisted(members: dict[str, bytes]) -> None:
    """Let run.json list the files as they are now, as an attacker who knows the format would."""
    record = RunRecord.model_validate_json(members["run.json"])
    others = (name for name in members if name != "run.json" and "/" not in name)
    listed = {name: sha256(members[name]).hexdigest() for name in others}
    members["run.json"] = record.model_copy(update={"files": listed}).text().encode()


def test_what_goes_in_comes_out(run: Path, packed: Path, tmp_path: Path) -> None:
    tempora.open_run(packed).save(tmp_path / "back")
    assert files(tmp_path / "back") == {name: data for name, data in files(run).items() if name != "run.lock"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        here, there = tempora.open_run(run), tempora.open_run(packed)
        pd.testing.assert_frame_equal(here.utilities, there.utilities)
        pd.testing.assert_frame_equal(here.traces, there.traces)
    assert here.manifest == there.manifest
    assert there.winners()["method"].tolist() == here.winners()["method"].tolist()


def test_the_same_run_gives_the_same_bytes_wherever_and_whenever(
    run: Path, packed: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "elsewhere"))
    (copy / "report.html").write_text("is made from the rest")
    assert pack(copy, tmp_path / "again.tempora").read_bytes() == packed.read_bytes()


def test_without_traces_the_tables_stay_and_batches_are_missed_by_name(
    run: Path, packed: Path, tmp_path: Path
) -> None:
    small = pack(run, tmp_path / "small.tempora", traces=False)
    assert small.stat().st_size < packed.stat().st_size / 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        results = tempora.open_run(small)
        pd.testing.assert_frame_equal(results.utilities, tempora.open_run(run).utilities)
        with pytest.raises(TemporaError, match="packed without traces"):
            _ = results.traces


def test_a_temporary_folder_lives_as_long_as_its_results(packed: Path) -> None:
    results = tempora.open_run(packed)
    place = results.path
    assert (place / "run.json").exists()
    del results
    import gc

    gc.collect()
    assert not place.exists()


def test_a_run_that_is_not_finished_or_was_changed_is_not_packed(run: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "half", methods=FEW, shifts=("fog",), scenarios=SCENARIOS, batches=8, finished=False)
    with pytest.raises(TemporaError, match="not finished"):
        pack(tmp_path / "half")
    changed = Path(shutil.copytree(run, tmp_path / "changed"))
    text = (changed / "run.json").read_text()
    (changed / "run.json").write_text(text.replace('"a_net"', '"b_net"'))
    with pytest.raises(TemporaError, match=r"cannot be packed.*was changed after"):
        pack(changed)


def other_trace(members: dict[str, bytes]) -> None:
    """One pass under the name of another: each file is whole, but the table was not scored from it."""
    names = sorted(name for name in members if name.startswith("traces/"))
    members[names[0]] = members[names[1]]


def better(members: dict[str, bytes], name: str = "response_ms", value: float = 1.0) -> None:
    """A column that a hand has made better, written as Parquet with everything else as it was."""
    table = pq.read_table(io.BytesIO(members["utilities.parquet"]))
    column = table.column_names.index(name)
    table = table.set_column(column, name, pa.array([value] * table.num_rows))
    target = io.BytesIO()
    pq.write_table(table, target)
    members["utilities.parquet"] = target.getvalue()


def renamed(members: dict[str, bytes]) -> None:
    members["run.json"] = members["run.json"].replace(b"a_net", b"b_net")


def unchecked(members: dict[str, bytes]) -> None:
    """Without its checksum, anything may stand in run.json."""
    told = json.loads(members["run.json"])
    del told["checksum"]
    members["run.json"] = json.dumps({**told, "model": "b_net"}).encode()


def other_profile(members: dict[str, bytes]) -> None:
    members["profile.json"] = b'{"standard_ms": 100}'


def no_trace(members: dict[str, bytes]) -> None:
    del members[next(name for name in members if name.startswith("traces/"))]


def no_profile(members: dict[str, bytes]) -> None:
    del members["profile.json"]


def impossible(members: dict[str, bytes]) -> None:
    """Percent for fractions, in a file that run.json lists."""
    better(members, "accuracy", 100.0)
    relisted(members)


@pytest.mark.parametrize(
    "change", [other_trace, better, renamed, unchecked, other_profile, no_profile, no_trace, impossible]
)
def test_a_tampered_pack_is_refused(packed: Path, tmp_path: Path, change) -> None:
    forged = rewritten(packed, tmp_path / "forged.tempora", change)
    with pytest.raises(TemporaError, match="was changed after it was packed"):
        tempora.open_run(forged)


def test_what_is_wrong_names_the_pack_and_what_its_reader_can_do(packed: Path, tmp_path: Path) -> None:
    """The reader of a file has no command to run again, and its files lie in a passing place."""
    for change, named in ((renamed, "run.json"), (no_profile, "profile.json")):
        forged = rewritten(packed, tmp_path / "forged.tempora", change)
        said = rf"forged\.tempora/{named} .*: ask for it again"
        with pytest.raises(TemporaError, match=said) as found:
            tempora.open_run(forged)
        assert "tempora-pack-" not in str(found.value)
        assert "same command" not in str(found.value)


def test_a_name_with_dots_is_kept(run: Path, tmp_path: Path) -> None:
    for name in ("lr0.01", "lr0.001"):
        assert pack(shutil.copytree(run, tmp_path / name)).name == f"{name}.tempora"


@pytest.mark.parametrize(
    "name",
    [
        "../escaped",
        "/tmp/escaped",
        "traces/../../escaped",
        "traces/a/b.parquet",
        "run.lock",
        "traces\\x.parquet",
    ],
)
def test_nothing_but_the_files_of_a_run_is_taken(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    odd = rewritten(packed, tmp_path / "odd.tempora", lambda members: members.update({name: b"x"}))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(TemporaError, match="which no run folder has"):
        tempora.open_run(odd)
    assert [path.name for path in tmp_path.rglob("*")] == ["odd.tempora"]
    assert not Path("/tmp/escaped").exists()


def test_a_bomb_is_noticed_before_it_goes_off(packed: Path, tmp_path: Path) -> None:
    bomb = rewritten(
        packed,
        tmp_path / "bomb.tempora",
        lambda members: members.update({"profile.json": bytes(40 << 20)}),
    )
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(TemporaError, match="more than a run has"):
        tempora.open_run(bomb)


def test_a_member_longer_than_it_says_is_not_read_to_its_end(packed: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.tempora"
    with zipfile.ZipFile(packed) as archive, zipfile.ZipFile(long, "w", zipfile.ZIP_DEFLATED) as liar:
        for name in archive.namelist():
            liar.writestr(name, bytes(64 << 20) if name == "profile.json" else archive.read(name))
        liar.getinfo("profile.json").file_size = 2
    tracemalloc.start()
    with pytest.raises(TemporaError, match="is damaged or no pack of ours"):
        tempora.open_run(long)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_a_table_of_endless_equal_numbers_is_refused(packed: Path, tmp_path: Path, monkeypatch) -> None:
    def endless(members: dict[str, bytes]) -> None:
        target = io.BytesIO()
        pq.write_table(pa.table({"x": pa.nulls(1_000_000, pa.int8())}), target)
        members["segments.parquet"] = target.getvalue()

    monkeypatch.setattr("tempora_tta.store.packs.MOST_VALUES", 999_999)
    huge = rewritten(packed, tmp_path / "huge.tempora", endless)
    with pytest.raises(TemporaError, match="numbers, more than a run has"):
        tempora.open_run(huge)


def test_a_table_of_one_endless_text_is_refused_before_it_is_repeated(
    packed: Path, tmp_path: Path, monkeypatch
) -> None:
    """A file keeps a text once, however many rows repeat it: as a column it would fill the memory."""

    def endless(members: dict[str, bytes]) -> None:
        table = pq.read_table(io.BytesIO(members["utilities.parquet"]))
        text = pa.DictionaryArray.from_arrays(
            pa.array([0] * table.num_rows, pa.int32()), pa.array(["a" * (1 << 20)])
        )
        place = table.column_names.index("label")
        target = io.BytesIO()
        pq.write_table(table.set_column(place, "label", text), target, dictionary_pagesize_limit=1 << 30)
        members["utilities.parquet"] = target.getvalue()
        relisted(members)

    def decoded(*_: object) -> None:
        raise AssertionError("the texts were repeated")

    huge = rewritten(packed, tmp_path / "huge.tempora", endless)
    monkeypatch.setattr("tempora_tta.store.files.arrow_schema", decoded)
    with pytest.raises(TemporaError, match=r"label holds texts of \d+ bytes, more than a run has"):
        tempora.open_run(huge)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "damaged or no pack"),
        (b"PK\x03\x04 no", "damaged or no pack"),
        (b"not a zip", "damaged or no pack"),
    ],
)
def test_files_that_are_no_packs(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.tempora").write_bytes(content)
    with pytest.raises(TemporaError, match=said):
        tempora.open_run(tmp_path / "x.tempora")


def test_a_pack_of_another_tempora_is_refused_in_one_sentence(packed: Path, tmp_path: Path) -> None:
    def later(members: dict[str, bytes]) -> None:
        members["run.json"] = json.dumps({"schema_version": 99}).encode()

    with pytest.raises(TemporaError, match="schema version 99"):
        tempora.open_run(rewritten(packed, tmp_path / "later.tempora", later))


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("show", "--table", "overhead"),
        ("recommend", "--interval-ms", "80"),
        pytest.param(("report", "--out", "page.html"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_commands_take_a_pack_where_they_take_a_folder(
    run: Path, packed: Path, tmp_path: Path, monkeypatch, command
) -> None:
    monkeypatch.chdir(tmp_path)
    said = [CliRunner().invoke(app, [command[0], str(of), *command[1:]]) for of in (run, packed)]
    assert [one.exit_code for one in said] == [0, 0], said[1].output
    assert said[0].output == said[1].output


def test_pack_show_and_compare_on_the_command_line(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "sent.tempora"
    made = CliRunner().invoke(app, ["pack", str(run), "--out", str(file), "--no-traces"])
    assert made.exit_code == 0
    assert "no traces" in made.output
    opened = CliRunner().invoke(app, ["show", str(file)])
    assert opened.exit_code == 0, opened.output
    assert "3 methods, 8 batches of 50" in opened.output
    compared = CliRunner().invoke(app, ["compare", str(run), str(pack(run, tmp_path / "whole.tempora"))])
    assert "0 of 9 numbers changed" in compared.output
