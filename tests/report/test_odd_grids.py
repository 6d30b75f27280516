"""Grids that users write and Tempora does not ship: every table and the page are made, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch

import tempora_tta as tempora
from made_runs import METHODS, write_run
from tempora_tta import TemporaError, analysis, models
from tempora_tta.report.html.page import render
from tempora_tta.report.tables import NAMES, build
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline

CLOCK = {"baseline_ms": 40, "standard": (38, 0), "adabn": (41, 0), "tent": (41, 56)}
GRIDS = {
    "queues at two intervals": [Discrete(utilisation=u, queue=q) for u in (1.0, 0.5) for q in (0, 1, 2)],
    "both rules": [Amortised(budget_ms=100, rule=rule) for rule in ("strict", "overshoot")],
    "one point in two forms": [
        *(Discrete(interval_ms=40), Discrete(utilisation=1.0)),
        *(Continuous(threshold_ms=80), Continuous(threshold_x=2)),
        *(Amortised(budget_ms=60), Amortised(budget_baselines=1.5)),
    ],
    "queues with names": [
        Discrete(utilisation=1.0, queue=0, name="ρ 100 % unbuffered"),
        Discrete(utilisation=1.0, queue=1, name="ρ 100 % buffered"),
    ],
    "relative budgets": [Amortised(budget_x=0.25), Amortised(budget_x=1.0)],
}


def run(scenarios: list, lengths: tuple[int, int] = (4, 8)) -> tempora.store.Results:
    generator = torch.Generator().manual_seed(0)
    shifts = {
        f"shift {number}": [
            (torch.randn(4, 1, 28, 28, generator=generator), torch.randint(10, (4,), generator=generator))
            for _ in range(length)
        ]
        for number, length in enumerate(lengths)
    }
    model, methods = models.load("fashion_resnet"), ["standard", "adabn", "tent"]
    return tempora.evaluate(model, shifts, methods, scenarios, clock=CLOCK, device="cpu")


@pytest.mark.parametrize("name", GRIDS)
def test_every_table_is_made_or_refused(name: str, tmp_path: Path) -> None:
    methods = {method: METHODS[method] for method in ("standard", "adabn", "tent")}
    results = write_run(tmp_path, methods=methods, scenarios=(Offline(), *GRIDS[name]), batches=8)
    made = set()
    for table in NAMES:
        try:
            rows = build(table, results.utilities, results.traces, cards=results.cards).rows
        except TemporaError:
            continue
        methods = [row[0].value for row in rows]
        assert len(methods) == len(set(methods))
        made.add(table)
    assert made >= {"offline", "winners", "sweep", "temporal-factors"}
    assert ("buffering" in made) == ("queues" in name)
    assert "<html" in render(results)


def test_a_relative_budget_is_one_scenario_on_shifts_of_any_length() -> None:
    results = run(GRIDS["relative budgets"])
    sweep = build("sweep", results.utilities)
    assert [column.title for column in sweep.columns] == ["Method", "B 25 % of λN", "B 100 % of λN"]
    pooled = analysis.pool(results.utilities)
    assert set(pooled["shifts"]) == {2}
    tent = results.utilities.query("method == 'tent' and label == 'B 25 % of λN'").set_index("shift")
    expected = (4 * tent.loc["shift 0", "utility"] + 8 * tent.loc["shift 1", "utility"]) / 12
    found = pooled.query("method == 'tent' and label == 'B 25 % of λN'")["utility"].item()
    assert found == pytest.approx(expected, abs=1e-12)


def test_overhead_is_of_the_shift_that_was_asked_for() -> None:
    results = run([])
    traces = results.traces.assign(predict_ms=results.traces["shift"].map({"shift 0": 10.0, "shift 1": 20.0}))
    for shift, predict_ms in (("shift 0", 10.0), ("shift 1", 20.0)):
        rows = build("overhead", results.utilities, traces, shift=shift).data
        assert set(rows["predict_ms"]) == {predict_ms}


def test_a_method_that_failed_on_a_shift_ranks_last_and_is_marked() -> None:
    results = run([Discrete(utilisation=1.0)], lengths=(4, 4))
    utilities = results.utilities
    failed = (utilities["method"] == "tent") & (utilities["shift"] == "shift 1")
    utilities = utilities.assign(
        status=utilities["status"].mask(failed, "failed: ValueError: no"),
        utility=utilities["utility"].mask(failed, float("nan")).mask(utilities["method"] == "tent", 1.0),
    )
    utilities["utility"] = utilities["utility"].mask(failed, float("nan"))
    for name in ("offline", "sweep"):
        table = build(name, pd.DataFrame(utilities))
        (tent,) = (row for row in table.rows if row[0].value == "Tent")
        assert tent[1].value == 1.0
        assert (tent[1].rank, tent[1].mark, tent[1].flag) == (3, "", "†")
        assert any("failed on some of these streams" in note for note in table.notes)
