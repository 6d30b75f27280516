"""Runs and grids that are not like the paper's: every table is built, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.runs import a_run
from made_runs import METHODS, write_run
from tempora_tta import TemporaError, analysis
from tempora_tta.names import TABLES
from tempora_tta.report import tables
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline
from tempora_tta.store import Results

Change = Callable[[pd.DataFrame], pd.DataFrame]


def failed(frame: pd.DataFrame, rows: pd.Series) -> pd.DataFrame:
    numbers = frame.select_dtypes("number").columns.difference(["seed", "value", "queue", "baseline_ms"])
    frame.loc[rows, numbers] = np.nan
    frame.loc[rows, "status"] = "failed: RuntimeError: <b>no</b>"
    return frame


ODD: dict[str, Change] = {
    "offline only": lambda f: f[f["protocol"] == "offline"],
    "temporal only": lambda f: f[f["protocol"] != "offline"],
    "one method": lambda f: f[f["method"] == "tent"],
    "standard only": lambda f: f[f["method"] == "standard"],
    "no standard": lambda f: f[f["method"] != "standard"],
    "one shift": lambda f: f[f["shift"] == "fog"],
    "one cell": lambda f: f.iloc[:1],
    "nothing": lambda f: f.iloc[:0],
    "a method failed": lambda f: failed(f, f["method"] == "sar"),
    "standard failed": lambda f: failed(f, f["method"] == "standard"),
    "everything failed": lambda f: failed(f, f["method"] != ""),
    "all equal": lambda f: f.assign(utility=0.5, utility_lo=0.5, utility_hi=0.5),
    "unknown methods": lambda f: f.assign(method=f["method"].map(lambda name: f"<script>{name}|&_%")),
}
GRIDS = {
    "queues at two intervals": [Discrete(utilisation=u, queue=q) for u in (1.0, 0.5) for q in (0, 1, 2)],
    "both rules": [Amortised(budget_ms=100, rule=rule) for rule in ("strict", "overshoot")],
    "one point in two forms": [
        *(Discrete(interval_ms=10), Discrete(utilisation=1.0)),
        *(Continuous(threshold_ms=20), Continuous(threshold_x=2)),
        *(Amortised(budget_ms=15), Amortised(budget_baselines=1.5)),
    ],
    "queues with names": [
        Discrete(utilisation=1.0, queue=queue, name=f"ρ 100 % queue {queue}") for queue in (0, 1)
    ],
    "relative budgets": [Amortised(budget_x=0.25), Amortised(budget_x=1.0)],
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_a_table_of_an_odd_run_or_a_sentence(change: Change) -> None:
    frame, formats = change(a_run().assign(status="ok")), list(tables.FORMATS)
    for number, name in enumerate(TABLES):
        try:
            built = tables.build(name, frame)
        except TemporaError:
            continue
        assert tables.render(built, formats[number % len(formats)])


def made(folder: Path, grid: list, **more: object) -> Results:
    few = {method: METHODS[method] for method in ("standard", "adabn", "tent")}
    return write_run(folder, methods=few, scenarios=(Offline(), *grid), batches=8, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GRIDS)
def test_every_table_of_an_odd_grid_is_made_or_refused(name: str, tmp_path: Path) -> None:
    results = made(tmp_path, GRIDS[name])
    built = {}
    for table in TABLES:
        try:
            built[table] = tables.build(table, results.utilities, results.traces, cards=results.cards)
        except TemporaError:
            continue
        methods = [row[0].value for row in built[table].rows]
        assert len(methods) == len(set(methods))
    assert built.keys() >= {"offline", "winners", "sweep", "temporal-factors"}
    assert ("buffering" in built) == ("queues" in name)


def test_overhead_is_of_the_shift_that_was_asked_for(tmp_path: Path) -> None:
    results = made(tmp_path, [])
    traces = results.traces.assign(predict_ms=results.traces["shift"].map({"fog": 10.0, "snow": 20.0}))
    for shift, predict_ms in (("fog", 10.0), ("snow", 20.0)):
        rows = tables.build("overhead", results.utilities, traces, shift=shift).data
        assert set(rows["predict_ms"]) == {predict_ms}


def test_a_method_that_failed_on_a_shift_ranks_last_and_is_marked(tmp_path: Path) -> None:
    frame = made(tmp_path, GRIDS["relative budgets"]).utilities
    frame["utility"] = frame["utility"].mask(frame["method"] == "tent", 1.0)
    frame = failed(frame, (frame["method"] == "tent") & (frame["shift"] == "snow"))
    assert analysis.pool(frame).query("method == 'tent'")["shifts"].unique().tolist() == [1]
    for name in ("offline", "sweep"):
        table = tables.build(name, frame)
        (tent,) = (row for row in table.rows if row[0].value == "Tent")
        assert (tent[1].value, tent[1].rank, tent[1].mark, tent[1].flag) == (1.0, 3, "", "†")
        assert any("failed" in note for note in table.notes)
