"""The authors' logs as a run folder: recognised, renamed, scored as the paper scores them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tempora_tta import analysis, published
from tempora_tta.errors import TemporaError
from tempora_tta.report.html import write_report
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline, Scenario
from tempora_tta.store import UTILITIES, Results, Trace
from tempora_tta.store.authors import import_authors

BATCHES, BATCH_SIZE = 30, 64
TIMES_MS = {"basic": (38.0, 0.0), "adabn": (41.0, 0.0), "tent": (41.0, 56.0), "shot": (41.0, 70.0)}
KNOBS: dict[str, dict[str, str]] = {
    "offline": {},
    "discrete": {"interval": "40.0", "queue_size": "1"},
    "unbuffered": {"interval": "40.0", "queue_size": "0"},
    "continuous": {"response_budget": "100"},
    "amortised": {"overhead_budget": "500"},
}
SCENARIOS: dict[str, Scenario] = {
    "offline": Offline(),
    "discrete": Discrete(interval_ms=40.0),
    "unbuffered": Discrete(interval_ms=40.0, queue=0),
    "continuous": Continuous(threshold_ms=100.0),
    "amortised": Amortised(budget_ms=500.0, rule="overshoot"),
}


def arguments(method: str, **more: str) -> dict[str, str]:
    """As the authors write them: all strings, unset knobs included."""
    return {
        "method": method,
        "model_arch": "resnet50",
        "dataset_name": "imagenet-c",
        "seed": "2025",
        "batch_size": str(BATCH_SIZE),
        "interval": "None",
        "queue_size": "None",
        "response_budget": "None",
        "overhead_budget": "None",
        **more,
    }


def a_log(method: str, kind: str, shifts: tuple[str, ...] = ("fog", "snow")) -> dict[str, Any]:
    """A run of a method under one deployment; the same batches are hard for everybody."""
    results = {}
    for number, shift in enumerate(shifts):
        generator = np.random.default_rng(number)
        correct = generator.integers(10, 40, BATCHES) + 10 * (method != "basic")
        # Standard inference keeps below lambda, so that no two events coincide.
        pace = generator.uniform(0.99, 1.01, BATCHES)
        predict_ms, adapt_ms = (time * pace for time in TIMES_MS[method])
        rows = _rows(SCENARIOS[kind], correct, predict_ms, adapt_ms)
        results[shift] = {
            "num_batches": BATCHES,
            "num_samples": int(sum(row["num_samples"] for row in rows)),
            "num_correct": int(sum(row["num_correct"] for row in rows)),
            "num_skipped": sum(row["num_samples"] == 0 for row in rows),
            "batch_summaries": rows,
        }
    return {"arguments": arguments(method, **KNOBS[kind]), "results": results}


def _rows(scenario: Scenario, correct: Any, predict_ms: Any, adapt_ms: Any) -> list[dict[str, Any]]:
    """Rows of a log, skipped batches all zero."""
    course = (
        scenario.deployment()
        .score(
            accuracy=correct / BATCH_SIZE,
            predict_ms=predict_ms,
            adapt_ms=adapt_ms,
            frozen_accuracy=correct / BATCH_SIZE,
            baseline_ms=39.0,
        )
        .course
    )
    rows = []
    for batch in range(BATCHES):
        place = np.flatnonzero(course.served == batch)
        served = int(place.size > 0)
        rows.append(
            {
                "index": batch * served,
                "num_samples": BATCH_SIZE * served,
                "num_correct": int(correct[batch]) * served,
                "prediction_time": float(predict_ms[batch]) * served,
                "adaptation_time": float(adapt_ms[batch]) * served,
                "wall_clock_time": float(predict_ms[batch] + adapt_ms[batch]) * served,
                "num_skipped": 1 - served,
                "start_timestamp": float(course.start_ms[place[0]]) if served else 0.0,
                "queue_wait_time": float(course.wait_ms[place[0]]) if served else 0.0,
            }
        )
    return rows


def write(folder: Path, name: str, log: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(log))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authors")
    for method in TIMES_MS:
        for kind in KNOBS:
            write(folder / method, kind, a_log(method, kind))
    write(folder, "notes", {"readme": "a JSON file that is no log"})
    return folder


@pytest.fixture(scope="module")
def run(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return import_authors(logs, tmp_path_factory.mktemp("out") / "run")


def test_every_log_becomes_a_cell_per_shift(run: Any) -> None:
    cells = run.utilities
    assert len(cells) == 4 * 5 * 2
    assert (cells["status"] == "ok").all()
    assert set(cells["method"]) == {"standard", "adabn", "tent", "shot_im"}
    assert [spec["protocol"] for spec in run.manifest["scenarios"]] == [
        *("offline", "discrete", "discrete", "continuous", "amortised")
    ]
    assert sorted(cells.loc[cells["protocol"] == "discrete", "queue"].unique()) == [0, 1]


def test_lambda_is_six_sigma_above_standard_inference(run: Any, logs: Path) -> None:
    log = json.loads((logs / "basic" / "offline.json").read_text())
    times = [row["prediction_time"] for found in log["results"].values() for row in found["batch_summaries"]]
    assert run.manifest["baseline"]["baseline_ms"] == pytest.approx(np.mean(times) + 6 * np.std(times))


def test_utility_is_what_the_log_counted(run: Any, logs: Path) -> None:
    """Where nothing decays, utility is correct predictions over all samples, skipped ones included."""
    cells = run.utilities.set_index(["method", "shift", "protocol", "queue"]).sort_index()
    for method, ours in (("tent", "tent"), ("shot", "shot_im"), ("basic", "standard")):
        for kind, protocol, queue in (
            ("offline", "offline", 1),
            ("discrete", "discrete", 1),
            ("unbuffered", "discrete", 0),
            ("amortised", "amortised", 1),
        ):
            log = json.loads((logs / method / f"{kind}.json").read_text())
            for shift, found in log["results"].items():
                row = cells.loc[(ours, shift, protocol, queue)]
                assert row["utility"] == pytest.approx(found["num_correct"] / (BATCHES * BATCH_SIZE))
                assert row["served_batches"] == BATCHES - found["num_skipped"]


def test_patience_is_scored_as_continuous_scores_it(run: Any) -> None:
    cells = run.utilities
    row = cells[(cells["method"] == "tent") & (cells["protocol"] == "continuous")].iloc[0]
    trace = run.trace(row)
    expected = Continuous(threshold_ms=100).score(
        accuracy=trace.accuracy,
        predict_ms=trace.predict_ms,
        adapt_ms=trace.adapt_ms,
        baseline_ms=run.manifest["baseline"]["baseline_ms"],
    )
    assert row["utility"] == pytest.approx(expected.utility)
    assert row["responsiveness"] < 1


def test_budgets_freeze_after_the_batch_that_crosses_them(run: Any) -> None:
    cells = run.utilities
    row = cells[(cells["method"] == "tent") & (cells["protocol"] == "amortised")].iloc[0]
    assert row["rule"] == "overshoot"
    assert row["spent_ms"] >= 500
    assert 0 < row["cutoff"] < BATCHES
    assert (run.trace(row).to_frame()["phase"] == "frozen").sum() == BATCHES - row["cutoff"]


def test_predictions_are_unknown_on_disk_and_back(run: Any) -> None:
    traces = run.traces
    assert (traces["predicted"].map(len) == 0).all()
    assert traces.loc[traces["protocol"] == "offline", "served"].all()
    offline = run.trace(run.utilities[run.utilities["protocol"] == "offline"].iloc[0])
    again = Trace.from_table(offline.to_table())
    assert (again.predicted == -1).all()
    np.testing.assert_array_equal(again.correct, offline.correct)


def test_all_analysis_works_on_it(run: Any) -> None:
    cells = run.utilities
    assert run.manifest["imported"]["retimed_passes"] == 0
    assert not analysis.winners(cells).empty
    assert analysis.headline(cells).temporal_cells == 8
    assert not analysis.buffering(cells).empty
    assert not analysis.overhead(run.traces, run.manifest["baseline"]["baseline_ms"]).empty


def test_logs_of_history_free_methods_answer_for_other_schedules(run: Any) -> None:
    found = analysis.answer(run, Discrete(interval_ms=35.0))
    assert set(found.rows["method"]) == {"standard", "adabn"}


def test_it_compares_with_the_published_tables(run: Any) -> None:
    compared = published.compare(run.utilities, "rn50_inc")
    assert set(compared.cells["method"]) == {"standard", "adabn", "tent", "shot_im"}
    assert "T 100 ms" not in set(compared.cells["label"]), "printed over all shifts only, two are here"


def test_loops_that_take_time_between_batches_follow_the_recorded_starts(tmp_path: Path) -> None:
    """A real loop spends time that neither prediction nor adaptation counts: the next start tells."""
    log = a_log("tent", "discrete", ("fog",))
    rows = log["results"]["fog"]["batch_summaries"]
    for row in rows:
        row["adaptation_time"] *= 0.5
    write(tmp_path / "logs", "tent", log)
    run = import_authors(tmp_path / "logs", tmp_path / "run", baseline_ms=39.9)
    assert run.utilities["status"].tolist() == ["ok"]
    served = [index for index, row in enumerate(rows) if row["num_samples"]]
    assert np.flatnonzero(run.trace(run.utilities.iloc[0]).served).tolist() == served
    assert run.manifest["imported"]["retimed_passes"] == 1


def test_at_a_knife_edge_the_log_says_what_was_served(tmp_path: Path) -> None:
    """Unbuffered, 39.8 ms every 40 ms: the loop's own 0.4 ms, which no time counts, cost every other batch."""
    log = a_log("basic", "unbuffered", ("fog",))
    found = log["results"]["fog"]
    for number, row in enumerate(found["batch_summaries"]):
        row |= {"prediction_time": 39.8, "wall_clock_time": 40.2, "start_timestamp": 40.0 * number}
        if number % 2:
            row.update(dict.fromkeys(row, 0))
    found["num_correct"] = sum(row["num_correct"] for row in found["batch_summaries"])
    write(tmp_path / "logs", "basic", log)
    run = import_authors(tmp_path / "logs", tmp_path / "run", baseline_ms=39.9)
    cell = run.utilities.iloc[0]
    assert cell["status"] == "ok"
    assert cell["utility"] == pytest.approx(found["num_correct"] / (BATCHES * BATCH_SIZE))
    assert cell["availability"] == 0.5
    assert cell["response_ms"] == pytest.approx(39.8)
    assert cell["waitspan_ms"] == pytest.approx(40.2 * (BATCHES / 2 - 1)), "it waited for what it could serve"
    trace = run.trace(cell)
    assert np.flatnonzero(trace.served).tolist() == list(range(0, BATCHES, 2))
    assert trace.utility(Discrete(interval_ms=40.0, queue=0).resolve(num_batches=BATCHES)) == cell["utility"]
    assert run.manifest["imported"]["own_skips_passes"] == 1
    stored = run.folder.stored(cell["adapting_pass"])
    for said in (run.manifest["verdict"]["text"], stored.facts["verdict"]["text"]):
        assert "the skipped batches are the log's own, not replayed" in said
    write_report(run)


