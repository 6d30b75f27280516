"""The commands that read results: show, recommend, compare and list."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from made_runs import METHODS, Pace, write_run
from tempora_tta import analysis
from tempora_tta.cli.compare import compare
from tempora_tta.cli.list_ import list_
from tempora_tta.cli.recommend import recommend
from tempora_tta.cli.show import show
from tempora_tta.errors import TemporaError
from tempora_tta.report import tables
from tempora_tta.results import open_runs
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline
from tempora_tta.store import Results, open_run

app = typer.Typer(pretty_exceptions_enable=False)
for name, command in (
    ("show", show),
    ("recommend", recommend),
    ("compare", compare),
    ("list", list_),
):
    app.command(name)(command)

FEW = (Offline(), Discrete(interval_ms=10.0), Continuous(threshold_ms=15.0), Amortised(budget_ms=60.0))


def tempora(*arguments: str | Path) -> str:
    """Run a command on a terminal of 80 columns and return what it prints; its errors are raised."""
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, TemporaError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    write_run(folder, scenarios=FEW)
    return folder


# -- show ------------------------------------------------------------------------------------------------------


def test_overhead_is_read_without_replaying_any_cell(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = open_run(run)
    expected = tables.render(tables.build("overhead", results.utilities, results.traces), "csv")
    monkeypatch.delattr(Results, "trace")
    assert tempora("show", run, "--table", "overhead", "--format", "csv").strip() == expected.strip()


def test_a_damaged_pass_of_a_user_s_own_method_leaves_the_table_readable(tmp_path: Path) -> None:
    write_run(tmp_path, methods={"standard": METHODS["standard"], "lab:Mine": METHODS["tent"]}, scenarios=FEW)
    next((tmp_path / "traces").glob("*Mine*")).write_bytes(b"PAR1")
    assert set(open_run(tmp_path).utilities["method"]) == {"standard", "lab:Mine"}


def test_the_overview_of_one_shift_has_its_numbers(run: Path) -> None:
    overview = tempora("show", run, "--shift", "fog")
    whole = tempora("show", run)
    for name in ("winners", "sweep"):
        table = tempora("show", run, "--shift", "fog", "--table", name).partition("\n\nBy shift:")[0].strip()
        assert table in overview
        assert table not in whole


def test_everything_that_the_overview_says_is_valid_json(run: Path) -> None:
    told = json.loads(tempora("show", run, "--format", "json"), parse_constant=pytest.fail)
    assert len(told["answers"]) == len(FEW)
    for one in told["answers"]:
        assert one["method"] == one["ranking"][0]["method"]
    answer = json.loads(
        tempora("recommend", run, "--interval-ms", "10", "--format", "json"), parse_constant=pytest.fail
    )
    assert answer["method"] == "adabn"
    assert (
        answer["ranking"][0]["utility_lo"]
        < answer["ranking"][0]["utility"]
        < answer["ranking"][0]["utility_hi"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shift", "fgo"], "unknown shift of this run 'fgo': did you mean 'fog'"),
        (["--by-shift"], "--by-shift: .*--table with one of offline, discrete, continuous, amortised"),
        (["--scenario", "x"], "--scenario is about one table: say which with --table"),
        (["--format", "csv"], "--format csv is about one table"),
    ],
)
def test_what_the_overview_cannot_show_is_said(run: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        tempora("show", run, *arguments)


def test_several_runs_are_one_thing(run: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "other", scenarios=FEW, luck=3)
    paths = [run, tmp_path / "other"]
    rows = list(csv.DictReader(io.StringIO(tempora("show", *paths, "--table", "sweep", "--format", "csv"))))
    assert {row["run"] for row in rows} == {"run", "other"}
    told = json.loads(tempora("show", *paths, "--format", "json"))
    assert {name: one["about"]["run"] for name, one in told.items()} == {
        path.name: str(path) for path in paths
    }
    both = open_runs(paths)
    assert set(both) == {"run", "other"}
    cells = both.cells
    assert len(cells) == sum(len(one.cells) for one in both.values())
    found = analysis.across_machines(cells, "run")
    assert set(found["run"]) == {"run", "other"}
    assert set(both.winners()["run"]) == {"run", "other"}


# -- recommend -------------------------------------------------------------------------------------------------


def test_frames_are_not_batches(run: Path) -> None:
    """50 frames of 10 cameras at 500 frames per second come every 10 ms, and the first of them waited 9.8 ms."""
    by_frame = json.loads(tempora("recommend", run, "--fps", "500", "--cameras", "10", "--format", "json"))
    by_batch = json.loads(tempora("recommend", run, "--interval-ms", "10", "--format", "json"))
    assert by_frame["setting"]["interval_ms"] == by_batch["setting"]["interval_ms"] == 10.0
    assert by_frame["setting"]["fill_ms"] == pytest.approx(9.8)
    assert by_frame["method"] == by_batch["method"]
    waits = [one["ranking"][0]["first_wait_ms"] for one in (by_frame, by_batch)]
    assert waits[0] == pytest.approx(waits[1] + 9.8)


def test_a_rate_is_of_images_and_not_of_batches(run: Path) -> None:
    told = json.loads(tempora("recommend", run, "--rate-hz", "1000", "--format", "json"))
    assert told["setting"]["interval_ms"] == pytest.approx(1000 * 50 / 1000)


def test_a_budget_is_seconds_or_a_share_of_plain_computing(run: Path) -> None:
    """40 batches of 10 ms: 15 % of that are 60 ms."""
    seconds, share = (
        json.loads(tempora("recommend", run, "--budget", text, "--format", "json"))
        for text in ("0.06", "15%")
    )
    assert seconds["setting"]["budget_share"] == pytest.approx(0.15)
    assert share["setting"]["budget_s"] == pytest.approx(0.06)
    assert [row["utility"] for row in seconds["ranking"]] == [row["utility"] for row in share["ranking"]]


def test_any_limit_combines_with_any_pace(run: Path) -> None:
    told = json.loads(
        tempora(
            *("recommend", run, "--fps", "50", "--cameras", "20", "--within-ms", "100", "--budget", "50%"),
            *("--p90-ms", "90", "--availability", "0.9", "--shifts", "fog", "--format", "json"),
        )
    )
    assert told["about"]["shifts"] == ["fog"]
    assert all(row["p90_ms"] <= 90 and row["answered"] >= 0.9 for row in told["ranking"])


def test_the_command_that_measures_is_one_line_and_adds_the_scenario(tmp_path: Path) -> None:
    """The follow-up is the run's own configuration plus the scenario that was asked for."""
    from tempora_tta.scenarios import from_spec

    write_run(tmp_path, methods={"tent": METHODS["tent"]}, scenarios=[Offline()], config={"scenarios": []})
    told = json.loads(tempora("recommend", tmp_path, "--fps", "200", "--cameras", "20", "--format", "json"))
    assert (told["fits"], told["method"]) == ("unknown", None)
    words = shlex.split(told["follow_up"])
    assert words[:4] == ["tempora", "run", str(tmp_path), "--scenario"]
    assert from_spec(yaml.safe_load(words[4])).label == "20 × 200 frames/s"
    assert (
        told["follow_up"]
        in tempora("recommend", tmp_path, "--fps", "200", "--cameras", "20").splitlines()[-1]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no deployment given"),
        (["--interval-ms", "10", "--fps", "1"], "--interval-ms and --fps are different deployments"),
        (
            ["--within-ms", "10", "--patience-ms", "1"],
            "--within-ms and --patience-ms are different deployments",
        ),
        (["--fps", "0"], "--fps 0.0: must be a number above 0"),
        (["--interval-ms", "-5"], "--interval-ms -5.0: must be a number above 0"),
        (["--interval-ms", "10", "--shifts", "fgo"], "did you mean 'fog'"),
        (["--interval-ms", "10", "--cameras", "3"], "--cameras 3: only with --fps"),
        (["--patience-ms", "33", "--queue", "5"], "--queue 5: only with --interval-ms, --fps or --rate-hz"),
        (["--budget", "half"], "--budget half: write seconds"),
        (["--interval-ms", "50", "--p99-ms", "60"], "p99: not known from 80 responses, it takes 299"),
    ],
)
def test_questions_that_make_no_sense(run: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        tempora("recommend", run, *arguments)


def test_limits_without_a_pace_give_the_highest_rate_of_each_method(run: Path) -> None:
    told = json.loads(tempora("recommend", run, "--p99-ms", "60", "--format", "json"))
    rates = [row["images_per_s"] for row in told["ranking"]]
    assert [row["method"] for row in told["ranking"]] == ["standard", "adabn", "lame", "tent", "sar"]
    assert rates == sorted(rates, reverse=True)
    none = json.loads(tempora("recommend", run, "--p99-ms", "5", "--format", "json"))
    assert none["fits"] == "no"


# -- compare ---------------------------------------------------------------------------------------------------


def test_two_runs_side_by_side(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write_run(here, scenarios=FEW, clock="measured")
    better = {**METHODS, "adabn": Pace(10.5, 0.0, 0.70)}
    write_run(there, scenarios=FEW, clock="measured", methods=better, machine={"gpu": "Big GPU"})
    text = one_line(tempora("compare", here, there))
    assert "machine is Some CPU, 2 threads here and Big GPU there" in text
    assert "4 of 20 numbers changed for certain, 0 undecided" in text
    assert "When time is unlimited, SAR wins here and AdaBN there." in text
    assert "+26.0*" in text
    assert "The same methods win in all 4 settings." in one_line(tempora("compare", here, here))


def test_comparisons_to_paste_and_to_process(run: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(tempora("compare", run, run, "--format", "csv"))))
    assert len(rows) == 20
    assert {row["change"] for row in rows} == {"same"}
    assert len(json.loads(tempora("compare", run, run, "--format", "json"))) == 20
    assert r"\toprule" in tempora("compare", run, run, "--format", "latex")
    assert "| Method |" in tempora("compare", run, run, "--format", "markdown")


@pytest.fixture(scope="module")
def like_the_paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    write_run(folder, scenarios=[*FEW, Continuous(threshold_ms=50.0)])
    return folder


def test_a_run_compared_with_the_paper(like_the_paper: Path) -> None:
    text = one_line(tempora("compare", like_the_paper, "--published", "rn50_inc"))
    assert "numbers next to rn50_inc: mean absolute difference" in text
    assert "known inconsistency 5" in text
    assert "other weights, preprocessing or data" in text
    assert "Offline: utility (%) and rank among the common methods" in text
    assert "Continuous, T 50 ms" in text
    assert "snow fog" in text, "in the paper's order"


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    """Two methods have no rank correlation, and neither wins anywhere in the paper."""
    few = {name: METHODS[name] for name in ("standard", "lame")}
    write_run(tmp_path, methods=few, scenarios=[Offline()], shifts=("fog",))
    text = one_line(tempora("compare", tmp_path, "--published", "rn50_inc"))
    assert "no published winner took part, so who wins cannot be compared" in text
    assert "no scenario has the three methods that a rank correlation takes" in text
    assert "nan" not in text


def test_known_misprints_are_marked(tmp_path: Path) -> None:
    """Tent at 40 s on ImageNet-V2 repeats another budget's number."""
    budget = Amortised(budget_ms=40000.0, rule="overshoot")
    write_run(tmp_path, scenarios=[Offline(), budget], shifts=("imagenet_v2",))
    text = tempora("compare", tmp_path, "--published", "vit_inv2")
    assert "known inconsistency 1: repeats the value of B = 2.5 s" in one_line(text)
    tent = next(line for line in text.split("Amortised")[1].splitlines() if line.startswith("Tent"))
    assert "‡" in tent
    assert "1 of them are next to printed numbers that contradict" in one_line(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "compare takes one other thing"),
        (["RUN", "--published", "rn50_inc"], "compare takes one other thing"),
        (["--published", "rn50_inc2"], "did you mean 'rn50_inc'"),
        (["nowhere"], "is not a run folder"),
        (["RUN", "--by-shift"], "--by-shift is about the paper's tables"),
    ],
)
def test_comparisons_that_make_no_sense(run: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        tempora("compare", run, *(str(run) if word == "RUN" else word for word in arguments))


# -- list ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        ("methods", ["shot_im", "SHOT-IM, gradient-based; modifies parameters", "modifies nothing"]),
        ("models", ["fashion_vit", "ships with Tempora", "timm: resnet50.tv_in1k"]),
        ("datasets", ["imagenet_c", "about 75 GB", "https://zenodo.org", "goes to"]),
        ("scenarios", ["interval_ms, or utilisation", "grid paper-vit", "B 80 s"]),
        ("clocks", ["steady", "measured", "published:rn50_inc", "λ 39.9 ms"]),
    ],
)
def test_lists_fit_80_columns_and_explain(what: str, parts: list[str]) -> None:
    text = tempora("list", what)
    assert max(map(len, text.splitlines())) <= 80
    for part in parts:
        assert part in one_line(text)
