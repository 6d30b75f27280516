"""Shared execution gives the same result as one pass per scenario, bit for bit, under a recorded clock."""

from __future__ import annotations

import json
from functools import cache

import pandas as pd
import pytest
import torch
from latencies import CLOCK

import tempora_tta as tempora
from tempora_tta import methods
from tempora_tta.config import RunConfig
from tempora_tta.engine.build import settle_torch
from tempora_tta.engine.job import Job
from tempora_tta.scenarios import (
    Amortised,
    Bursty,
    Continuous,
    Deployment,
    Discrete,
    Periodic,
    Poisson,
    relative_grid,
)

GRID = [
    *relative_grid(),
    Discrete(utilisation=1.0, queue=0),
    Discrete(interval_ms=90, queue=3),
    Amortised(budget_x=0.125, rule="overshoot"),
    Amortised(budget_ms=0, rule="overshoot"),
    Deployment(interval_ms=70, threshold_ms=150, budget_ms=120),
    Deployment(arrivals="on_prediction", threshold_ms=150, budget_ms=120),
    Deployment(arrivals=[0.0, 0.0, 0.0, 50.0, 60.0, 300.0, 310.0, 900.0], queue=2),
    Deployment(interval_ms=400, budget_ms=120),
    Deployment(interval_ms=45, budget_ms=1e6, queue=3),
    Deployment(arrivals=Poisson(utilisation=0.7), deadline_ms=97, queue=2),
    Deployment(arrivals=Bursty(utilisation=0.5), threshold_x=3, budget_ms=200),
    Deployment(arrivals="on_prediction", deadline_ms=97),
    *(
        Deployment(arrivals=arrivals, queue=queue, fallback=fallback, fallback_cost=cost, deadline_x=4)
        for arrivals, queue in ((Periodic(utilisation=1.0), 0), (Poisson(utilisation=0.8), 1))
        for fallback in ("latest", "standard")
        for cost in ("free", "charged")
    ),
    Deployment(interval_ms=45, fallback="latest", budget_ms=120),
    Deployment(interval_ms=45, fallback="standard", fallback_cost="charged", budget_ms=120),
    Deployment(fps=10, threshold_ms=500),
    Deployment(fps=60, cameras=3, batch_size=8, deadline_ms=85, queue=0, fallback="latest"),
    Deployment(fps=180, threshold_ms=150, queue=2, fallback="standard", fallback_cost="charged"),
    Deployment(fps=100, threshold_x=2, budget_ms=120),
]
ONE_OF_EACH = [
    Discrete(utilisation=1.0),
    Discrete(utilisation=0.25),
    Discrete(utilisation=1.0, queue=0),
    Continuous(threshold_x=2.5),
    Amortised(budget_x=0.125),
    Amortised(budget_x=0.125, rule="overshoot"),
    Deployment(interval_ms=70, threshold_ms=150, budget_ms=120),
    Deployment(arrivals="on_prediction", threshold_ms=150, budget_ms=120),
    Deployment(arrivals=Poisson(utilisation=0.7), deadline_ms=97, queue=2),
    Deployment(interval_ms=45, fallback="latest", budget_ms=120),
    Deployment(interval_ms=45, fallback="standard", fallback_cost="charged", deadline_x=4),
    Deployment(interval_ms=45, queue=0, fallback="random", classes=8),
    Deployment(interval_ms=45, fallback="random", classes=8, budget_ms=120, threshold_ms=150),
    Deployment(fps=30, cameras=4, deadline_ms=85),
    Deployment(fps=180, threshold_ms=150, budget_ms=200, fallback="latest"),
]
"""Every way a pass is shared or not."""
WHERE_FROM = ["origin", "adapting_pass", "frozen_pass", "fallback_pass"]


def same(first: tempora.store.Results, second: tempora.store.Results) -> None:
    pd.testing.assert_frame_equal(
        first.utilities.drop(columns=WHERE_FROM), second.utilities.drop(columns=WHERE_FROM), check_exact=True
    )
    pd.testing.assert_frame_equal(first.traces, second.traces, check_exact=True)


SMALL = {
    "eata": {"samples": 16},
    "rdumb": {"reset_every": 3},
    "cotta": {"views": 2},
    "rotta": {"capacity": 16},
    "memo": {"views": 2},
}
"""So that they act, and take no longer than the others."""


QUICK = [("fashion_resnet", method) for method in ("adabn", "lame", "tent")]
"""One of each kind of method, at every run of the tests; the others with the slow ones."""
FITTING = [
    ("fashion_vit" if method in ("spa", "zerosiam", "eta") else "fashion_resnet", method)
    for method in CLOCK
    if method not in ("standard", "baseline_ms")
]
"""Every method on one network that it fits."""


def both_ways(
    model,
    batches,
    method,
    clock=CLOCK,
    scenarios=ONE_OF_EACH,
    device="cpu",
    shares=(True, False),
    others=("standard",),
):
    settings = SMALL.get(method, {}) if isinstance(method, str) else {}
    chosen = [*others, (method, settings) if settings else method]
    source = torch.cat([x for x, _ in batches]).flip(-1)
    return [
        tempora.evaluate(
            model, batches, chosen, scenarios, clock=clock, device=device, share=share, source=source
        )
        for share in shares
    ]


