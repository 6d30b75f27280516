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
from tempora_tta.engine import Run
from tempora_tta.engine.build import job_from_python
from tempora_tta.methods import Method
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


CALLS = []


class Counts(Method):
    """Gives nothing but NaN, and counts."""

    name = "counts"

    def setup(self):
        CALLS.append("made")

    def predict(self, x):
        CALLS.append(len(x))
        return torch.full((len(x), 10), math.nan)


def test_a_method_is_made_once_for_each_task_and_fails_once_for_all_scenarios(network, batches, tmp_path):
    """The one that shows whether it fits serves its first task."""
    CALLS.clear()
    options = {"clock": {**CLOCK, "counts": (40, 0)}, "warmup_batches": 0, "out": tmp_path / "run"}
    shifts = {"a": batches[:2], "b": batches[2:4]}
    with pytest.raises(TemporaError, match=r"8 of 8 cells.*counts.*NaN"):
        evaluate(network("fashion_resnet"), shifts, [Counts], **options)
    results = tempora.open_run(tmp_path / "run")
    assert results.utilities["status"].str.contains("NaN").all()
    assert (len(results.utilities), len(results.traces)) == (8, 0)
    assert CALLS == ["made", 8, 8] * 2


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


def test_source_samples_reach_the_methods_that_ask_for_them(network, batches, tmp_path):
    source = torch.cat([x for x, _ in batches]).flip(-1)
    asked = [("eata", {"samples": 32}), "tent"]
    times = {**CLOCK, "eata": (50.0, 60.0)}
    options = {"scenarios": [], "clock": times, "out": tmp_path}
    with pytest.raises(TemporaError, match=r"eata.*32.*source"):
        evaluate(network("fashion_resnet"), batches, asked, **options)
    results = evaluate(network("fashion_resnet"), batches, asked, source=source, **options)
    assert set(results.utilities["method"]) == {"eata", "tent"}
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "traces").iterdir()}
    evaluate(network("fashion_resnet"), batches, asked, source=source.flip(-2), **options)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "traces").iterdir()}
    kept = {path for path in before if after.get(path) == before[path]}
    assert len(after.keys() - before.keys()) == 1  # EATA with other source samples is another method
    assert any("tent" in path.name for path in kept)


def test_the_measured_clock_predicts_the_same_judges_itself_and_reuses_lambda(network, batches, tmp_path):
    options = {"clock": "measured", "calibration_batches": 10, "out": tmp_path / "run"}
    model = network("fashion_resnet")
    assert replacing(model, batches, tmp_path / "run").manifest["baseline"]["baseline_ms"] == 40
    first = replacing(model, batches, **options)
    predicted = first.traces["predicted"].map(list).tolist()
    manifest = first.manifest
    assert manifest["baseline"]["source"] == "measured"
    assert manifest["baseline"]["batches"] == 10
    assert manifest["baseline"]["baseline_ms"] >= manifest["baseline"]["median_ms"]
    assert manifest["verdict"]["status"] in ("VALID", "WARN", "INVALID")
    assert manifest["machine"]["threads"] == torch.get_num_threads()
    assert (first.utilities["utility_lo"] <= first.utilities["utility"]).all()
    again = replacing(model, batches, **options)
    assert again.manifest["baseline"] == manifest["baseline"]
    assert again.traces["predicted"].map(list).tolist() == predicted
    small = replacing(model, [(x[:2], y[:2]) for x, y in batches], **options)
    assert small.manifest["baseline"] != manifest["baseline"], "of batches of another size"
    other = replacing(model, batches, **options, provision=2.0).manifest["baseline"]
    assert other["provision"] == 2.0


def test_lambda_is_as_given_scenarios_that_cannot_be_are_said_equal_ones_are_one(network, batches, tmp_path):
    alike = [Continuous(threshold_ms=30), Continuous(threshold_ms=100), Continuous(threshold_ms=100.0)]
    alike += [Amortised(budget_x=1 / 3), Amortised(budget_x=0.3333, name="a third")]
    run = evaluate(network("fashion_resnet"), batches[:2], ["standard"], scenarios=alike, baseline_ms=50)
    cells = run.utilities.set_index("label")
    assert cells.index.tolist() == ["offline", "T 30 ms", "T 100 ms", "B 33.3 % of λN", "a third"]
    assert set(cells["baseline_ms"]) == {50}
    assert (
        cells["status"].str.startswith("not applicable: threshold_ms=30").tolist()
        == [False, True] + [False] * 3
    )
    assert cells["utility"].isna().tolist() == [False, True, False, False, False]
    saved = run.save(tmp_path / "kept")
    assert tempora.open_run(saved).utilities.equals(run.utilities)
    with pytest.raises(TemporaError, match="kept"):
        run.save(tmp_path / "kept")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"methods": ["tnet"]}, "tnet.*'tent'"),
        ({"methods": []}, "method"),
        ({"methods": [("tent", 3)]}, r"3.*\(name, settings\)"),
        ({"methods": [("tent", {"lrr": 1})]}, "tent.*'lrr'.*'lr'"),
        ({"methods": ["eta", ("eta", {"source_stats": "keep"})]}, "'eta'.*label"),
        ({"batches": [(torch.zeros(2, 1, 28, 28), torch.tensor([3, 10]))]}, "3 to 10.* 0"),
        ({"batches": {}}, "shift"),
        ({"batches": []}, "empty"),
        ({"batches": "json:codecs"}, "json:codecs.*function"),
        ({"clock": {"standard": (1, 1)}}, "baseline_ms"),
        ({"clock": {"baseline_ms": 40, "standard": 5}}, r"standard.*\(predict_ms, adapt_ms\)"),
        ({"clock": {"baseline_ms": -1}}, "finite milliseconds"),
        ({"clock": {"baseline_ms": 40, "standard": (40, 0)}, "methods": ["tent"]}, "'tent'.*standard"),
        ({"clock": "published:rn50_in"}, "'rn50_in"),
        ({"clock": "no-such-file.json"}, "no-such-file.json"),
        ({"device": "cudaa"}, "cudaa"),
        ({"baseline_ms": -3}, "baseline_ms=-3.* 0"),
        ({"seeds": [1, 1]}, r"seeds=\[1, 1\].*once"),
        ({"scenarios": [Amortised(budget_x=1 / 3), Amortised(budget_x=0.3333)]}, "name"),
        ({"provision_y": 1}, "'provision_y'.*'provision_x'"),
        ({"rule": "lax"}, "rule='lax'.*overshoot, strict"),
        ({"stream": "circular"}, "circular.*continual"),
        ({"stream": "gradual"}, "severit"),
        ({"predict_with": "ampp"}, "ampp.*'amp'"),
        ({"calibration_batches": 1, "clock": "measured"}, "calibration_batches"),
        ({"method_timeout_s": 0}, "method_timeout_s=0"),
    ],
    ids=str,
)
def test_wrong_input_says_what_to_do(network, batches, change, said):
    arguments = {"batches": batches[:2], "methods": ["standard"], "clock": CLOCK, "device": "cpu"} | change
    with pytest.raises(TemporaError, match=said):
        tempora.evaluate(network("fashion_resnet"), **arguments)
