"""A board over many runs: what stands on it, what is refused and why, what changed from commit to commit."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from made_runs import METHODS, write_run
from tempora_tta.analysis.doubt import keep_doubt
from tempora_tta.cli import app
from tempora_tta.errors import TemporaError
from tempora_tta.names import SUITES, file_of
from tempora_tta.report.board import gather, write_board
from tempora_tta.scenarios import Amortised, Discrete, Offline, grid
from tempora_tta.store import Results, RunFolder, open_run, pack
from tempora_tta.store.integrity import checksum
from tempora_tta.store.suite_claims import departures_of
from test_purity import modules_loaded_by

SCENARIOS = (Offline(), Discrete(utilisation=0.5))
FEW = {name: METHODS[name] for name in ("standard", "adabn", "tent")}
WORSE = FEW | {"adabn": METHODS["adabn"]._replace(accuracy=0.30)}
SUITE = "tempora-fashion-v1/resnet"
HOSTILE = "<script>window.stolen = 1</script>"


def made(
    path: Path, methods=FEW, model: str = "a_net", cpu: str = "Some CPU", commit: str = "a" * 40
) -> Path:
    day = "0123456789abcdef".index(commit[0]) + 1
    machine = {"cpu": cpu, "commit": commit, "commit_date": f"2026-11-{day:02}T00:00:00+00:00"}
    about = {"model": model, "machine": machine, "clock": "measured"}
    write_run(path, methods=methods, shifts=("fog",), scenarios=SCENARIOS, **about)
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    """One configuration at two commits, which come in the wrong order; another device; another network, packed."""
    place = tmp_path_factory.mktemp("board")
    return [
        made(place / "later", WORSE, commit="b" * 40),
        made(place / "first"),
        made(place / "other device", cpu=HOSTILE),
        pack(made(place / "other net", model="b_net"), traces=False),
    ]


@pytest.fixture(scope="module")
def board(runs: list[Path], tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    write_board(gather(runs, departures_of), out, title=HOSTILE, reports=False)
    return out


@pytest.fixture(scope="module")
def data(board: Path) -> dict:
    return json.loads((board / "board.json").read_text())


def test_every_run_method_and_scenario_is_there(data: dict, runs: list[Path]) -> None:
    assert [run["name"] for run in data["runs"]] == ["later", "first", "other device", "other net"]
    assert len(data["rows"]) == 4 * 3 * 2
    row = next(
        row for row in data["rows"] if (row["run"], row["method"], row["scenario"]) == (1, "tent", "offline")
    )
    utilities = Results(RunFolder(runs[1])).utilities
    stored = utilities[(utilities["method"] == "tent") & (utilities["protocol"] == "offline")].iloc[0]
    assert row["utility"] == pytest.approx(stored["utility"])
    assert row["sample_lo"] < row["utility"] < row["sample_hi"]
    without = next(row for row in data["rows"] if row["run"] == 3)
    assert without["utility"] is not None
    assert without["sample_lo"] is None, "without traces nobody knows how sure it is"


def test_a_board_keeps_of_its_runs_what_it_shows_alone(runs: list[Path], tmp_path: Path) -> None:
    """Replicates take megabytes of every run; a board may have hundreds."""
    gathered = gather(runs[:2], departures_of)
    write_board(gathered, tmp_path, reports=False)
    for entry in gathered.entries:
        assert "doubt" not in entry.results.known
        assert entry.rows["p_best"].notna().all()


def test_a_fall_beyond_the_interval_is_a_regression_and_commits_are_ordered_by_date(data: dict) -> None:
    (history,) = data["histories"]
    assert [one["run"] for one in history["commits"]] == ["first", "later"]
    (step,) = history["steps"]
    assert {cell["method"] for cell in step["regressions"]} == {"AdaBN"}
    assert all(cell["hi"] < 0 for cell in step["regressions"])
    assert step["gains"] == []


def test_names_are_text(board: Path) -> None:
    page = (board / "index.html").read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;window.stolen" in page
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)


def test_what_does_not_verify_is_refused_with_the_reason(runs: list[Path], tmp_path: Path) -> None:
    touched = tmp_path / "touched.tempora"
    touched.write_bytes(runs[3].read_bytes()[:-40])
    edited = Path(shutil.copytree(runs[1], tmp_path / "edited"))
    text = (edited / "run.json").read_text()
    (edited / "run.json").write_text(text.replace('"a_net"', '"c_net"'))
    out = tmp_path / "site"
    asked = ["board", *map(str, [runs[1], touched, edited]), "--out", str(out), "--no-reports"]
    said = CliRunner().invoke(app, asked)
    assert said.exit_code == 1
    assert re.sub(r"\s+", " ", said.output).count("refused") == 2
    refused = json.loads((out / "board.json").read_text())["refused"]
    assert [Path(one["path"]).name for one in refused] == ["touched.tempora", "edited"]
    assert "damaged or no pack" in refused[0]["reason"]
    assert "was changed after Tempora wrote it" in refused[1]["reason"]
    assert "touched.tempora" in (out / "index.html").read_text()


def forged(run: Path, target: Path, **changes) -> Path:
    """A pack whose checksums all fit, by somebody who has our code."""
    folder = RunFolder(shutil.copytree(run, target / "forged"))
    folder.write_manifest(folder.manifest() | changes)
    members = {
        path.relative_to(folder.path).as_posix(): path.read_bytes()
        for path in sorted(folder.path.rglob("*"))
        if path.suffix in (".json", ".parquet")
    }
    files = {name: {"bytes": len(data), "sha256": sha256(data).hexdigest()} for name, data in members.items()}
    told = {"format": 1, "tempora": "0.1.0", "traces": True, "files": files}
    members["pack.json"] = json.dumps({**told, "checksum": checksum(told)}).encode()
    with zipfile.ZipFile(target / "forged.tempora", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target / "forged.tempora"


ODD = {
    "stream": ({"stream": "x"}, "'stream' is 'x'"),
    "suite of the configuration": ({"config": {"suite": {}}}, "'config.suite' is {}"),
    "cards": ({"cards": {"methods": {"tent": {"colour": "no colour"}}}}, "colour"),
    "machine": ({"machine": {"versions": {"torch": "2"}, "cpu": {"a": 1}, "threads": []}}, None),
    "scenarios": ({"scenarios": [{"protocol": "offline"}, {"protocol": "discrete"}]}, "Discrete: needs"),
}


@pytest.mark.parametrize(("changes", "said"), ODD.values(), ids=ODD)
def test_one_odd_pack_does_not_keep_the_others_from_the_board(
    runs: list[Path], tmp_path: Path, changes: dict, said: str | None
) -> None:
    odd, out = forged(runs[1], tmp_path, **changes), tmp_path / "site"
    asked = ["board", str(odd), str(runs[0]), "--out", str(out), "--no-reports"]
    done = CliRunner().invoke(app, asked)
    data = json.loads((out / "board.json").read_text())
    assert "later" in [run["name"] for run in data["runs"]], done.output
    if said is not None:
        assert done.exit_code == 1
        (refused,) = data["refused"]
        assert Path(refused["path"]) == odd
        assert said in refused["reason"]
        assert "tempora-pack-" not in refused["reason"]


def test_what_only_a_report_notices_refuses_the_run_too(
    runs: list[Path], tmp_path: Path, monkeypatch
) -> None:
    def fails(results: Results, path: Path) -> None:
        if "first" in str(results.opened_from):
            raise TypeError("a surprise")
        path.write_text("a report")

    monkeypatch.setattr("tempora_tta.report.board.site.write_report", fails)
    gathered = gather(runs[:3], departures_of)
    board = write_board(gathered, tmp_path)
    assert [entry.name for entry in gathered.entries] == ["later", "other device"]
    assert board.reports == 2
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == ["run-1.html", "run-2.html"]
    (refused,) = gathered.refused
    assert "it holds what no run leaves" in refused.reason
    assert "a surprise" in refused.reason


def test_a_pack_that_its_own_traces_contradict_does_not_lead_the_board(
    runs: list[Path], tmp_path: Path
) -> None:
    folder = RunFolder(shutil.copytree(runs[1], tmp_path / "better"))
    table = folder.utilities()
    tent = (table["method"] == "tent") & (table["protocol"] == "offline")
    for name in ("utility", "utility_lo", "utility_hi", "adapt_accuracy", "accuracy", "served_accuracy"):
        table.loc[tent, name] = 0.99
    folder.write_utilities(table)
    odd = forged(folder.path, tmp_path)
    gathered = gather([odd, folder.path, runs[0]], departures_of)
    assert [entry.name for entry in gathered.entries] == ["later"]
    assert "tent on fog, offline: its batches give utility" in gathered.refused[0].reason
    assert "does not verify" in gathered.refused[1].reason


def test_files_that_cannot_be_checked_are_refused(runs: list[Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(runs[1], tmp_path / "unchecked"))
    told = json.loads((folder / "run.json").read_text())
    del told["checksum"]
    (folder / "run.json").write_text(json.dumps({**told, "model": "c_net"}))
    gathered = gather([folder, runs[0]], departures_of)
    ((_, reason),) = gathered.refused
    assert "run.json has no checksum" in reason
    assert "let the same command make the run again, in a new folder" in reason


def test_a_run_that_comes_again_stands_there_once(runs: list[Path], tmp_path: Path) -> None:
    packed = pack(runs[1], tmp_path / "sent.tempora")
    small = pack(runs[1], tmp_path / "small.tempora", traces=False)
    out = tmp_path / "site"
    asked = ["board", *map(str, [runs[1], runs[1], packed, small]), "--out", str(out), "--no-reports"]
    said = CliRunner().invoke(app, asked)
    assert said.exit_code == 0, said.output
    assert said.output.count("it is the same run as first") == 3
    data = json.loads((out / "board.json").read_text())
    assert len(data["runs"]) == 1
    assert len(data["repeated"]) == 3


def test_reports_of_an_earlier_board_go_and_other_files_stay(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    for name in ("run-2.html", "run-13.html", "run-mine.html", "notes.html"):
        (tmp_path / "reports" / name).write_text("")
    write_board(gather(runs[:1], departures_of), tmp_path, reports=False)
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == ["notes.html", "run-mine.html"]


def test_without_traces_a_winner_is_as_sure_as_its_run_says(runs: list[Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(runs[1], tmp_path / "judged"))
    keep_doubt(open_run(folder))
    packs = [pack(folder, tmp_path / f"{traces}.tempora", traces=traces) for traces in (True, False)]
    with_traces, without = (rows_of([file], tmp_path / file.stem) for file in packs)
    for one, other in zip(with_traces, without, strict=True):
        assert one["verdict"] == other["verdict"]
        assert one["sample_lo"] == pytest.approx(other["sample_lo"])


def test_without_traces_nobody_knows_how_sure_a_winner_over_shifts_is(tmp_path: Path) -> None:
    results = write_run(tmp_path / "run", methods=FEW, scenarios=SCENARIOS)
    keep_doubt(results)
    rows = rows_of([pack(results.path, traces=False)], tmp_path / "site")
    assert {row["verdict"] for row in rows if row["rank"] == 1} == {"unknown"}


def rows_of(files: list[Path], out: Path) -> list[dict]:
    write_board(gather(files, departures_of), out, reports=False)
    return json.loads((out / "board.json").read_text())["rows"]


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TemporaError, match="none of 1 runs can stand on a board"):
        gather([tmp_path], departures_of)


def claiming(run: Path, place: Path, **changes) -> Results:
    """The run, written again with another manifest, as somebody could who has Tempora's own code."""
    folder = RunFolder(shutil.copytree(run, place))
    folder.write_manifest(folder.manifest() | changes)
    return Results(folder)


