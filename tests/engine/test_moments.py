"""Moments that a time-aware method is told, in passes and in the live pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import tempora_tta as tempora
from live_clock import FakeClock, tiny_network
from tempora_tta.methods import LEARNS, Method, Moment
from tempora_tta.scenarios import Amortised, Continuous, Deployment, Discrete, Poisson, Scenario

CLOCK = {"baseline_ms": 40, "standard": (38, 0), "listener": (42, 30)}
STREAM = [(torch.full((2, 1, 2, 2), float(number)), torch.zeros(2, dtype=torch.int64)) for number in range(6)]

told: list[tuple[str, Moment]] = []


@pytest.fixture(autouse=True)
def nothing_told() -> Iterator[None]:
    told.clear()
    yield
    told.clear()


class Listener(Method):
    """Keeps what it is told."""

    name = "listener"
    time_aware = True
    actions = {"step": LEARNS}
    modes = ("looking", "learning")

    @torch.no_grad()
    def predict(self, x: Tensor, moment: Moment) -> Tensor:  # type: ignore[override]
        told.append(("frozen" if self.frozen else "predict", moment))
        self.work = ("looking", 0.0)
        return self.model(x)

    def adapt(self, moment: Moment) -> str:  # type: ignore[override]
        told.append(("adapt", moment))
        self.work = ("learning", 0.0)
        return "step"


def heard(scenario: Scenario, **settings: Any) -> dict[str, list[Moment]]:
    """Return what the listener was told in the pass of a scenario, after the offline pass and the warm-up."""
    results = tempora.evaluate(
        tiny_network(),
        STREAM,
        [(Listener, settings)],
        [scenario],
        clock=CLOCK,
        device="cpu",
        warmup_batches=2,
    )
    assert set(results.utilities["status"]) == {"ok"}
    began = [position for position, (_, moment) in enumerate(told) if moment.baseline_ms is None]
    moments = told[began[-1] + 1 :]  # the warm-up is told nothing
    return {
        phase: [moment for said, moment in moments if said == phase]
        for phase in ("predict", "adapt", "frozen")
    }


def test_a_periodic_schedule_says_how_long_the_pipeline_may_be_busy_also_at_its_end() -> None:
    moments = heard(Discrete(interval_ms=100))
    assert [moment.slack_ms for moment in moments["predict"]] == [100.0] * 6
    assert [moment.slack_ms for moment in moments["adapt"]] == [58.0] * 6
    assert {moment.queued for moment in moments["adapt"]} == {0}
    first = moments["predict"][0]
    assert (first.cost_ms, first.mode_cost_ms) == ({"step": 30.0}, {"looking": 42.0, "learning": 30.0})
    first = heard(Discrete(interval_ms=41))["adapt"][0]
    assert (first.now_ms, first.queued, first.slack_ms) == (42.0, 1, 40.0), "one came meanwhile"
    reforward = heard(Discrete(interval_ms=100), reforward=True)["predict"]
    assert len(reforward) == 12, "each batch twice"
    assert reforward[-1].cost_ms == {"step": 42.0 + 30.0 + 42.0}, "the prediction holds the step"


def test_the_next_arrival_of_a_random_schedule_is_not_told() -> None:
    moments = heard(Deployment(arrivals=Poisson(interval_ms=100), deadline_ms=90, residuals=False))
    assert {moment.slack_ms for moment in (*moments["predict"], *moments["adapt"])} == {None}
    assert {(moment.interval_ms, moment.deadline_ms) for moment in moments["predict"]} == {(100.0, 90.0)}


def test_the_greedy_user_waits_while_the_model_adapts() -> None:
    moments = heard(Continuous(threshold_ms=100))
    assert [moment.queued for moment in moments["predict"]] == [0] * 6
    assert [(moment.queued, moment.slack_ms) for moment in moments["adapt"]] == [(1, 0.0)] * 5 + [(0, None)]
    assert {moment.threshold_ms for moment in moments["adapt"]} == {100.0}


def test_a_frozen_model_is_told_as_much() -> None:
    moments = heard(Amortised(budget_ms=70, rule="overshoot"))
    assert len(moments["predict"]) == 3
    assert [moment.budget_left_ms for moment in moments["adapt"]] == [70.0, 38.0, 6.0]
    assert [moment.now_ms for moment in moments["frozen"][:1]] == [3 * 72.0]
    for moment in moments["frozen"]:
        assert (moment.budget_left_ms, moment.spent_ms, moment.baseline_ms) == (0.0, 96.0, 40.0)
        assert moment.cost_ms == {"step": 30.0}


class Hurrying(Method):
    """Method whose predictions depend on what it was told."""

    name = "hurrying"
    time_aware = True
    actions = {"hurry": LEARNS}
    state = ("shift",)

    def setup(self) -> None:
        self.shift = 0.0

    @torch.no_grad()
    def predict(self, x: Tensor, moment: Moment) -> Tensor:  # type: ignore[override]
        return self.logits(x + self.shift)

    def adapt(self, moment: Moment) -> str:  # type: ignore[override]
        self.shift += 0.1 * moment.queued + 0.001 * sum(moment.cost_ms.values())
        return "hurry" if moment.queued else "none"


def test_the_live_pipeline_tells_the_same() -> None:
    clock = FakeClock()

    class Working(Listener):
        def predict(self, x: Tensor, moment: Moment) -> Tensor:  # type: ignore[override]
            clock.advance(42)
            return super().predict(x, moment)

        def adapt(self, moment: Moment) -> str:  # type: ignore[override]
            clock.advance(30)
            return super().adapt(moment)

    knobs = {"interval_ms": 100, "deadline_ms": 90, "baseline_ms": 40, "budget_ms": 20}
    with tempora.deploy(
        tiny_network(), Working, device="cpu", clock=clock, example=STREAM[0][0][:1], **knobs
    ) as pipeline:
        told.clear()
        for x, _ in STREAM[:2]:
            pipeline.submit(x[:1]).result()
            assert pipeline.wait()
            clock.advance(28)
    (_, first), (_, after), (phase, frozen) = told
    assert first.cost_ms == {"step": 30.0}  # of the warm-up
    assert first.mode_cost_ms == {"looking": 42.0, "learning": 30.0}
    assert (first.slack_ms, after.slack_ms) == (100.0, 58.0)
    assert phase == "frozen"
    assert (frozen.budget_left_ms, frozen.spent_ms, frozen.deadline_ms, frozen.slack_ms) == (
        0.0,
        32.0,
        90.0,
        100.0,
    )


def test_passes_of_their_own_agree_to_the_bit_whether_others_share_or_not() -> None:
    network = tiny_network()
    shared, unshared = (
        tempora.evaluate(
            network,
            STREAM,
            [Hurrying],
            [Discrete(interval_ms=50), Continuous(threshold_ms=90), Amortised(budget_x=0.25)],
            clock=CLOCK | {"hurrying": (42, 30)},
            share=share,
        )
        for share in (True, False)
    )
    assert shared.traces.equals(unshared.traces)
    assert set(shared.utilities["origin"]) == {"live"}
    assert shared.traces.groupby("protocol")["action"].agg(set).to_dict()["discrete"] >= {"none", "hurry"}
