"""The commands that read results: show, recommend, compare and list."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from made_runs import METHODS, Pace, write_run
from tempora_tta.cli.compare import compare
from tempora_tta.cli.list_ import list_
from tempora_tta.cli.peak import peak
from tempora_tta.cli.recommend import measuring_command, recommend
from tempora_tta.cli.show import show
from tempora_tta.errors import TemporaError
from tempora_tta.report import tables
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline
from tempora_tta.store import Results, open_run

app = typer.Typer(pretty_exceptions_enable=False)
for name, command in (
    ("show", show),
    ("recommend", recommend),
    ("peak", peak),
    ("compare", compare),
    ("list", list_),
):
    app.command(name)(command)

FEW = (Offline(), Discrete(interval_ms=10.0), Continuous(threshold_ms=15.0), Amortised(budget_ms=60.0))


def tempora(*arguments: str | Path) -> str:
    """What a command prints, on a terminal of 80 columns; its errors are raised."""
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


def test_a_run_that_is_not_judged_yet_is_shown(tmp_path: Path) -> None:
    write_run(tmp_path, scenarios=FEW, finished=False, judged=False)
    assert "no verdict yet" in tempora("show", tmp_path).splitlines()


def test_a_damaged_pass_of_a_user_s_own_method_leaves_the_table_readable(tmp_path: Path) -> None:
    write_run(tmp_path, methods={"standard": METHODS["standard"], "lab:Mine": METHODS["tent"]}, scenarios=FEW)
    next((tmp_path / "traces").glob("*Mine*")).write_bytes(b"PAR1")
    assert set(open_run(tmp_path).utilities["method"]) == {"standard", "lab:Mine"}


def test_the_overview_of_one_shift_has_its_numbers(run: Path) -> None:
    overview = tempora("show", run, "--shift", "fog")
    for name in ("winners", "sweep"):
        table = tempora("show", run, "--shift", "fog", "--table", name)
        assert table.rstrip().rpartition("\n\n")[0].strip() in overview, "below it: how sure it is"
        assert table.partition("VALID")[0].strip() not in tempora("show", run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shift", "fgo"], "unknown shift 'fgo': did you mean 'fog'"),
        (["--by-shift"], "--by-shift: .*--table with one of offline, discrete, continuous, amortised"),
        (["--scenario", "x"], "--scenario is about one table: say which with --table"),
        (["--format", "csv"], "--format csv is about one table"),
    ],
)
def test_what_the_overview_cannot_show_is_said(run: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        tempora("show", run, *arguments)


# -- recommend -------------------------------------------------------------------------------------------------


def test_recommend_says_what_to_use_and_why(run: Path) -> None:
    text = one_line(tempora("recommend", run, "--interval-ms", "10"))
    assert "A batch of 50 every 10 ms (utilisation 100 %), 1 may wait; λ 10.0 ms; all shifts" in text
    assert "Use AdaBN: utility" in text
    assert "Runner-up: Standard" in text
    assert "within-stream 95 % interval" in text
    assert "Why: AdaBN serves" in text
    assert "Insolvent: SAR. Even with every prediction right they would lose to AdaBN." in text
    assert re.search(r"SAR [\d. ]+ never evaluated", text), "no accuracy is above 100 %"
    assert "evaluated" in text


def test_cameras_become_an_interval(run: Path) -> None:
    """50 frames of 10 cameras at 500 frames per second: a batch every 10 ms."""
    by_fps = tempora("recommend", run, "--fps", "500", "--cameras", "10")
    assert by_fps == tempora("recommend", run, "--interval-ms", "10")


def test_recommend_takes_patience_budgets_shifts_and_queues(run: Path) -> None:
    assert "worth half after 33 ms" in tempora("recommend", run, "--threshold-ms", "33")
    assert "B 0.06 s of overhead, rule strict" in tempora("recommend", run, "--budget-s", "0.06")
    assert "all shifts" not in tempora("recommend", run, "--threshold-ms", "33", "--shift", "fog")
    assert "0 may wait" in one_line(tempora("recommend", run, "--interval-ms", "10", "--queue", "0"))


def test_what_has_no_exact_answer_is_said_with_what_would_measure_it(run: Path) -> None:
    text = one_line(tempora("recommend", run, "--interval-ms", "12"))
    assert "Use AdaBN, best of the 3 of 5 methods with an exact answer" in text
    assert "No exact answer, and none is made up: Tent, SAR: it would skip batches" in text
    assert "call tempora.evaluate again with Discrete(interval_ms=12.0)" in text


def test_a_run_that_can_say_nothing_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    config = {"scenarios": [], "data": {"shifts": ["fog"]}}
    write_run(tmp_path, methods={"tent": METHODS["tent"]}, scenarios=[Offline()], config=config)
    with pytest.raises(
        TemporaError, match=r"no exact answer for any method(.|\n)*tempora run .*--shifts fog"
    ):
        tempora("recommend", tmp_path, "--interval-ms", "10")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no deployment given: say one of --interval-ms, --fps, --rate-hz, --threshold-ms, --budget-s"),
        (
            ["--interval-ms", "10", "--budget-s", "1"],
            "--interval-ms and --budget-s are different deployments",
        ),
        (["--fps", "0"], "both must be above 0"),
        (["--interval-ms", "-5"], "interval_ms=-5.0: must be a finite number above 0"),
        (["--threshold-ms", "5"], "is not above baseline_ms=10"),
        (["--interval-ms", "10", "--shift", "fgo"], "did you mean 'fog'"),
        (["--interval-ms", "10", "--queue", "-1"], "queue=-1"),
        (["--interval-ms", "10", "--cameras", "3"], "--cameras 3: only with --fps; leave it out"),
        (
            ["--threshold-ms", "33", "--queue", "5"],
            "--queue 5: only with --interval-ms or --fps or --rate-hz; leave it out",
        ),
        (["--budget-s", "1", "--cameras", "3"], "--cameras 3: only with --fps"),
    ],
)
def test_questions_that_make_no_sense(run: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        tempora("recommend", run, *arguments)


def test_requirements_exclude_and_say_why(tmp_path: Path) -> None:
    write_run(tmp_path, scenarios=FEW, seeds=(1, 2, 3, 4))
    text = one_line(
        tempora("recommend", tmp_path, "--rate-hz", "30", "--p99-ms", "60", "--availability", "0.99")
    )
    assert "Use AdaBN" in text
    assert "Required: p99 at most 60 ms, availability at least 0.99. Excluded: Tent, its p99 is" in text
    assert "p99 ms" in text
    at_half_load = one_line(tempora("recommend", tmp_path, "--p99-ms", "60"))
    assert at_half_load.startswith("A deployment of your own: Poisson ρ 50 %, queue 16; λ 10.0 ms")
    assert "Every method with an answer has it" in tempora(
        "recommend", tmp_path, "--interval-ms", "50", "--p90-ms", "60"
    )


def test_requirements_on_few_responses(run: Path) -> None:
    with pytest.raises(TemporaError, match="p99: not known from 80 responses, it takes 299"):
        tempora("recommend", run, "--interval-ms", "50", "--p99-ms", "60")


def test_ties_are_called_ties(tmp_path: Path) -> None:
    same = {"standard": METHODS["standard"], "stand-in": METHODS["standard"]}
    write_run(tmp_path / "same", methods=same, scenarios=FEW)
    assert "Tie: stand-in gets exactly the same" in tempora(
        "recommend", tmp_path / "same", "--threshold-ms", "20"
    )
    write_run(tmp_path / "unsure", scenarios=FEW, uncertainty=0.5)
    text = one_line(tempora("recommend", tmp_path / "unsure", "--threshold-ms", "15"))
    assert "is undecided by timing: " in text
    assert " may be better." in text


def test_the_command_is_the_run_with_one_scenario_more() -> None:
    """What the command line would make of it is the configuration that the run had, and the scenario."""
    from tempora_tta.config import checked
    from tempora_tta.engine.load_config import load_config

    config = checked(
        {
            "data": {"dataset": "fashion", "shifts": ["fog", "snow"], "severity": 3},
            "methods": ["standard", {"name": "tent", "label": "tent fast", "lr": 0.1}],
            "scenarios": [{"protocol": "continuous", "threshold_ms": 80.0}],
            "batches": 10,
            "share": False,
            "seeds": [1, 2],
            "clock": "published:rn50_inc",
        }
    ).plain()
    asked = {"protocol": "discrete", "interval_ms": 60.0}
    words = shlex.split(measuring_command(config, asked, Path("runs/my run")))
    assert words[:2] == ["tempora", "run"]
    assert words[-2:] == ["--out", "runs/my run"]
    flags: dict[str, Any] = {"--shifts": "data.shifts", "--batches": "batches", "--clock": "clock"}
    given, overrides = {}, []
    for flag, value in zip(words[2:-2:2], words[3:-2:2], strict=True):
        if flag == "--set":
            overrides.append(value)
        elif flag == "--seeds":
            given["seeds"] = [int(seed) for seed in value.split(",")]
        else:
            given[flags[flag]] = value
    again = load_config(None, overrides, given).plain()
    assert again == {**config, "scenarios": [*config["scenarios"], asked]}


# -- peak ------------------------------------------------------------------------------------------------------


def test_peak_shows_a_rate_per_method(run: Path) -> None:
    text = tempora("peak", run, "--p99-ms", "60")
    assert "99 % of all batches are answered within 60 ms" in one_line(text)
    assert "1,040 arrivals, each stream 13 times with other arrivals" in one_line(text)
    assert all(len(line) <= 80 for line in text.splitlines())
    places = [text.index(name) for name in ("Standard", "AdaBN", "LAME", "Tent", "SAR")]
    assert places == sorted(places)


def test_peaks_that_a_replay_does_not_decide_are_marked(run: Path) -> None:
    text = tempora("peak", run, "--p99-ms", "60", "--queue", "1", "--methods", "adabn,tent")
    adabn, tent = (next(line for line in text.splitlines() if name in line) for name in ("AdaBN", "Tent"))
    assert "replayed" in adabn
    assert "≈" in tent
    assert "approximate" in tent
    assert "Tent: it would skip batches" in one_line(text)
    assert "measures a rate" in one_line(text)


def test_peak_as_data(run: Path) -> None:
    records = json.loads(tempora("peak", run, "--p99-ms", "9.1", "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(tempora("peak", run, "--p99-ms", "9.1", "--format", "csv"))))
    assert [record["method"] for record in records] == [row["method"] for row in rows]
    assert [record["rate_hz"] for record in records] == [float(row["rate_hz"]) for row in rows]
    adabn = next(record for record in records if record["method"] == "adabn")
    assert (adabn["rate_hz"], adabn["share"], adabn["bound_ms"], adabn["arrivals"]) == (0.0, None, 9.1, 1040)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a peak has one bound; give p99_ms"),
        (["--p99-ms", "50", "--methods", "tnet"], "did you mean 'tent'"),
    ],
)
def test_peaks_that_make_no_sense(run: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        tempora("peak", run, *arguments)


# -- compare ---------------------------------------------------------------------------------------------------


def test_two_runs_side_by_side(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write_run(here, scenarios=FEW, clock="measured")
    better = {**METHODS, "adabn": Pace(10.5, 0.0, 0.70)}
    write_run(there, scenarios=FEW, clock="measured", methods=better, machine={"gpu": "Big GPU"})
    text = one_line(tempora("compare", here, there))
    assert "two machines: Some CPU, 2 threads here, Big GPU there" in text
    assert "4 of 20 numbers changed, 0 are undecided" in text
    assert "offline: SAR wins here, AdaBN there." in text
    assert "changed places" in text
    assert "+26.0*" in text
    assert "The same methods win in all 4 scenarios." in one_line(tempora("compare", here, here))


def test_comparisons_to_paste_and_to_process(run: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(tempora("compare", run, run, "--format", "csv"))))
    assert len(rows) == 20
    assert {row["change"] for row in rows} == {"same"}
    assert len(json.loads(tempora("compare", run, run, "--format", "json"))) == 20
    assert r"\toprule" in tempora("compare", run, run, "--format", "latex")
    assert "| method |" in tempora("compare", run, run, "--format", "markdown")


@pytest.fixture(scope="module")
def like_the_paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    write_run(folder, scenarios=[*FEW, Continuous(threshold_ms=50.0)])
    return folder


def test_a_run_beside_the_paper(like_the_paper: Path) -> None:
    text = one_line(tempora("compare", like_the_paper, "--published", "rn50_inc"))
    assert "numbers beside rn50_inc: mean absolute difference" in text
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
    assert "1 of them are beside printed numbers that contradict" in one_line(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "compare takes one other thing"),
        (["RUN", "--published", "rn50_inc"], "compare takes one other thing"),
        (["--published", "rn50_inc2"], "did you mean 'rn50_inc'"),
        (["nowhere"], "is not a run folder"),
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