def test_a_run_that_is_not_the_suite_it_names_says_how(runs: list[Path], tmp_path: Path) -> None:
    claim = claiming(runs[1], tmp_path / "claim", suite="tempora-fashion-v1/resnet")
    found = departures_of(claim)
    assert "batch_size is None instead of 64" in found
    assert "fog has other images" in found
    assert "fashion_resnet has other weights" in found
    assert departures_of(claiming(runs[1], tmp_path / "none")) == []
    (unknown,) = departures_of(claiming(runs[1], tmp_path / "unknown", suite="tempora-v9/x"))
    assert "no suite" in unknown
    with pytest.raises(TemporaError, match="departs from the suite"):
        gather([tmp_path / "claim"], departures_of)


def suited(place: Path, **changes) -> Results:
    """Made-up numbers that call themselves a suite, as somebody would write them who has our code and the suite's
    file: one shift of it, of other lengths."""
    suite = yaml.safe_load(file_of(SUITES[SUITE]).read_text())
    pins = json.loads((file_of(SUITES[SUITE]).parent / "pins.json").read_text())
    common = {
        "weights": pins["weights"]["fashion_resnet"],
        "data": pins["data"]["frost"],
        "model": suite["model"],
        "preset": None,
    }
    settings = {"standard": {}, "adabn": {}, "tent": {"lr": 0.0025}}
    about = {
        "methods": FEW,
        "shifts": ("frost",),
        "seeds": (2025,),
        "scenarios": (Offline(), *grid("relative")),
        "model": suite["model"],
        "batches": 78,
        "batch_size": 64,
        "identity": {name: {"settings": settings[name], **common} for name in FEW},
        "stream": {"kind": "single", "batches": 78},
        "config": suite,
        "suite": SUITE,
    }
    return write_run(place, **(about | changes))