def test_a_log_that_contradicts_its_protocol_is_a_failed_cell(tmp_path: Path) -> None:
    """Where the stream waits nothing is skipped."""
    log = a_log("basic", "offline", ("fog",))
    found = log["results"]["fog"]
    for row in found["batch_summaries"][5:25]:
        row.update(dict.fromkeys(row, 0))
    found["num_correct"] = sum(row["num_correct"] for row in found["batch_summaries"])
    write(tmp_path / "logs", "basic", log)
    run = import_authors(tmp_path / "logs", tmp_path / "run", baseline_ms=39.9)
    assert run.utilities["status"].iloc[0].startswith("failed: the log skips batches")
    assert np.isnan(run.utilities["utility"].iloc[0])


@pytest.mark.parametrize("kind", ["offline", "discrete", "amortised"])
def test_a_log_without_its_end_is_refused(tmp_path: Path, kind: str) -> None:
    log = a_log("tent", kind, ("fog",))
    found = log["results"]["fog"]
    found["batch_summaries"] = found["batch_summaries"][: BATCHES // 2]
    found["num_correct"] = sum(row["num_correct"] for row in found["batch_summaries"])
    write(tmp_path / "logs", "torn", log)
    held = rf"torn\.json: fog says num_batches {BATCHES} and .* hold {BATCHES // 2} batches"
    with pytest.raises(TemporaError, match=held):
        import_authors(tmp_path / "logs", tmp_path / "run", baseline_ms=39.9)


@pytest.mark.parametrize("kind", ["offline", "discrete"])
@pytest.mark.parametrize("rows", ["shuffled", "served only"])
def test_the_index_places_a_batch(tmp_path: Path, kind: str, rows: str) -> None:
    """Out of order, or without the rows of skipped batches, a log says the same."""
    log = a_log("tent", kind, ("fog",))
    write(tmp_path / "logs", "tent", log)
    found = log["results"]["fog"]
    if rows == "shuffled":
        np.random.default_rng(0).shuffle(found["batch_summaries"])
    else:
        found["batch_summaries"] = [row for row in found["batch_summaries"] if row["num_samples"]]
    write(tmp_path / "others", "tent", log)
    run, other = (
        import_authors(tmp_path / logs, tmp_path / f"run of {logs}", baseline_ms=39.9)
        for logs in ("logs", "others")
    )
    pd.testing.assert_frame_equal(other.traces, run.traces)
    pd.testing.assert_frame_equal(other.utilities, run.utilities)


def test_two_batches_of_one_index_are_refused(tmp_path: Path) -> None:
    log = a_log("basic", "offline", ("fog",))
    log["results"]["fog"]["batch_summaries"][3]["index"] = 2
    write(tmp_path / "logs", "basic", log)
    with pytest.raises(TemporaError, match=r"basic\.json: .*fog's batches are not different numbers"):
        import_authors(tmp_path / "logs", tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prediction_time": -1.0}, "prediction_time is -1 in a batch of fog"),
        ({"adaptation_time": float("nan")}, "adaptation_time is nan in a batch of fog"),
        ({"num_correct": BATCH_SIZE + 1}, "more correct than samples"),
    ],
)
def test_impossible_batches_are_refused(tmp_path: Path, change: dict[str, float], message: str) -> None:
    log = a_log("basic", "offline", ("fog",))
    log["results"]["fog"]["batch_summaries"][3] |= change
    write(tmp_path / "logs", "basic", log)
    with pytest.raises(TemporaError, match=message):
        import_authors(tmp_path / "logs", tmp_path / "run")


