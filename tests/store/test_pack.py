"""A run in one file: what goes in comes out, the same every time, and a file that was touched is refused."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable
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
from tempora_tta.store.integrity import checksum
from tempora_tta.store.pictures import write_pictures

FEW = {name: METHODS[name] for name in ("standard", "adabn", "tent")}
SCENARIOS = (Offline(), Discrete(utilisation=0.5), Amortised(budget_x=0.25))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pack") / "run"
    write_run(folder, methods=FEW, shifts=("fog",), scenarios=SCENARIOS, batches=8)
    (folder / "profile.json").write_text("{}")
    RunFolder(folder).seal()
    write_pictures(folder, {"fog": b"\xff\xd8\xff a picture"})
    return folder


@pytest.fixture(scope="module")
def packed(run: Path) -> Path:
    return pack(run)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def rewritten(
    packed: Path, target: Path, change: Callable[[dict[str, bytes]], None], relist: bool = False
) -> Path:
    """The pack with other members; with `relist`, its list agrees with them, as a forger would have it."""
    with zipfile.ZipFile(packed) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if relist:
        from hashlib import sha256

        told = {name: value for name, value in json.loads(members["pack.json"]).items() if name != "checksum"}
        told["files"] = {
            name: {"bytes": len(data), "sha256": sha256(data).hexdigest()}
            for name, data in members.items()
            if name != "pack.json"
        }
        members["pack.json"] = json.dumps({**told, "checksum": checksum(told)}).encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


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


def better(members: dict[str, bytes]) -> None:
    """A column that a hand has made better, written as Parquet with everything else as it was."""
    table = pq.read_table(io.BytesIO(members["utilities.parquet"]))
    column = table.column_names.index("response_ms")
    table = table.set_column(column, "response_ms", pa.array([1.0] * table.num_rows))
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


def no_profile(members: dict[str, bytes]) -> None:
    del members["profile.json"]


@pytest.mark.parametrize("change", [other_trace, better, renamed, unchecked, other_profile])
@pytest.mark.parametrize("relist", [False, True], ids=["list kept", "list forged"])
def test_a_tampered_pack_is_refused(packed: Path, tmp_path: Path, change, relist: bool) -> None:
    forged = rewritten(packed, tmp_path / "forged.tempora", change, relist)
    said = "was changed after it was packed" if relist else "not what was packed|larger than it may be"
    with pytest.raises(TemporaError, match=said):
        tempora.open_run(forged)


def test_a_pack_without_its_profile_is_refused(packed: Path, tmp_path: Path) -> None:
    forged = rewritten(packed, tmp_path / "forged.tempora", no_profile, relist=True)
    with pytest.raises(TemporaError, match=r"forged\.tempora/profile\.json is missing.*: ask for it again"):
        tempora.open_run(forged)


def test_what_is_wrong_names_the_pack_and_what_its_reader_can_do(packed: Path, tmp_path: Path) -> None:
    """Who was sent a file has no command to run again, and its files lie in a passing place."""
    forged = rewritten(packed, tmp_path / "forged.tempora", renamed, relist=True)
    with pytest.raises(TemporaError, match=r"ask for it again, or pack the run anew") as said:
        tempora.open_run(forged)
    assert "tempora-pack-" not in str(said.value)
    assert "same command" not in str(said.value)


def test_a_name_with_dots_is_kept(run: Path, tmp_path: Path) -> None:
    for name in ("lr0.01", "lr0.001"):
        assert pack(shutil.copytree(run, tmp_path / name)).name == f"{name}.tempora"


def test_traces_in_a_pack_that_says_it_has_none_are_refused(packed: Path, tmp_path: Path) -> None:
    """Or nobody would compare them with the table."""

    def hidden(members: dict[str, bytes]) -> None:
        members["pack.json"] = members["pack.json"].replace(b'"traces": true', b'"traces": false')

    with pytest.raises(TemporaError, match="does not say what is in it"):
        tempora.open_run(rewritten(packed, tmp_path / "odd.tempora", hidden, relist=True))


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
    odd = rewritten(
        packed, tmp_path / "odd.tempora", lambda members: members.update({name: b"x"}), relist=True
    )
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
        relist=True,
    )
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(TemporaError, match="more than a run has"):
        tempora.open_run(bomb)


def test_a_member_longer_than_listed_is_not_read_to_its_end(packed: Path, tmp_path: Path) -> None:
    long = rewritten(
        packed, tmp_path / "long.tempora", lambda members: members.update({"profile.json": bytes(64 << 20)})
    )
    with pytest.raises(TemporaError, match="larger than it may be"):
        tempora.open_run(long)


def test_a_table_of_endless_equal_numbers_is_refused(packed: Path, tmp_path: Path, monkeypatch) -> None:
    def endless(members: dict[str, bytes]) -> None:
        target = io.BytesIO()
        pq.write_table(pa.table({"x": pa.nulls(1_000_000, pa.int8())}), target)
        members["segments.parquet"] = target.getvalue()

    monkeypatch.setattr("tempora_tta.store.packs.MOST_VALUES", 999_999)
    huge = rewritten(packed, tmp_path / "huge.tempora", endless, relist=True)
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

    def decoded(*_: object) -> None:
        raise AssertionError("the texts were repeated")

    monkeypatch.setattr("tempora_tta.store.integrity.rows_checksum", decoded)
    huge = rewritten(packed, tmp_path / "huge.tempora", endless, relist=True)
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


def test_a_later_format_asks_for_an_update(packed: Path, tmp_path: Path) -> None:
    def later(members: dict[str, bytes]) -> None:
        members["pack.json"] = json.dumps({"format": 2}).encode()

    with pytest.raises(TemporaError, match="update Tempora"):
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
