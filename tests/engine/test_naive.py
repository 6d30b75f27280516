"""The engine finds the numbers of the naive loop, to the bit: every method, kind of deployment and stream."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from latencies import CLOCK
from test_sharing import FITTING, GRID, ONE_OF_EACH, QUICK, SMALL

import tempora_tta as tempora
from tempora_tta._global_state import own_randomness
from tempora_tta.engine.build import job_from_python
from tempora_tta.engine.calls import Calls
from tempora_tta.engine.job import MethodSpec
from tempora_tta.naive import naive
from tempora_tta.scenarios import SIX_TERMS, Deployment

STREAMS = [
    {"kind": "continual", "batches": 3, "reset": "shift"},
    {"kind": "recurring", "batches": 2, "visits": 2, "reset": 3},
    {"kind": "mixed", "batches": 4, "classes": {"dirichlet": 0.1}},
    {"kind": "continual", "batches": 2, "reset": "never"},
]
PACE_CLOCK = {**CLOCK, "pace": (41, 56), "settle": (42, 3)}


def agree(model, batches, methods, scenarios, **options):
    """Evaluate, then serve every cell again by the naive loop."""
    source = torch.cat([x for x, _ in next(iter(batches.values()))]).flip(-1)
    given = {"clock": PACE_CLOCK, "device": "cpu", "seeds": [2025], "source": source, **options}
    results = tempora.evaluate(model, batches, methods, scenarios, **given)
    assert (results.utilities["status"] == "ok").all()
    job = job_from_python(model, batches, methods, scenarios, **given)
    specs = {spec.label: spec for spec in job.methods}
    orders = {order.shift: order for order in job.streams}
    for row in results.utilities.to_dict("records"):
        stream = job.open_stream(orders[row["shift"]])
        deployment = results.scenarios[row["scenario"]].resolve(
            num_batches=stream.num_batches,
            batch_size=stream.batch_size,
            baseline_ms=40,
            seed=row["seed"],
            shift=row["shift"],
        )
        own = replace(specs[row["method"]], at_once=deployment.at_once)
        method, standard = (
            Calls(job.create(spec, row["seed"]), spec.label, stream, job.clock)
            for spec in (own, MethodSpec("standard"))
        )
        with own_randomness(row["seed"]):
            if method.method.time_aware:
                method.warm_up(job.config.warmup_batches)
            standard.warm_up(1)
            score = naive(method, standard, stream, deployment)
        for name, value in {
            "utility": score.utility,
            **{term: score.terms[term] for term in SIX_TERMS},
        }.items():
            found = row[name]
            assert found == value or (value is None and found != found), (row["method"], row["label"], name)


def settled(method):
    return (method, SMALL[method]) if method in SMALL else method


@pytest.mark.parametrize(
    ("name", "method"),
    [*QUICK, ("fashion_resnet", "pace"), ("fashion_resnet", "settle"), ("fashion_vit", "settle")],
)
def test_one_of_each_kind(network, batches, name, method):
    agree(network(name), {"contrast": batches}, ["standard", settled(method)], ONE_OF_EACH)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), FITTING)
def test_every_method_under_the_whole_grid(network, batches, name, method):
    agree(network(name), {"contrast": batches}, ["standard", settled(method)], GRID)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("tent", {"every": 2}),
        ("tent", {"stop_after": 3}),
        ("tent", {"reforward": True}),
        ("alpha_bn", {"passes": 2}),
    ],
)
def test_schedules(network, batches, method, settings):
    agree(network("fashion_resnet"), {"contrast": batches}, [(method, settings)], ONE_OF_EACH)


@pytest.mark.parametrize(("stream", "method"), list(itertools.product(STREAMS, ["tent", "rotta"])))
def test_streams(network, batches, stream, method):
    halves = {"contrast": batches[:4], "again": batches[4:]}
    rescued = Deployment(interval_ms=45, fallback="latest", budget_ms=120)
    agree(network("fashion_resnet"), halves, [settled(method)], [*ONE_OF_EACH, rescued], stream=stream)


AT_ONCE = [
    Deployment(fps=fps, cameras=cameras, answer="at_once", batch_size=12, deadline_ms=deadline_ms, **more)
    for fps, cameras, deadline_ms, more in (
        (30, 1, 60, {}),
        (30, 4, 150, {}),
        (100, 3, 90, {"queue": 0}),
        (60, 1, 200, {"queue": 2, "budget_ms": 150, "fallback": "latest"}),
        (90, 1, 200, {"fallback": "standard", "fallback_cost": "charged"}),
        (90, 1, 200, {"fallback": "random", "classes": 8, "residuals": False}),
    )
]


@pytest.mark.parametrize(
    "method",
    [
        "standard",
        "adabn",
        "lame",
        ("tent", {"every": 2}),
        ("shot_im", {"stop_after": 2}),
        "rotta",
        "settle",
        "pace",
    ],
)
def test_frames_answered_at_once(network, frames, method):
    agree(network("fashion_resnet"), {"contrast": frames}, [method], AT_ONCE)


def test_frames_answered_at_once_on_a_stream_that_resets(network, frames):
    halves = {"contrast": frames[:30], "again": frames[30:]}
    stream = {"kind": "continual", "batches": 30, "reset": "shift"}
    agree(network("fashion_resnet"), halves, ["tent"], AT_ONCE[:2], stream=stream)
