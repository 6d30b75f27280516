"""From `recommend` to `deploy`: what was evaluated is what is served."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import tempora_tta as tempora
from live_clock import FakeClock
from tempora_tta import TemporaError, methods
from tempora_tta.engine import MethodSpec
from tempora_tta.engine.runtime import Runtime
from tempora_tta.scenarios import Deployment, Discrete
from tempora_tta.store import Evaluated

CLOCK = {"baseline_ms": 40, "standard": (38, 0), "tent": (40, 20)}


def evaluated(model, batches, method, *scenarios, label="tent", **knobs):
    labelled = [(x, model(x).argmax(1)) for x in batches]
    clock = {**CLOCK, label: (40, 20)}
    return tempora.evaluate(model, labelled, [method], list(scenarios), device="cpu", clock=clock, **knobs)


def advised(*given, **more):
    return evaluated(*given, Discrete(interval_ms=100), **more).recommend(interval_ms=100)


@pytest.mark.parametrize(
    ("method", "label", "runtime", "preset", "expected"),
    [
        (("tent", {"lr": 0.01}), "tent", "", None, Evaluated("tent", {"lr": 0.01})),
        (("tent", {"lr": 0.01, "label": "mine"}), "mine", "", None, Evaluated("tent", {"lr": 0.01})),
        (
            "cmf",
            "cmf@channels_last",
            "channels_last",
            "paper",
            Evaluated("cmf", {}, "channels_last", "paper"),
        ),
    ],
)
def test_what_was_evaluated_is_served(method, label, runtime, preset, expected, model, batches):
    """Its settings, preset and runtime: the answers are those of the method made with them."""
    chosen = MethodSpec(method).under(runtime) if runtime else method
    advice = advised(model, batches, chosen, label=label, preset=preset)
    assert (advice.method, advice.evaluated) == (label, expected)
    made = Runtime.parse(runtime or "eager")
    before = model.weights_hash()
    own = methods.create(expected.name, made.prepare(model), preset=preset, **expected.settings)
    offline = made.attach(own)
    with tempora.deploy(model, advice, device="cpu") as pipeline:
        for x in batches[:3]:
            assert torch.equal(pipeline.submit(x).result(60).scores, offline.predict(x))
            assert pipeline.wait(60)
            offline.adapt()
    assert model.weights_hash() == before, "the caller's model is left alone"


def test_an_answer_about_frames_brings_size_pace_and_deadline_along(model, batches):
    advice = evaluated(model, batches, "tent").recommend(fps=30, cameras=2, deadline_ms=500)
    for knobs, wait_ms in (({}, 420.0), ({"deadline_ms": 300.0}, 220.0)):  # less two of lambda
        wall = FakeClock()
        with tempora.deploy(model, advice, device="cpu", baseline_ms=40, clock=wall, **knobs) as pipeline:
            alone = pipeline.submit(batches[0][0])
            wall.advance(wait_ms - 0.5)
            assert pipeline.stats()["waiting"] == 1
            wall.advance(0.5)
            assert alone.result(60).response_ms == wait_ms


def test_an_answer_about_frames_that_are_answered_at_once_is_served_so(model, batches):
    camera = Deployment(fps=30, cameras=2, deadline_ms=5000, answer="at_once", batch_size=8)
    frames = [x for batch in batches for x in batch.split(1)]
    advice = evaluated(model, frames, "tent", camera).recommend(scenario=camera.label)
    with tempora.deploy(model, advice, device="cpu", queue=9) as pipeline:
        for x in frames[:24]:
            pipeline.submit(x[0])
        assert pipeline.wait(60)
        stats = pipeline.stats()
    assert (stats["answered"], stats["steps"]) == (24, 3)
    assert stats["mean_size"] <= 8


def test_advice_that_does_not_say_what_to_deploy_is_refused(model, batches):
    answer = advised(model, batches, "tent")
    nothing = replace(answer, ranking=answer.ranking.iloc[:0], evaluated=None)
    for advice, said in ((replace(answer, evaluated=None), "tent.*name"), (nothing, "no method")):
        with pytest.raises(TemporaError, match=said):
            tempora.deploy(model, advice, device="cpu")
