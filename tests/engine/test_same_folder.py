"""A run into the folder of an earlier one: what is added costs only what is new, and nothing leaves unasked."""

from __future__ import annotations

import pytest
from latencies import CLOCK

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.scenarios import Discrete

HALF, FULL = Discrete(utilisation=0.5), Discrete(utilisation=1)


@pytest.fixture
def run(network, batches, tmp_path):
    """Run into one folder."""

    def run(methods, scenarios=(HALF,), streams=None, **options):
        given = streams or {"first": batches[:3], "second": batches[2:5]}
        results = tempora.evaluate(
            network("fashion_resnet"),
            given,
            methods,
            list(scenarios),
            out=tmp_path / "run",
            **{"clock": CLOCK, "device": "cpu", "warmup_batches": 1, **options},
        )
        assert len(results.utilities)  # read now: the next run writes into the same folder
        return results

    return run


def test_methods_scenarios_and_shifts_are_added_to_what_is_there(run, batches):
    first = run(["standard", "adabn"], streams={"first": batches[:3]})
    made = {path.name: path.stat().st_mtime_ns for path in first.path.glob("traces/*")}
    more = run(["standard", "adabn", "tent"], [FULL, HALF])
    kept = more.utilities.merge(first.utilities[["method", "shift", "label"]])
    assert kept["utility"].tolist() == first.utilities["utility"].tolist()
    assert {
        path.name: path.stat().st_mtime_ns for path in first.path.glob("traces/*")
    }.items() >= made.items()
    assert len(more.utilities) == 3 * 2 * 3
    again = run(["standard", "adabn", "tent"], [FULL, HALF])
    assert again.manifest["notes"] == more.manifest["notes"], "no pass was made again"


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"methods": ["standard", "tent"]}, "adabn"),
        ({"scenarios": [FULL]}, "50"),
        ({"seed": 7}, "2025"),
        ({"baseline_ms": 41.0}, "lambda"),
        ({"clock": {**CLOCK, "tent": (50, 50)}}, "clock"),
        ({"streams": ["first"]}, "second.*data"),
    ],
)
def test_a_run_that_would_lose_results_is_refused(run, batches, tmp_path, change, lost):
    before = run(["standard", "adabn"])
    if "streams" in change:
        change = {"streams": {"first": batches[3:6]}}
    with pytest.raises(TemporaError, match=rf"{lost}.*--replace"):
        run(**{"methods": ["standard", "adabn"], **change})
    assert tempora.open_run(tmp_path / "run").utilities.equals(before.utilities)
