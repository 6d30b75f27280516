"""Lost batches that are answered: through passes, tables and files, in every preset."""

from __future__ import annotations

import pytest

import tempora_tta as tempora
from tempora_tta.scenarios import Discrete, grid

CLOCK = {"baseline_ms": 40, "standard": (30, 0), "tent": (41, 56)}
PRESETS = ("camera", "server", "wearable", "alfarra", "alfarra-single")


def test_the_presets_run_and_random_answers_choose_from_the_classes_of_the_run(network, batches):
    scenarios = [Discrete(interval_ms=40.0, queue=0), *(one for name in PRESETS for one in grid(name))]
    cells = tempora.evaluate(
        network("fashion_resnet"), batches, ["standard", "tent"], scenarios, clock=CLOCK, device="cpu"
    ).utilities
    assert (cells["status"] == "ok").all()
    assert (cells[cells["label"].str.contains("fallback")]["availability"] == 1).all()
    assert cells["response_p50_ms"].notna().all()
    assert cells["response_p99_ms"].isna().all(), "eight batches say nothing about one in a hundred"
    guessed = cells.query("label == 'ρ 100 %, queue 0, fallback random'").set_index("method")
    lost = cells.query("protocol == 'discrete'").groupby("method").first()
    for method, cell in guessed.iterrows():
        share = 1 - lost.loc[method, "availability"]
        assert cell["utility"] == pytest.approx(lost.loc[method, "utility"] + share / 10)
        assert cell["fallback_fraction"] == pytest.approx(share)