@pytest.fixture(scope="module")
def runs(network, batches):
    """Both ways, made once: a method that is stateless, one that is history-free, and two that learn."""

    @cache
    def made(name, method):
        return both_ways(network(name), batches, method)

    return made


@pytest.mark.parametrize(("name", "method"), QUICK)
def test_one_of_each_kind(runs, name, method):
    shared, unshared = runs(name, method)
    assert (shared.utilities["status"] == "ok").all()
    assert len(shared.utilities) == 2 * (1 + len(ONE_OF_EACH))
    same(shared, unshared)


def test_a_live_pass_replays_to_its_own_course(runs):
    """The starts and finishes that a live pass wrote down are those that its times give on the timeline again."""
    _, unshared = runs("fashion_resnet", "tent")
    for _, cell in unshared.utilities[unshared.utilities["method"] == "tent"].iterrows():
        stored = unshared.folder.trace(cell["adapting_pass"])
        again = stored.on_timeline(unshared.resolved(cell, stored.num_batches))
        pd.testing.assert_frame_equal(
            stored.to_frame().drop(columns=["attempt_predict_ms", "attempt_adapt_ms"]),
            again.to_frame().drop(columns=["attempt_predict_ms", "attempt_adapt_ms"]),
            check_exact=True,
        )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), [pair for pair in FITTING if pair not in QUICK])
def test_every_method(network, batches, name, method):
    """Standard runs with the methods whose frozen tails are its passes."""
    others = ("standard",) if methods.get(method).stateless else ()
    shared, unshared = both_ways(network(name), batches[:5], method, others=others)
    assert (shared.utilities["status"] == "ok").all()
    same(shared, unshared)


@pytest.mark.slow
def test_the_whole_grid(network, batches):
    shared, unshared = both_ways(network("fashion_resnet"), batches, "tent", scenarios=GRID)
    assert (shared.utilities["status"] == "ok").all()
    same(shared, unshared)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("name", "method"), FITTING)
def test_every_method_on_a_gpu(network, batches, name, method):
    """As `deterministic: true` sets torch: two runs of the same kind agree as well."""
    settle_torch(RunConfig(deterministic=True), torch.device("cuda"))
    try:
        shares = (True, False, True)
        shared, unshared, again = both_ways(
            network(name), batches, method, scenarios=GRID, device="cuda", shares=shares
        )
    finally:
        torch.use_deterministic_algorithms(False)
    assert (shared.utilities["status"] == "ok").all(), shared.utilities["status"].unique()
    same(shared, unshared)
    same(shared, again)


@pytest.mark.parametrize(
    ("method", "grouped"),
    [("neo", True), ("lame", False), (("tent", {"frozen_stats": "batch"}), False)],
)
def test_tails_of_several_batches_at_once(network, batches, monkeypatch, method, grouped):
    """Nothing is predicted otherwise than batch by batch.

    LAME's tail is the Standard pass; one that normalises with the batch's own statistics would change.
    """
    model, sizes = network("fashion_resnet"), []
    first = next(module for module in model.modules() if isinstance(module, torch.nn.Conv2d))
    first.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0])))
    runs = []
    for together in (1, 3):
        sizes.clear()
        monkeypatch.setattr(Job, "tail_batches", together)
        runs += both_ways(model, batches, method, scenarios=[Amortised(budget_x=0.05)], shares=(True,))
        trials = 1 if together == 3 and method != "lame" else 0
        assert (sizes.count(24) > trials) == (grouped and together == 3)
    same(*runs)


def test_shared_runs_make_fewer_passes_and_say_where_their_cells_are_from(runs):
    shared, unshared = runs("fashion_resnet", "lame")
    assert len(list(unshared.path.glob("traces/*.parquet"))) == len(unshared.utilities)
    # Standard and LAME once each, and the two deployments with a schedule or a timed tail and a budget.
    assert len(list(shared.path.glob("traces/*.parquet"))) <= 7
    cells = runs("fashion_resnet", "adabn")[0].utilities
    adabn = cells[cells["method"] == "adabn"].drop_duplicates("label").set_index("label")["origin"]
    origins = {"offline": "live", "T 2.5λ": "derived", "ρ 25 %": "derived"}
    assert adabn[list(origins)].to_dict() == origins
    assert "replayed" in set(adabn)


@pytest.mark.parametrize("settings", [{"stop_after": 3}, {"frozen_stats": "batch"}])
def test_wrapped_methods_and_times_that_vary_by_action_share_exactly_too(
    network, batches, tmp_path, settings
):
    adapt_ms = {"step": [71.125], "nothing_kept": [3.5], "*": [9.0]}
    times = {"predict_ms": [41.5], "adapt_ms": adapt_ms, "frozen_ms": [35.0]}
    clock = tmp_path / "clock.json"
    given = {"schema_version": 1, "baseline_ms": 40, "methods": {"standard": times, "eta": times}}
    clock.write_text(json.dumps(given))
    shared, unshared = both_ways(network("fashion_resnet"), batches, ("eta", settings), clock, others=())
    same(shared, unshared)
    assert shared.traces["adapt_ms"].nunique() > 1
