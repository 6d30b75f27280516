"""`tempora reproduce`: the registry of the paper's elements, what times alone give, and the judgement on numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from tempora_tta import analysis, published
from tempora_tta.analysis.reproduction import (
    CLASSES,
    DERIVED,
    DIFFERS,
    EXACT,
    GIVEN,
    MISPRINT,
    NOT_RUN,
    ORDER,
    SEEDS,
    TIMING,
    compared,
    from_run,
    from_times,
    hours,
)
from tempora_tta.errors import TemporaError
from tempora_tta.published.elements import elements, numbers
from tempora_tta.report.reproduced import laid_out

LABELS = (Path(__file__).parent / "paper_labels.txt").read_text(encoding="utf-8").split()
"""Every `\\label{table:...}` of the paper's source but those of notation and terminology, which hold no numbers."""


@pytest.fixture(scope="module")
def by_time() -> pd.DataFrame:
    return compared({name: from_times(published.setup(name)) for name in published.setups()})


def test_every_table_of_the_paper_has_an_element_and_every_number_is_in_one() -> None:
    tables = {label for label in elements() if label.startswith("table:")}
    assert tables == {f"table:{label}" for label in LABELS}
    assert len(tables) == 58
    assert len(numbers()) == 6105
    assert set(numbers()["element"]) == tables


def test_terms_of_time_follow_from_the_printed_means(by_time: pd.DataFrame) -> None:
    """Everything that times decide is exact or explained; nothing else is claimed."""
    assert (by_time["verdict"] != DIFFERS).all()
    timed = by_time["column"].isin(["availability", "responsiveness", "adapted_fraction", "served_batches"])
    assert (by_time.loc[timed, "verdict"] != NOT_RUN).all()
    assert set(by_time.loc[by_time["column"].str.contains("accuracy|utility|winner"), "verdict"]) == {NOT_RUN}
    factors = by_time[(by_time["table"] == "temporal_factors") & (by_time["setup"] == "rn50_inc")]
    factors = factors.set_index(["method", "factor"])
    assert factors.loc[("tent", "cutoff"), "found"] == 18
    assert factors.loc[("tent", "cutoff"), "verdict"] == EXACT
    assert set(by_time.loc[by_time["table"] == "overhead", "verdict"]) == {GIVEN}


def test_hours_on_the_papers_machine() -> None:
    assert hours(published.setup("rn50_inc")) == pytest.approx(12.9, rel=0.05)


def of_the_paper(setups: Sequence[str], change: float = 0.0) -> pd.DataFrame:
    """Return a run that got what the paper prints, but one utility of Tent's, which is off by `change`."""
    made = {}
    for name in setups:
        utilities = published.as_utilities(name, "aggregate")
        off = (utilities["method"] == "tent") & (utilities["label"] == "T 100 ms")
        utilities["utility"] += change * off
        made[name] = from_run(analysis.cells(utilities), None, published.setup(name))
    return compared(made)


def test_a_run_that_gets_the_printed_numbers_is_exact() -> None:
    rows = of_the_paper(published.setups())
    printed = rows[rows["table"].isin(["offline", "utility_sweeps"]) & (rows["verdict"] != NOT_RUN)]
    assert len(printed) == 1198  # printed for all shifts together
    assert (printed["verdict"] == EXACT).all()
    assert not (rows["verdict"] == DIFFERS).any()


def test_a_number_that_is_off_differs_and_what_follows_from_it_is_not_explained() -> None:
    rows = of_the_paper(["rn50_inc"], change=0.05)
    off = rows[(rows["verdict"] == DIFFERS) & (rows["table"] == "utility_sweeps")]
    assert set(zip(off["method"], off["label"], strict=True)) == {("tent", "T 100 ms")}
    assert not (rows["verdict"] == DERIVED).any()


@pytest.mark.parametrize(
    ("setup", "method", "label", "off", "sd", "expected"),
    [
        ("rn50_inc", "standard", "ρ 100 %", 0.00034, 0.0, ORDER),
        ("rn50_inc", "neo", "ρ 100 %", 0.00034, 0.0, DIFFERS),
        ("rn50_inc", "tent", "ρ 100 %", 0.004, 0.0025, SEEDS),
        ("rn50_inc", "tent", "ρ 100 %", 0.004, 0.0015, DIFFERS),
        ("vit_inv2", "tent", "B 40 s", 0.02, 0.0, MISPRINT),
    ],
)
def test_why_a_number_may_be_off(
    setup: str, method: str, label: str, off: float, sd: float, expected: str
) -> None:
    printed = published.table("utility_sweeps", setup)
    printed = printed[(printed["method"] == method) & (printed["label"] == label)]
    key = printed[["setup", "shift", "method", "protocol", "label"]]
    ours = {setup: {"utility_sweeps": key.assign(utility=printed["utility"] + off)}}
    rows = compared(ours, {setup: key.assign(utility_sd=sd)})
    assert set(rows.loc[rows["verdict"] != NOT_RUN, "verdict"]) == {expected}


def test_tables_stand_as_the_paper_lays_them_out(by_time: pd.DataFrame) -> None:
    """By method, by corruption, and of two machines or data sets side by side."""
    shapes = {
        "val-offline": ("Method", 11, 4),
        "offline-full": ("Shift", 16, 10),
        "cifar10c-discrete-sweep": ("Method", 8, 10),
        "discrete-100-gf": ("Shift", 15, 8),
        "winners-resnet50": ("Shift", 15, 17),
    }
    for label, shape in shapes.items():
        table = laid_out(f"table:{label}", by_time, "paper")
        assert (table.columns[0].title, len(table.rows), len(table.columns) - 1) == shape
        assert all(cell.value is not None for row in table.rows for cell in row)
    assert laid_out("table:temporal-factors", by_time, "both").text(4, 1) == "41.2 (41.2)"


def test_the_command_without_data(tmp_path: Path, said) -> None:
    said("reproduce", "table:temporal-factors", "--out", tmp_path)
    page = (tmp_path / "REPRODUCED.md").read_text(encoding="utf-8")
    assert all(name in page for name in [*CLASSES, *elements()])
    assert f"{TIMING} | 0" not in page
    assert "50 not run: needs imagenet_c, about 13.4 h" in page
    own = said("reproduce", "verdict", "--times", "own", "--out", tmp_path)
    assert "0 of the 6,105 printed numbers" in own
    with pytest.raises(TemporaError, match="table:temporal-factors"):
        said("reproduce", "table:temporal-factor")
