"""Lost batches of a live pass: who answers them, in which state, and how long that takes."""

from __future__ import annotations

import pytest
import torch

import tempora_tta as tempora
from tempora_tta.methods import Method
from tempora_tta.scenarios import Deployment, Discrete, grid

CLOCK = {"baseline_ms": 40, "standard": (30, 0), "counting": (60, 40), "tent": (41, 56)}


class Counting(Method):
    """Predicts the class that is the number of batches it has adapted on."""

    name = "counting"
    state = ("adapted",)

    def setup(self) -> None:
        self.adapted = 0

    @torch.no_grad()
    def predict(self, x):
        return torch.nn.functional.one_hot(torch.full((len(x),), self.adapted % 10), 10).float()

    def adapt(self) -> str:
        if not self.frozen:
            self.adapted += 1
        return "step"


def lived(network, batches, methods=(Counting,), scenarios=(), **knobs):
    scenarios = scenarios or [Deployment(interval_ms=40, queue=0, **knobs)]
    return tempora.evaluate(
        network("fashion_resnet"), batches, list(methods), scenarios, clock=CLOCK, device="cpu"
    )


def rows(results, method):
    traces = results.traces
    return traces[(traces["protocol"] == "deployment") & (traces["method"] == method)].set_index("index")


@pytest.mark.parametrize(
    ("cost", "phases", "classes"),
    [
        # Busy 0 to 100, 120 to 220, 240 to 340: what is lost meanwhile meets the state before that batch.
        (
            "free",
            ["adapt", "lost", "lost", "adapt", "lost", "lost", "adapt", "lost"],
            [0, 0, 0, 1, 1, 1, 2, 2],
        ),
        # Busy 0 to 100; a turn until 160; 4 until 260; then 3, 5 and 6 (lost by 260), and 7, lost at 280.
        (
            "charged",
            ["adapt", "lost", "lost", "lost", "adapt", "lost", "lost", "lost"],
            [0, 1, 1, 2, 1, 2, 2, 2],
        ),
    ],
)
def test_latest_is_the_state_after_the_last_finished_adaptation(network, batches, cost, phases, classes):
    results = lived(network, batches, fallback="latest", fallback_cost=cost)
    trace = rows(results, "counting")
    assert trace["phase"].tolist() == [phase.replace("lost", "fallback") for phase in phases]
    assert [predicted[0] for predicted in trace["predicted"]] == classes
    lost = trace[trace["phase"] == "fallback"]
    assert set(lost["predict_ms"]) == {30}, "Standard's time"
    assert set(lost["adapt_ms"]) == {0}
    cell = results.utilities.set_index("protocol").loc["deployment"]
    assert cell["availability"] == 1
    assert cell["fallback_fraction"] == len(lost) / 8
    if cost == "free":
        assert set(lost["emission_ms"] - lost["arrived_ms"]) == {30}


def test_the_presets_run(network, batches):
    """Every knob that they turn, through passes, tables and files."""
    scenarios = [scenario for name in ("camera", "server", "wearable", "alfarra") for scenario in grid(name)]
    results = lived(network, batches, ["standard", "tent"], scenarios)
    cells = results.utilities
    assert (cells["status"] == "ok").all()
    assert (cells[cells["label"].str.contains("fallback")]["availability"] == 1).all()
    assert cells["response_p50_ms"].notna().all()
    assert cells["response_p99_ms"].isna().all(), "eight batches say nothing about one in a hundred"


def test_random_answers_choose_from_the_classes_of_the_run(network, batches):
    scenarios = [*grid("alfarra-single"), Discrete(interval_ms=40.0, queue=0)]
    cells = lived(network, batches, ["standard", "tent"], scenarios).utilities
    guessed = cells.query("label == 'ρ 100 %, queue 0, fallback random'").set_index("method")
    lost = cells.query("protocol == 'discrete'").set_index("method")
    for method, cell in guessed.iterrows():
        share = 1 - lost.loc[method, "availability"]
        assert cell["utility"] == pytest.approx(lost.loc[method, "utility"] + share / 10)
        assert cell["fallback_fraction"] == pytest.approx(share)
