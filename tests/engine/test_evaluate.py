"""`tempora.evaluate` from Python: what comes out, and what it says about wrong input."""

from __future__ import annotations

import copy
import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from latencies import CLOCK

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.analysis.replays import answer
from tempora_tta.cli.recommend import recommend
from tempora_tta.engine import Run
from tempora_tta.engine.build import job_from_python
from tempora_tta.methods import Method
from tempora_tta.report.html.page import render
from tempora_tta.report.tables import build, to_terminal
from tempora_tta.scenarios import Amortised, Continuous, Discrete
from tempora_tta.store import UTILITIES, RunFolder

SCENARIOS = [Discrete(utilisation=1), Continuous(threshold_ms=100), Amortised(budget_ms=100)]


def evaluate(model, batches, methods, **more):
    options = {"scenarios": SCENARIOS, "clock": CLOCK, "device": "cpu"} | more
    return tempora.evaluate(model, batches, methods, **options)


def test_results_are_frames_with_documented_columns(network, batches):
    results = evaluate(
        network("fashion_resnet"), {"a": batches[:4], "b": batches[4:8]}, ["standard", "adabn"]
    )
    utilities = results.utilities
    assert list(utilities.columns) == list(UTILITIES)
    assert len(utilities) == 2 * 2 * 4
    assert set(utilities["shift"]) == {"a", "b"}
    assert len(results.traces) == 16 * 4
    offline = utilities[utilities["protocol"] == "offline"]
    accuracy = (
        results.traces[results.traces["protocol"] == "offline"].groupby(["method", "shift"])["correct"].sum()
        / 32
    )
    for _, cell in offline.iterrows():
        assert cell["utility"] == accuracy[cell["method"], cell["shift"]]
    assert set(utilities.groupby(["shift", "scenario"])["rank"].min()) == {1}