def test_thresholds_below_lambda_are_not_applicable(tmp_path: Path) -> None:
    write(tmp_path / "logs", "tent", a_log("tent", "continuous", ("fog",)))
    run = import_authors(tmp_path / "logs", tmp_path / "run", baseline_ms=120.0)
    assert run.utilities["status"].iloc[0].startswith("not applicable")


def test_the_ablated_methods_get_their_stars_and_single_datasets_their_name(tmp_path: Path) -> None:
    for ours, name in (("eta_star", "eta_no_reset"), ("shot_im_star", "shot_norm")):
        log = a_log("tent", "offline", ("test",))
        log["arguments"] |= {"method": name, "dataset_name": "imagenet-r"}
        write(tmp_path / "logs", ours, log)
    run = import_authors(tmp_path / "logs", tmp_path / "run", baseline_ms=39.9)
    assert set(run.utilities["method"]) == {"eta_star", "shot_im_star"}
    assert set(run.utilities["shift"]) == {"imagenet_r"}


def test_one_file_per_shift_will_do(tmp_path: Path) -> None:
    for shift in ("fog", "snow"):
        write(tmp_path / "logs", shift, a_log("basic", "offline", (shift,)))
    run = import_authors(tmp_path / "logs", tmp_path / "run")
    assert sorted(run.utilities["shift"]) == ["fog", "snow"]


