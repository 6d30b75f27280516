"""Each known inconsistency is really there, so the list stays true to the tables."""

from __future__ import annotations

import numpy as np
import pytest

from tempora_tta import published
from tempora_tta.published import Inconsistency, known_inconsistencies
from tempora_tta.scenarios import Discrete, budget_cutoff


def known(number: int) -> Inconsistency:
    return known_inconsistencies()[number - 1]


def test_fifteen_are_known_and_found_by_setup() -> None:
    assert [found.number for found in known_inconsistencies()] == list(range(1, 16))
    assert [found.number for found in known_inconsistencies("rn50_inv2")] == [5, 6, 7]
    assert {found.number for found in known_inconsistencies() if found.kind == "text"} == set(range(8, 16))
    assert all(found.where for found in known_inconsistencies() if found.kind == "text")
    for found in known_inconsistencies()[:7]:
        cells = found.cells()
        assert not cells.empty
        assert set(cells["setup"]) == set(found.setups)
        assert set(found.columns) <= set(cells.columns)


def test_1_late_budgets_repeat_the_first() -> None:
    cells = known(1).cells()
    assert len(cells) == 7
    sweep = published.table("utility_sweeps", "vit_inv2")
    first = sweep[sweep["label"] == "B 2.5 s"].set_index("method")["utility"]
    assert (cells["utility"].to_numpy() == first[cells["method"]].to_numpy()).all()
    frame = cells[["setup", "protocol", "method", "value"]].iloc[[0, 0]].assign(method=["tent", "neo"])
    assert known(1).touches(frame).tolist() == [True, False], "touching needs only key columns"


def test_2_full_adaptation_contradicts_the_utility() -> None:
    assert (known(2).cells()["adapted_fraction"] == 1).all()


@pytest.mark.parametrize(
    ("setup", "method", "missing"), [("rn50_inc", "lame", 0.0030), ("vit_inc", "deyo", -0.0085)]
)
def test_3_covariance_between_corruptions_is_left_out_for_one_method(
    setup: str, method: str, missing: float
) -> None:
    rows = published.table("decomposition", setup).query("protocol == 'continuous' and shift == 'all'")
    gap = rows["utility"] - rows["accuracy"] * rows["responsiveness"] - rows["covariance"]
    assert rows.loc[known(3).touches(rows), "method"].tolist() == [method]
    assert gap[known(3).touches(rows)].item() == pytest.approx(missing, abs=0.0003)
    assert gap[~known(3).touches(rows)].abs().max() < 0.0011


def test_4_offline_accuracy_differs_between_machines() -> None:
    cells = known(4).cells().set_index("method")["utility"]
    offline = published.table("offline", "rn18_c10c_rtx4080").set_index("method")["accuracy"]
    assert cells["shot_im"] - offline["shot_im"] == pytest.approx(-0.0113, abs=0.0006)
    assert cells["eta"] - offline["eta"] == pytest.approx(0.001, abs=0.0006)


def test_5_the_crossing_batch_adapts() -> None:
    profile = published.profile("rn50_inc")
    factors = published.table("temporal_factors", "rn50_inc").set_index(["method", "factor"])["factor_value"]
    for method in ("tent", "eta", "shot_im", "sar"):
        times = profile[method]
        assert isinstance(times, tuple)
        charged = 1000.0 / (sum(times) - 39.9)
        assert factors[method, "cutoff"] == np.floor(charged) + 1


def test_6_the_buffered_last_arrival_is_served() -> None:
    rows = known(6).cells()
    rows = rows[(rows["setup"] == "rn50_inc") & (rows["shift"] == "all")].set_index("method")
    # SAR takes 195.2 ms a batch: while 781 batches arrive every 39.9 ms it starts 160 times, then it
    # drains one from the buffer.
    starts_while_arriving = int(np.floor(780 * 39.9 / 195.2)) + 1
    assert rows.loc["sar", "served_batches"] == 15 * (starts_while_arriving + 1)


def test_7_bold_ignores_the_gradient_free() -> None:
    rows = known(7).cells()
    best = rows.loc[rows.groupby("label")["utility"].idxmax()].set_index("label")
    assert best.loc[["B 16 s", "B 32 s"], "method"].tolist() == ["neo", "neo"]
    assert best.loc["B 16 s", "utility"] == 0.6321


def test_11_costs_are_clipped_in_both_rules() -> None:
    """Signed, the costs of all three batches would fit."""
    services = [100.0, 30.0, 100.0]
    found = [budget_cutoff(services, 40.0, 110.0, rule) for rule in ("strict", "overshoot")]
    assert found == [2, 3]


@pytest.mark.parametrize(("service_ms", "served"), [(80.0, range(0, 12, 2)), (40.0, range(12))])
def test_12_without_a_queue_a_tie_is_taken_where_alfarra_takes_it(service_ms: float, served: range) -> None:
    """Numbered from 1: 1, 3, 5, ...; "+2" would serve 1, 4, 7, 10 at 80 ms."""
    course = Discrete(interval_ms=40, queue=0).score(accuracy=[0.0] * 12, service_ms=service_ms).course
    assert course.served.tolist() == list(served)