WHAT_WAS_RUN = {
    "one shift of five": ({}, "it ran other shifts"),
    "smaller batches": ({"batch_size": 50}, "it ran other batch_size"),
    "another seed": ({"seeds": (1,)}, "it ran other seeds"),
    "fewer scenarios": ({"scenarios": SCENARIOS}, "it ran other scenarios"),
    "another stream": ({"stream": {"kind": "single", "batches": 78, "classes": "sorted"}}, "another stream"),
    "another setting": ({"identity": {"tent": {"settings": {"lr": 0.1}}}}, "tent ran with other settings"),
}


@pytest.mark.parametrize(("changes", "said"), WHAT_WAS_RUN.values(), ids=WHAT_WAS_RUN)
def test_a_suite_is_what_was_run_and_not_what_the_configuration_says(
    tmp_path: Path, changes: dict, said: str
) -> None:
    found = departures_of(suited(tmp_path / "claim", **changes))
    assert any(said in text for text in found), found


def test_fewer_batches_than_run_json_says_are_noticed(tmp_path: Path) -> None:
    folder = suited(tmp_path / "claim", batches=40).folder
    folder.write_manifest(folder.manifest() | {"batches": {"frost": 78}})
    assert "frost ran in other batches" in departures_of(Results(folder))


def test_a_claim_that_fits_departs_in_nothing_but_what_is_missing(tmp_path: Path) -> None:
    assert departures_of(suited(tmp_path / "claim")) == ["it ran other shifts", "it ran other batches"]


