"""The commands that read results: show, recommend and compare. Their screens are in `test_screens.py`."""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from made_runs import METHODS, Pace, write_run
from tempora_tta import analysis
from tempora_tta.errors import TemporaError
from tempora_tta.names import TABLES
from tempora_tta.results import open_runs
from tempora_tta.scenarios import Amortised, Continuous, Offline, from_spec
from tempora_tta.store import open_run

Told = Callable[..., Any]


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def told(said) -> Told:
    """Run a command and return what it prints as JSON."""
    return lambda *words: json.loads(said(*words, "--format", "json"), parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def asked(told: Told, run: Path) -> Told:
    return partial(told, "recommend", run)


# -- show ------------------------------------------------------------------------------------------------------

NOT_OF_THIS_RUN = {"settings", "buffering", "segments", "stream", "seeds"}
"""Tables that need oracles, two queues, a stream of many shifts, or several seeds."""


@pytest.mark.parametrize("table", sorted(set(TABLES) - NOT_OF_THIS_RUN))
def test_tables_fit_the_window(run: Path, table: str, said) -> None:
    text = said("show", run, "--table", table)
    assert max(map(len, map(str.rstrip, text.splitlines()))) <= 80
    assert "\x1b" not in text
    assert "…" not in text, "something is cut off"


def test_the_overview_of_one_shift_has_its_numbers(run: Path, said) -> None:
    overview, whole = said("show", run, "--shift", "fog"), said("show", run)
    table = said("show", run, "--shift", "fog", "--table", "sweep").partition("\n\nBy shift:")[0].strip()
    assert table in overview
    assert table not in whole


def test_everything_that_the_overview_says_is_valid_json(run: Path, told: Told) -> None:
    answers = told("show", run)["answers"]
    assert [one["method"] for one in answers] == [one["ranking"][0]["method"] for one in answers]
    assert len(answers) == 4


def test_several_runs_are_one_thing(run: Path, tmp_path: Path, said, told: Told) -> None:
    other = shutil.copytree(run, tmp_path / "other")
    rows = list(csv.DictReader(io.StringIO(said("show", run, other, "--table", "sweep", "--format", "csv"))))
    assert {row["run"] for row in rows} == {"run", "other"}
    names = {name: one["about"]["run"] for name, one in told("show", run, other).items()}
    assert names == {path.name: str(path) for path in (run, other)}
    both = open_runs([run, other])
    assert len(both.cells) == sum(len(one.cells) for one in both.values())
    assert set(analysis.across_machines(both.cells, "run")["run"]) == set(both.winners()["run"]) == set(both)


# -- recommend -------------------------------------------------------------------------------------------------


def test_frames_are_not_batches(asked: Told) -> None:
    """50 frames of 10 cameras at 500 frames per second come every 10 ms, and the first of them waited 9.8 ms."""
    by_frame, by_batch = asked("--fps", "500", "--cameras", "10"), asked("--interval-ms", "10")
    assert by_frame["setting"]["interval_ms"] == by_batch["setting"]["interval_ms"] == 10.0
    assert by_frame["setting"]["fill_ms"] == pytest.approx(9.8)
    assert by_frame["method"] == by_batch["method"] == "adabn"
    waits = [one["ranking"][0]["first_wait_ms"] for one in (by_frame, by_batch)]
    assert waits[0] == pytest.approx(waits[1] + 9.8)
    assert asked("--rate-hz", "1000")["setting"]["interval_ms"] == pytest.approx(1000 * 50 / 1000), "images"


def test_a_budget_is_seconds_or_a_share_of_plain_computing(asked: Told) -> None:
    """40 batches of 10 ms: 15 % of that are 60 ms."""
    seconds, share = asked("--budget", "0.06"), asked("--budget", "15%")
    assert seconds["setting"]["budget_share"] == pytest.approx(0.15)
    assert share["setting"]["budget_s"] == pytest.approx(0.06)
    assert [row["utility"] for row in seconds["ranking"]] == [row["utility"] for row in share["ranking"]]


def test_any_limit_combines_with_any_pace(asked: Told) -> None:
    words = "--fps 50 --cameras 20 --within-ms 100 --budget 50% --p90-ms 90 --availability 0.9 --shifts fog"
    found = asked(*words.split())
    assert found["about"]["shifts"] == ["fog"]
    assert all(row["p90_ms"] <= 90 and row["answered"] >= 0.9 for row in found["ranking"])


def test_the_command_that_measures_is_one_line_and_adds_the_scenario(
    tmp_path: Path, said, told: Told
) -> None:
    """The follow-up is the run's own configuration plus the scenario that was asked for."""
    write_run(tmp_path, methods={"tent": METHODS["tent"]}, scenarios=[Offline()], config={"scenarios": []})
    question = ("recommend", tmp_path, "--fps", "200", "--cameras", "20")
    found = told(*question)
    assert (found["fits"], found["method"]) == ("unknown", None)
    words = shlex.split(found["follow_up"])
    assert words[:4] == ["tempora", "run", str(tmp_path), "--scenario"]
    assert from_spec(yaml.safe_load(words[4])).label == "20 × 200 frames/s"
    assert found["follow_up"] in said(*question).splitlines()[-1]


def test_limits_without_a_pace_give_the_highest_rate_of_each_method(asked: Told) -> None:
    found = asked("--p99-ms", "60")
    rates = [row["images_per_s"] for row in found["ranking"]]
    assert [row["method"] for row in found["ranking"]] == ["standard", "adabn", "lame", "tent", "sar"]
    assert rates == sorted(rates, reverse=True)
    assert asked("--p99-ms", "5")["fits"] == "no"


# -- compare ---------------------------------------------------------------------------------------------------


def test_comparisons_to_paste_and_to_process(run: Path, said, told: Told) -> None:
    rows = told("compare", run, run)
    assert {row["change"] for row in rows} == {"same"}
    text = {kind: said("compare", run, run, "--format", kind) for kind in ("csv", "latex", "markdown")}
    assert len(list(csv.DictReader(io.StringIO(text["csv"])))) == len(rows) == 20
    assert r"\toprule" in text["latex"]
    assert "| Method |" in text["markdown"]


def test_a_run_compared_with_the_paper(tmp_path: Path, said) -> None:
    budget, patience = Amortised(budget_ms=60.0), Continuous(threshold_ms=50.0)
    write_run(tmp_path, scenarios=[Offline(), patience, budget])
    text = one_line(said("compare", tmp_path, "--published", "rn50_inc"))
    assert "known inconsistency 5" in text
    assert "other weights, preprocessing or data" in text
    assert "Continuous, T 50 ms" in text
    assert "snow fog" in text, "in the paper's order"


def test_what_cannot_be_compared_is_said_and_misprints_are_marked(tmp_path: Path, said) -> None:
    """Two methods have no rank correlation, and neither wins anywhere in the paper; Tent at 40 s on ImageNet-V2
    repeats another budget's number."""
    few = {name: METHODS[name] for name in ("standard", "lame")}
    write_run(tmp_path / "few", methods=few, scenarios=[Offline()], shifts=("fog",))
    text = one_line(said("compare", tmp_path / "few", "--published", "rn50_inc"))
    assert "no published winner" in text
    assert "rank correlation" in text
    assert "nan" not in text
    budget = Amortised(budget_ms=40000.0, rule="overshoot")
    write_run(tmp_path / "run", scenarios=[Offline(), budget], shifts=("imagenet_v2",))
    text = said("compare", tmp_path / "run", "--published", "vit_inv2")
    assert "known inconsistency 1" in one_line(text)
    tent = next(line for line in text.split("Amortised")[1].splitlines() if line.startswith("Tent"))
    assert "‡" in tent


# -- mistakes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("show RUN --shift fgo", ["fgo", "fog"]),
        ("show RUN --by-shift", ["--by-shift", "--table", "offline", "amortised"]),
        ("show RUN --scenario x", ["--scenario", "--table"]),
        ("show RUN --format csv", ["--format csv", "table"]),
        ("show DAMAGED", ["utilities.parquet", "damaged"]),
        ("recommend RUN", ["--fps", "--budget"]),
        ("recommend RUN --interval-ms 10 --fps 1", ["--interval-ms", "--fps"]),
        ("recommend RUN --within-ms 10 --patience-ms 1", ["--within-ms", "--patience-ms"]),
        ("recommend RUN --fps 0", ["--fps 0.0", "above 0"]),
        ("recommend RUN --interval-ms 10 --shifts fgo", ["fgo", "fog"]),
        ("recommend RUN --interval-ms 10 --cameras 3", ["--cameras 3", "--fps"]),
        ("recommend RUN --patience-ms 33 --queue 5", ["--queue 5", "--interval-ms", "--fps", "--rate-hz"]),
        ("recommend RUN --budget half", ["--budget half", "seconds"]),
        ("recommend RUN --interval-ms 50 --p99-ms 60", ["p99", "80 responses", "299"]),
        ("compare RUN", ["--published"]),
        ("compare RUN RUN --published rn50_inc", ["--published"]),
        ("compare RUN --published rn50_inc2", ["rn50_inc2", "rn50_inc"]),
        ("compare RUN nowhere", ["nowhere", "run folder"]),
        ("compare RUN RUN --by-shift", ["--by-shift", "paper"]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_mistakes_say_what_was_given_what_is_allowed_and_what_to_do(
    run: Path, tmp_path: Path, words: str, parts: list[str], said
) -> None:
    places = {"RUN": run}
    if "DAMAGED" in words:
        places["DAMAGED"] = shutil.copytree(run, tmp_path / "run")
        (tmp_path / "run" / "utilities.parquet").write_bytes(b"PAR1")
    with pytest.raises(TemporaError) as caught:
        said(*(places.get(word, word) for word in words.split()))
    assert all(part in str(caught.value) for part in parts), caught.value


def test_a_damaged_pass_of_a_user_s_own_method_leaves_the_table_readable(tmp_path: Path) -> None:
    write_run(tmp_path, methods={"standard": METHODS["standard"], "lab:Mine": Pace(10.0, 14.0, 0.5)})
    next((tmp_path / "traces").glob("*Mine*")).write_bytes(b"PAR1")
    assert set(open_run(tmp_path).utilities["method"]) == {"standard", "lab:Mine"}