def test_same_seed_same_files(network, batches, tmp_path):
    """Same seed, recorded clock: identical Parquet files."""
    for name in ("first", "second"):
        evaluate(network("fashion_resnet"), batches[:4], ["standard", "deyo", "cmf"], out=tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*.parquet"))
    assert len(files) > 3
    for file in files:
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_measured_on_a_gpu(network, batches, tmp_path):
    """Each pass knows its memory; what was lost is made again."""
    options = {"clock": "measured", "device": "cuda", "calibration_batches": 40, "out": tmp_path / "run"}
    methods = ["standard", "lame", "tent"]
    run = evaluate(network("fashion_resnet"), batches, methods, **options)
    assert (run.utilities["status"] == "ok").all()
    with RunFolder.for_writing(run.path) as folder:
        assert all(made.facts["peak_memory_bytes"] > 0 for made in folder.passes().values())
    lost = next((run.path / "traces").glob("*.parquet"))
    lost.unlink()
    again = evaluate(network("fashion_resnet"), batches, methods, **options)
    assert lost.exists()
    assert again.manifest["baseline"] == run.manifest["baseline"]
    assert (again.utilities["status"] == "ok").all()


def test_measured_clock_predicts_the_same_and_judges_itself(network, batches):
    options = {"clock": "measured", "calibration_batches": 20, "scenarios": []}
    first, second = (
        evaluate(network("fashion_resnet"), batches, ["standard", "tent"], **options) for _ in range(2)
    )
    assert first.traces["predicted"].map(list).tolist() == second.traces["predicted"].map(list).tolist()
    manifest = first.manifest
    assert manifest["verdict"]["status"] in ("VALID", "WARN", "INVALID")
    assert manifest["baseline"]["batches"] == 20
    assert manifest["baseline"]["baseline_ms"] >= manifest["baseline"]["median_ms"]
    assert manifest["machine"]["threads"] == torch.get_num_threads()
    assert set(first.utilities["timing"]) <= {"VALID", "WARN", "INVALID"}
    assert (first.utilities["utility_lo"] <= first.utilities["utility"]).all()


def test_a_given_lambda_is_used(network, batches):
    results = evaluate(network("fashion_resnet"), batches[:2], ["standard"], baseline_ms=50)
    assert set(results.utilities["baseline_ms"]) == {50}


def test_thresholds_below_lambda_are_not_applicable_and_nothing_else_suffers(network, batches):
    results = evaluate(
        network("fashion_resnet"), batches[:2], ["standard"], scenarios=[Continuous(threshold_ms=30)]
    )
    by_protocol = results.utilities.set_index("protocol")
    assert by_protocol.loc["continuous", "status"].startswith("not applicable: threshold_ms=30")
    assert math.isnan(by_protocol.loc["continuous", "utility"])
    assert by_protocol.loc["offline", "status"] == "ok"


CALLS = []


class Counts(Method):
    """Gives nothing but NaN, and counts."""

    name = "counts"

    def predict(self, x):
        CALLS.append(len(x))
        return torch.full((len(x), 10), math.nan)


class Made(Counts):
    """Predicts as the network does, and counts how often it is made."""

    name = "made"

    def setup(self):
        CALLS.append("made")

    def predict(self, x):
        return self.model(x)


def test_a_method_is_made_once_for_each_task(network, batches):
    """The one that shows whether it fits serves its first task."""
    CALLS.clear()
    shifts = {"a": batches[:2], "b": batches[2:4]}
    evaluate(network("fashion_resnet"), shifts, ["standard", Made], clock={**CLOCK, "made": (40, 0)})
    assert ["made"] * len(shifts) == CALLS


def test_a_method_that_fails_is_not_tried_once_per_scenario(network, batches, tmp_path):
    CALLS.clear()
    options = {"clock": {**CLOCK, "counts": (40, 0)}, "warmup_batches": 0, "out": tmp_path / "run"}
    with pytest.raises(TemporaError, match="4 of 4 cells failed: counts: every score"):
        evaluate(network("fashion_resnet"), batches, [Counts], **options)
    results = tempora.open_run(tmp_path / "run")
    assert results.utilities["status"].str.contains("every score it gave was NaN").all()
    assert results.traces[["protocol", "predict_ms"]].empty
    assert len(results.utilities) == 4
    assert len(CALLS) == len(batches)


WRAPPED = {
    "plain": ({}, [97, 97, 97, 97]),
    "every": ({"every": 3}, [97, 41, 41, 97]),
    "stop": ({"stop_after": 2}, [97, 97, 40, 40]),
    "after": ({"reforward": True}, [138, 138, 138, 138]),
    "both": ({"reforward": True, "every": 3}, [138, 41, 41, 138]),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_recorded_clock_knows_what_wrapped_methods_do(network, batches, name):
    """A step left out costs nothing; one before the prediction delays it, and so does the second forward."""
    settings, service_ms = WRAPPED[name]
    clock = {"baseline_ms": 40, "standard": (40, 0), "tent": (41, 56)}
    run = evaluate(network("fashion_resnet"), batches[:4], [("tent", settings)], clock=clock, scenarios=[])
    assert (run.traces["predict_ms"] + run.traces["adapt_ms"]).tolist() == service_ms
    if settings.get("reforward"):
        assert run.traces["adapt_ms"].tolist() == [0, 0, 0, 0]


MINE = """
import torch
from tempora_tta.methods import Method

class Mine(Method):
    name = "mine"

    def predict(self, x):
        return torch.nn.functional.one_hot(torch.full((len(x),), {favourite}), 10).float()
"""


def test_an_edited_method_is_another_method(network, batches, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    # Bytecode is told from its source by size and whole seconds, and this edit takes less than one.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for favourite in (3, 4):
        (tmp_path / "my_method.py").write_text(MINE.format(favourite=favourite))
        monkeypatch.delitem(sys.modules, "my_method", raising=False)
        importlib.invalidate_caches()
        clock = {**CLOCK, "mine": (40, 0)}
        run = evaluate(
            network("fashion_resnet"),
            batches[:2],
            ["my_method:Mine"],
            clock=clock,
            scenarios=[],
            out=tmp_path / "run",
        )
        assert set(np.concatenate(run.traces["predicted"])) == {favourite}


def replacing(model, batches, out: Path, **options):
    """As `tempora run --replace` does."""
    given = {"clock": CLOCK, "device": "cpu", "seeds": [1]} | options
    job = job_from_python(model, batches, ["standard"], [], **given)
    with RunFolder.for_writing(out) as folder:
        return Run(job, folder, replace=True).execute()


def test_changed_weights_are_another_network(network, batches, tmp_path):
    model = copy.deepcopy(network("fashion_resnet"))
    first = replacing(model, batches[:2], tmp_path / "run")
    assert first.utilities["utility"].nunique() == 1
    with torch.no_grad():
        model.classifier.bias[7] += 1e6
    again = replacing(model, batches[:2], tmp_path / "run")
    assert set(np.concatenate(again.traces["predicted"])) == {7}


def test_another_batch_size_has_a_lambda_of_its_own(network, batches, tmp_path):
    options = {"clock": "measured", "calibration_batches": 10, "out": tmp_path / "run"}
    model = network("fashion_resnet")
    small = [(x[:2], y[:2]) for x, y in batches]
    first = replacing(model, batches, **options).manifest["baseline"]
    assert replacing(model, batches, **options).manifest["baseline"] == first
    assert replacing(model, small, **options).manifest["baseline"] != first


def test_only_a_measured_lambda_is_reused(network, batches, tmp_path):
    model, measured = network("fashion_resnet"), {"clock": "measured", "calibration_batches": 10}
    options = {"out": tmp_path / "run"}
    assert replacing(model, batches, **options).manifest["baseline"]["baseline_ms"] == 40
    first = replacing(model, batches, **options, **measured).manifest["baseline"]
    assert first["source"] == "measured"
    other = replacing(model, batches, **options, **measured, provision=2.0).manifest["baseline"]
    assert other["provision"] == 2.0


class Breaks(Method):
    name = "breaks"

    def predict(self, x):
        raise ValueError("no prediction")


def test_a_bad_method_spoils_no_measured_run(network, batches):
    options = {"clock": "measured", "calibration_batches": 10, "scenarios": []}
    status = evaluate(network("fashion_resnet"), batches, ["standard", Breaks], **options).utilities
    by_method = status.set_index("method")["status"]
    assert by_method["standard"] == "ok"
    assert by_method["breaks"] == "failed: ValueError: no prediction"


def test_a_method_typed_again_is_another_method(network, batches, tmp_path):
    """At a prompt or in a notebook there is no file to look at."""
    found = []
    for sign in ("1", "-1"):
        space = {"Method": Method, "__name__": "prompt"}
        exec(
            f"class Mine(Method):\n name = 'mine'\n def predict(self, x):\n  return self.model(x) * ({sign})",
            space,
        )
        clock = {**CLOCK, "mine": (40, 0)}
        run = evaluate(
            network("fashion_resnet"), batches[:2], [space["Mine"]], clock=clock, out=tmp_path / "run"
        )
        found.append(np.concatenate(run.traces["predicted"]).tolist())
    assert found[0] != found[1]


def test_equal_scenarios_are_one_and_alike_ones_can_be_named(network, batches):
    given = [Continuous(threshold_ms=100), Continuous(threshold_ms=100.0), Amortised(budget_x=1 / 3)]
    run = evaluate(network("fashion_resnet"), batches[:2], ["standard"], scenarios=given)
    assert run.utilities["label"].tolist() == ["offline", "T 100 ms", "B 33.3 % of λN"]
    alike = [*given, Amortised(budget_x=0.3333)]
    with pytest.raises(TemporaError, match="give one of them a name of its own"):
        evaluate(network("fashion_resnet"), batches[:2], ["standard"], scenarios=alike)
    alike[-1] = Amortised(budget_x=0.3333, name="a third")
    run = evaluate(network("fashion_resnet"), batches[:2], ["standard"], scenarios=alike)
    assert "a third" in set(run.utilities["label"])


class Explodes(Method):
    name = "explodes"

    def predict(self, x):
        raise RuntimeError("out of memory, say")


class AllNan(Method):
    name = "all_nan"

    def predict(self, x):
        return torch.full((len(x), 10), math.nan)


@pytest.mark.parametrize(
    ("method", "reason"), [(Explodes, "RuntimeError: out of memory, say"), (AllNan, "every score")]
)
def test_a_method_that_fails_is_recorded_and_the_others_go_on(network, batches, method, reason):
    clock = CLOCK | {"explodes": (1, 1), "all_nan": (1, 1)}
    results = evaluate(network("fashion_resnet"), batches[:3], [method, "standard"], clock=clock)
    status = results.utilities.groupby("method")["status"].agg(set)
    assert status["standard"] == {"ok"}
    assert all(text.startswith("failed") and reason in text for text in status[method.name])


class HistoryFree(Method):
    name = "history_free"
    history_free = True
    stateless = True

    def predict(self, x):
        return self.logits(x if self.frozen else x.flip(-1))


def test_a_user_s_history_free_method_answers_for_every_schedule_and_budget(network, batches):
    clock = CLOCK | {"history_free": (50.0, 10.0)}
    methods = ["standard", HistoryFree, "tent"]
    asked = [Discrete(interval_ms=45.0), Amortised(budget_ms=50.0)]
    offline = evaluate(network("fashion_resnet"), batches, methods, clock=clock, scenarios=[])
    run = evaluate(network("fashion_resnet"), batches, methods, clock=clock, scenarios=asked, share=False)
    for scenario in asked:
        answers = answer(offline, scenario)
        assert set(answers.unanswered) == {"tent"}
        cells = run.utilities[run.utilities["label"] == scenario.label].set_index("method")
        for method, row in answers.rows.set_index("method").iterrows():
            assert row["utility"] == cells.loc[method, "utility"]
            assert row["availability"] * row["adapted_fraction"] < 1 or method == "standard"


def test_variants_of_one_method_need_labels(network, batches):
    variants = ["eta", ("eta", {"source_stats": "keep", "label": "eta_star"})]
    clock = CLOCK | {"eta_star": (41, 57)}
    results = evaluate(network("fashion_resnet"), batches[:3], variants, clock=clock)
    assert set(results.utilities["method"]) == {"eta", "eta_star"}
    with pytest.raises(TemporaError, match="two methods are called 'eta'"):
        evaluate(network("fashion_resnet"), batches[:3], ["eta", ("eta", {"source_stats": "keep"})])


class Labelled(Method):
    label = "My [first] Method"

    def predict(self, x):
        return self.logits(x)


def test_own_methods_are_shown_under_the_label_of_their_class(network, batches, tmp_path, capsys):
    """In tables, the report and recommendations; a label given by the run comes first."""
    methods = ["standard", Labelled, (Labelled, {"label": "again"})]
    clock = CLOCK | dict.fromkeys(("Labelled", "again"), (50.0, 0.0))
    network = network("fashion_resnet")
    results = evaluate(network, batches[:3], methods, clock=clock, out=tmp_path / "run")
    shown = [results.cards.label(name) for name in ("standard", "Labelled", "again")]
    assert shown == ["Standard", "My [first] Method", "again"]
    assert set(results.utilities["method"]) == {"standard", "Labelled", "again"}
    assert "My [first] Method" in to_terminal(build("offline", results.utilities, cards=results.cards))
    assert "My [first] Method" in render(results)
    recommend(tmp_path / "run", patience_ms=60.0)
    assert "My [first] Method" in capsys.readouterr().out


def test_a_clock_without_the_method_says_which_it_has(network, batches):
    clock = {name: CLOCK[name] for name in ("baseline_ms", "standard")}
    with pytest.raises(TemporaError, match="has no times for 'tent'; it has standard"):
        evaluate(network("fashion_resnet"), batches[:2], ["tent"], clock=clock)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["tnet"]}, "did you mean 'tent'"),
        (
            {"batches": [(torch.zeros(2, 1, 28, 28), torch.tensor([3, 10]))]},
            "labels range from 3 to 10: expected 0",
        ),
        ({"methods": []}, "no method to run"),
        ({"batches": {}}, "no shift to run on"),
        ({"batches": []}, "the list is empty"),
        ({"clock": {"standard": (1, 1)}}, "needs baseline_ms"),
        ({"clock": {"baseline_ms": 40, "standard": 5}}, r"standard must be \(predict_ms, adapt_ms\)"),
        ({"clock": {"baseline_ms": -1}}, "finite milliseconds"),
        ({"clock": "published:rn50_in"}, "did you mean 'rn50_in"),
        ({"clock": "no-such-file.json"}, "no such profile"),
        ({"device": "cudaa"}, "unknown device"),
        ({"baseline_ms": -3}, "baseline_ms=-3: must be greater than 0"),
        ({"seeds": [1, 1]}, r"seeds=\[1, 1\]: .*each once"),
        ({"methods": [("tent", 3)]}, r"give \(name, settings\)"),
        ({"methods": [("tent", {"lrr": 1})]}, "unknown setting of tent 'lrr'"),
    ],
)
def test_wrong_input_says_what_to_do(network, batches, change, message):
    arguments = {"batches": batches[:2], "methods": ["standard"], "clock": CLOCK, "device": "cpu"} | change
    with pytest.raises(TemporaError, match=message):
        tempora.evaluate(network("fashion_resnet"), **arguments)