def test_methods_of_a_suite_keep_its_settings_and_others_are_free(runs: list[Path], tmp_path: Path) -> None:
    given = [{"name": "tent", "label": "", "lr": 0.1}, "mine:Method", {"name": "eta", "lr": 0.0025}]
    config = {"suite": "tempora-fashion-v1/resnet", "methods": given}
    found = departures_of(claiming(runs[1], tmp_path / "claim", config=config))
    assert [text for text in found if "has other settings" in text] == ["tent has other settings"]


def test_a_board_needs_no_torch(runs: list[Path], tmp_path: Path) -> None:
    words = ["board", str(runs[1]), "--out", str(tmp_path), "--no-reports"]
    code = f"from tempora_tta.cli import app\napp({words!r}, standalone_mode=False)"
    assert "torch" not in modules_loaded_by(code)


def told_of(tmp_path: Path, *runs: Path) -> dict:
    write_board(gather(runs, departures_of), tmp_path / "site", reports=False)
    return json.loads((tmp_path / "site" / "board.json").read_text())


def of(
    path: Path, identity=None, scenarios=SCENARIOS, methods=FEW, clock="measured", commit="a", **about
) -> Path:
    """A run whose settings, clock or data are its own."""
    day = "0123456789abcdef".index(commit) + 1
    machine = {"commit": commit * 40, "commit_date": f"2026-11-{day:02}T00:00:00+00:00"}
    kinds = {"identity": identity, "scenarios": scenarios, "methods": methods, "clock": clock}
    write_run(path, shifts=("fog",), machine=machine, **kinds, **about)
    return path