def _broken(change: dict[str, Any]) -> dict[str, Any]:
    log = a_log("basic", "offline", ("fog",))
    log["arguments"] |= change
    return log


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (_broken({"method": "tnet"}), "unknown method 'tnet': did you mean 'tent'"),
        (_broken({"interval": "40", "response_budget": "90"}), "sets interval and response_budget"),
        (_broken({"interval": "fast"}), "not a log as the authors publish them .*fast"),
        ({"arguments": {"method": "tent"}, "results": {}}, "dataset_name' is missing"),
        (_broken({"batch_size": "32"}), "more than batch_size=32"),
    ],
)
def test_what_is_wrong_with_a_log_is_said_with_its_name(tmp_path: Path, log: Any, message: str) -> None:
    write(tmp_path / "logs", "wrong", log)
    with pytest.raises(TemporaError, match=rf"wrong\.json: .*{message}"):
        import_authors(tmp_path / "logs", tmp_path / "run")
    assert not (tmp_path / "run").exists(), "nothing is begun"


def test_counts_must_add_up(tmp_path: Path) -> None:
    log = a_log("basic", "offline", ("fog",))
    log["results"]["fog"]["num_correct"] += 1
    write(tmp_path / "logs", "off", log)
    with pytest.raises(TemporaError, match="its batches add up to"):
        import_authors(tmp_path / "logs", tmp_path / "run")


def test_what_cannot_be_one_run_is_refused(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with pytest.raises(TemporaError, match="no logs of the authors"):
        import_authors(logs, tmp_path / "run")
    write(logs, "tent", a_log("tent", "offline"))
    with pytest.raises(TemporaError, match="lack standard inference offline"):
        import_authors(logs, tmp_path / "run")
    write(logs, "basic", a_log("basic", "offline"))
    write(logs, "again", a_log("basic", "offline"))
    with pytest.raises(TemporaError, match="both standard on fog under offline"):
        import_authors(logs, tmp_path / "run")
    vit = a_log("basic", "offline")
    vit["arguments"]["model_arch"] = "vit_base_patch16_224"
    write(logs, "again", vit)
    with pytest.raises(TemporaError, match="choose with --model and --dataset"):
        import_authors(logs, tmp_path / "run")
    run = import_authors(logs, tmp_path / "run", model="resnet50", dataset="ImageNet-C")
    assert set(run.utilities["model"]) == {"resnet50"}
    with pytest.raises(TemporaError, match="holds a run already"):
        import_authors(logs, tmp_path / "run", model="resnet50")
    with pytest.raises(TemporaError, match="baseline_ms=-1"):
        import_authors(logs, tmp_path / "other", model="resnet50", baseline_ms=-1)
    (logs / "torn.json").write_text('{"arguments":')
    with pytest.raises(TemporaError, match=r"torn\.json cannot be read"):
        import_authors(logs, tmp_path / "other")


def test_the_frame_is_the_schema_of_any_run(run: Any) -> None:
    assert isinstance(run.utilities, pd.DataFrame)
    assert list(run.utilities.columns) == list(UTILITIES)