def test_save_keeps_a_temporary_run(network, batches, tmp_path):
    results = evaluate(network("fashion_resnet"), batches[:2], ["standard"])
    saved = results.save(tmp_path / "kept")
    assert tempora.open_run(saved).utilities.equals(results.utilities)
    with pytest.raises(TemporaError, match="holds a run already"):
        results.save(tmp_path / "kept")


def test_source_samples_reach_the_methods_that_ask_for_them(network, batches, tmp_path):
    source = torch.cat([x for x, _ in batches]).flip(-1)
    asked = [("eata", {"samples": 32}), "tent"]
    times = {**CLOCK, "eata": (50.0, 60.0)}
    options = {"scenarios": [], "clock": times, "out": tmp_path}
    with pytest.raises(TemporaError, match="eata needs 32 clean unlabelled samples"):
        evaluate(network("fashion_resnet"), batches, asked, **options)
    results = evaluate(network("fashion_resnet"), batches, asked, source=source, **options)
    assert set(results.utilities["method"]) == {"eata", "tent"}
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "traces").iterdir()}
    evaluate(network("fashion_resnet"), batches, asked, source=source.flip(-2), **options)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "traces").iterdir()}
    kept = {path for path in before if after.get(path) == before[path]}
    assert len(after.keys() - before.keys()) == 1  # EATA with other source samples is another method
    assert any("tent" in path.name for path in kept)


def test_batches_that_are_no_function_are_said(network):
    with pytest.raises(TemporaError, match="batches 'json:codecs': is a module, not a function"):
        evaluate(network("fashion_resnet"), "json:codecs", ["standard"])