def test_a_change_of_settings_is_no_regression_of_the_code(tmp_path: Path) -> None:
    before = of(tmp_path / "before", {"tent": {"settings": {"lr": 0.001}}})
    fallen = WORSE | {"tent": METHODS["tent"]._replace(accuracy=0.35)}
    after = of(tmp_path / "after", {"tent": {"settings": {"lr": 10}}}, methods=fallen, commit="b")
    told = told_of(tmp_path, before, after)
    ((step,),) = (history["steps"] for history in told["histories"])
    assert {cell["method"] for cell in step["regressions"]} == {"AdaBN"}
    assert step["other_settings"] == [{"method": "Tent", "how": "lr 0.001 here and 10 there"}]
    page = (tmp_path / "site" / "index.html").read_text()
    assert "Other settings, so not compared: Tent (lr 0.001 before and 10 after)" in page


def test_other_weights_begin_another_history(tmp_path: Path) -> None:
    weights = {name: {"weights": "0ther"} for name in FEW}
    told = told_of(tmp_path, of(tmp_path / "a"), of(tmp_path / "b", weights, commit="b"))
    assert told["histories"] == []
    assert [run["configuration"] for run in told["runs"]] == [0, 1]


def test_two_machines_with_a_file_of_one_name_are_two_devices(tmp_path: Path) -> None:
    config = {"clock": "profile.json"}
    profiles = [{"name": "x", "id": name * 4, "device": f"CPU {name}"} for name in "ab"]
    runs = [
        of(tmp_path / one["id"], clock=f"recorded:{one['id']}", config=config, profile=one)
        for one in profiles
    ]
    runs.append(of(tmp_path / "earlier", clock="recorded:cccc", config=config))
    told = told_of(tmp_path, *runs)
    assert [run["device"] for run in told["runs"]] == [
        "CPU a, profile aaaa",
        "CPU b, profile bbbb",
        "profile.json, profile cccc",
    ]


def test_queues_and_rules_that_are_not_the_usual_ones_are_part_of_the_name(tmp_path: Path) -> None:
    grids = {
        "usual": (Offline(), Discrete(utilisation=0.7), Amortised(budget_ms=60.0)),
        "other": (Offline(), Discrete(utilisation=0.7, queue=4), Amortised(budget_ms=60.0, rule="overshoot")),
    }
    told = told_of(tmp_path, *(of(tmp_path / name, scenarios=grid) for name, grid in grids.items()))
    named = [{row["scenario"] for row in told["rows"] if row["run"] == number} for number in (0, 1)]
    assert named[0] == {"offline", "ρ 70 %", "B 0.06 s"}
    assert named[1] == {"offline", "ρ 70 %, queue 4", "B 0.06 s, overshoot"}


def test_severity_and_batch_size_tell_runs_apart(tmp_path: Path) -> None:
    runs = [of(tmp_path / "five"), of(tmp_path / "one", severity=1), of(tmp_path / "small", batch_size=40)]
    told = told_of(tmp_path, *runs)
    assert [(run["severity"], run["batch_size"]) for run in told["runs"]] == [
        ("5", "50"),
        ("1", "50"),
        ("5", "40"),
    ]
    assert [run["configuration"] for run in told["runs"]] == [0, 1, 2]


def test_oracles_stand_on_the_board_without_a_rank(tmp_path: Path) -> None:
    run = of(tmp_path / "run")
    with RunFolder.for_writing(run) as folder:
        table = folder.utilities()
        best = table.groupby(table["method"])["utility"].mean().idxmax()
        is_best = table["method"] == best
        folder.write_utilities(table.assign(oracle=is_best, rank=table["rank"].where(~is_best)))
        folder.write_manifest(folder.manifest())
    told = told_of(tmp_path, run)
    oracles = [row for row in told["rows"] if row["oracle"]]
    assert {row["method"] for row in oracles} == {best}
    assert all(row["rank"] is None and row["utility"] is not None for row in oracles)
    assert {row["method"] for row in told["rows"] if row["rank"] == 1} <= set(FEW) - {best}
