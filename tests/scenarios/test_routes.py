"""The way to each cell's score, and the reason for it: one function decides."""

from __future__ import annotations

import numpy as np
import pytest

from tempora_tta.scenarios import (
    Amortised,
    Continuous,
    Deployment,
    Discrete,
    Offline,
    grid,
    replay,
    route,
)
from tempora_tta.scenarios.grids import GRIDS

N, LAMBDA = 20, 40.0


def offline(predict_ms=41.0, adapt_ms=56.0, adapted=None):
    timeline = Offline().resolve(num_batches=N).timeline()
    return replay(timeline, np.full(N, predict_ms), np.full(N, adapt_ms), adapted=adapted)


def asked(scenario, course=None, **promises):
    resolved = scenario.resolve(num_batches=N, baseline_ms=LAMBDA)
    return route(resolved, course if course is not None else offline(), **promises)


SKIPS, SKIPS_NOT = {"interval_ms": 60.0}, {"interval_ms": 100.0}
FREE = {"history_free": True}
FREE_STATELESS = {"history_free": True, "stateless": True}


@pytest.mark.parametrize(
    ("scenario", "promises", "way"),
    [
        (Offline(), {}, "offline"),
        (Continuous(threshold_ms=100), {}, "offline"),
        (Deployment(arrivals="on_prediction", deadline_ms=1), {}, "offline"),
        (Continuous(threshold_ms=100), {"time_aware": True}, "live"),
        # Budgets of a stream that waits.
        (Amortised(budget_ms=1e6), {}, "offline"),
        (Amortised(budget_ms=4 * 57), {}, "tail(4)"),
        (Amortised(budget_ms=4 * 57 + 1, rule="overshoot"), {}, "tail(5)"),
        (Amortised(budget_ms=0, rule="overshoot"), FREE_STATELESS, "tail(0)"),
        # Schedules.
        (Discrete(**SKIPS_NOT), {}, "offline"),
        (Discrete(**SKIPS), {}, "live"),
        (Discrete(**SKIPS), {"stateless": True}, "live"),
        (Discrete(**SKIPS), FREE, "replay"),
        # Budgets on a schedule: one that lasts changes nothing; one that runs out before anything is lost is a tail.
        (Deployment(**SKIPS_NOT, budget_ms=1e6), {}, "offline"),
        (Deployment(**SKIPS, budget_ms=1e6), {}, "live"),
        (Deployment(**SKIPS, budget_ms=1e6), FREE, "replay"),
        (Deployment(**SKIPS_NOT, budget_ms=200), {}, "tail(4)"),
        (Deployment(**SKIPS, budget_ms=50), {}, "tail(1)"),
        (Deployment(**SKIPS, budget_ms=1000), {}, "live"),
        (Deployment(**SKIPS, budget_ms=500), FREE, "live"),
        (Deployment(**SKIPS, budget_ms=500), FREE_STATELESS, "tail(14)"),
        # Fallbacks, where something is lost.
        (Deployment(**SKIPS_NOT, fallback="latest"), {}, "offline"),
        (Deployment(**SKIPS, fallback="standard"), {}, "live"),
        (Deployment(**SKIPS, fallback="standard"), FREE, "replay"),
        (Deployment(**SKIPS, fallback="standard", fallback_cost="charged"), FREE, "replay"),
        (Deployment(**SKIPS, fallback="latest"), FREE, "live"),
        (Deployment(**SKIPS, fallback="latest"), FREE_STATELESS, "replay"),
        (Deployment(**SKIPS, fallback="standard", budget_ms=500), FREE_STATELESS, "live"),
        (Deployment(**SKIPS, fallback="standard", budget_ms=1e6), FREE, "replay"),
        (Deployment(**SKIPS, fallback="standard", fallback_cost="charged", budget_ms=1e6), FREE, "live"),
    ],
)
def test_what_a_cell_needs(scenario, promises, way):
    found = asked(scenario, **promises)
    assert str(found) == way, found.why
    assert found.why


def test_a_method_that_froze_itself_pays_nothing_after_that():
    adapted = np.arange(N) < 3
    assert str(asked(Amortised(budget_ms=4 * 57), offline(adapted=adapted))) == "offline"
    assert str(asked(Amortised(budget_ms=2 * 57), offline(adapted=adapted))) == "tail(2)"


@pytest.mark.parametrize(
    ("deployment", "promises", "way", "possible"),
    [
        (Deployment(arrivals="on_prediction"), {}, "offline", ()),
        (Deployment(arrivals="on_completion", budget_x=0.1), {}, "unknown-yet", ("offline", "tail")),
        (Deployment(utilisation=0.5), {}, "unknown-yet", ("offline", "live")),
        (Deployment(utilisation=0.5), FREE, "replay", ()),
        (Deployment(utilisation=0.5, fallback="latest"), FREE, "unknown-yet", ("offline", "live")),
        (Deployment(utilisation=0.5, budget_x=1), {}, "unknown-yet", ("offline", "tail", "live")),
    ],
)
def test_what_can_be_said_before_the_offline_pass(deployment, promises, way, possible):
    """No lambda is needed for it."""
    found = route(deployment, **promises)
    assert (found.kind, found.possible) == (way, possible)


@pytest.mark.parametrize("history_free", [True, False])
@pytest.mark.parametrize("stateless", [True, False])
@pytest.mark.parametrize("speed", [0.5, 1.0, 1.5, 3.0])
def test_what_was_said_beforehand_holds_afterwards(history_free, stateless, speed):
    promises = {"history_free": history_free, "stateless": stateless}
    for scenario in (scenario for name in GRIDS for scenario in grid(name)):
        if scenario.not_applicable(LAMBDA) is not None:
            continue
        before = route(scenario.deployment(), **promises)
        after = asked(scenario, offline(predict_ms=41 * speed, adapt_ms=56 * speed), **promises)
        allowed = before.possible or {"replay": ("replay", "offline")}.get(before.kind, (before.kind,))
        assert after.kind in allowed, (scenario.label, before, after)


def test_following_a_course_takes_a_resolved_deployment():
    with pytest.raises(TypeError, match="resolve"):
        route(Deployment(utilisation=0.5), offline())


def test_every_grid_can_be_told_apart_and_resolved():
    for name, about in GRIDS.items():
        scenarios = grid(name)
        labels = {(scenario.protocol, scenario.label) for scenario in scenarios}
        assert len(labels) == len(scenarios), name
        assert about.about
        for scenario in scenarios:
            if scenario.not_applicable(LAMBDA) is None:
                scenario.resolve(num_batches=N, baseline_ms=LAMBDA)
    alfarra = grid("alfarra")[0].resolve(num_batches=N, baseline_ms=LAMBDA)
    assert (alfarra.queue, alfarra.fallback, alfarra.fallback_cost) == (0, "latest", "free")
