"""From `recommend` to `deploy`: what was evaluated is what is served."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

import tempora_tta as tempora
from live_clock import FakeClock
from tempora_tta import TemporaError
from tempora_tta.engine import MethodSpec
from tempora_tta.scenarios import Deployment, Discrete
from tempora_tta.store import Evaluated


def advised(model, batches, method, label, **knobs):
    clock = {"baseline_ms": 40, "standard": (38, 0), label: (40, 20)}
    labelled = [(x, model(x).argmax(1)) for x in batches]
    results = tempora.evaluate(
        model, labelled, [method], Discrete(interval_ms=100), device="cpu", clock=clock, **knobs
    )
    return results.recommend(interval_ms=100)


@pytest.fixture
def served(monkeypatch):
    """The methods of the pipelines that are made."""
    methods, module = (
        [],
        import_module("tempora_tta.serving.deploy"),
    )  # whose name is that of the function, too
    make = module.Pipeline
    monkeypatch.setattr(
        module, "Pipeline", lambda *given, **more: methods.append(given[0]) or make(*given, **more)
    )
    return methods


@pytest.mark.parametrize(
    ("method", "label"), [(("tent", {"lr": 0.01}), "tent"), (("tent", {"lr": 0.01, "label": "mine"}), "mine")]
)
def test_the_settings_that_were_evaluated_are_served(method, label, model, batches, served):
    advice = advised(model, batches, method, label)
    assert (advice.method, advice.evaluated) == (label, Evaluated("tent", {"lr": 0.01}))
    tempora.deploy(model, advice, device="cpu").close()
    assert [(method.name, method.settings.lr) for method in served] == [("tent", 0.01)]


def test_so_are_the_preset_and_the_runtime(model, batches, served):
    spec = MethodSpec("cmf").under("channels_last")
    advice = advised(model, batches, spec, spec.label, preset="paper")
    assert advice.evaluated == Evaluated("cmf", {}, "channels_last", "paper")
    with tempora.deploy(model, advice, device="cpu", fallback="latest") as pipeline:
        assert not pipeline.submit(batches[0]).result().dropped
        assert pipeline.stats()["failure"] is None
    (method,) = served
    assert method.settings == tempora.methods.create("cmf", model, preset="paper").settings
    assert method.settings != tempora.methods.create("cmf", model).settings
    convolution = next(p for p in method.model.parameters() if p.ndim == 4 and p.shape[1] > 1)
    assert str(convolution.stride()[1]) == "1", "channels last"


def test_an_answer_about_frames_brings_size_pace_and_deadline_along(model, batches):
    clock = {"baseline_ms": 40, "standard": (38, 0), "tent": (40, 20)}
    labelled = [(x, model(x).argmax(1)) for x in batches]
    results = tempora.evaluate(model, labelled, ["tent"], device="cpu", clock=clock)
    advice = results.recommend(fps=30, cameras=2, deadline_ms=500)
    for knobs, wait_ms in (({}, 420.0), ({"deadline_ms": 300.0}, 220.0)):  # less two of lambda
        wall = FakeClock()
        with tempora.deploy(model, advice, device="cpu", baseline_ms=40, clock=wall, **knobs) as pipeline:
            alone = pipeline.submit(batches[0][0])
            wall.advance(wait_ms - 0.5)
            assert pipeline.stats()["waiting"] == 1
            wall.advance(0.5)
            assert alone.result(60).response_ms == wait_ms


def test_an_answer_about_frames_that_are_answered_at_once_is_served_so(model, batches):
    camera = Deployment(fps=30, cameras=2, deadline_ms=500, answer="at_once", batch_size=8)
    clock = {"baseline_ms": 4, "standard": (3, 0), "tent": (4, 20)}
    frames = [(x, model(x).argmax(1)) for batch in batches for x in batch.split(1)]
    results = tempora.evaluate(model, frames, ["tent"], [camera], device="cpu", clock=clock)
    advice = results.recommend(scenario=camera.label)
    with tempora.deploy(model, advice, device="cpu", queue=9) as pipeline:
        for x, _ in frames[:24]:
            pipeline.submit(x[0])
        assert pipeline.wait(60)
        stats = pipeline.stats()
    assert (stats["answered"], stats["steps"]) == (24, 3)
    assert stats["mean_size"] <= 8


def test_advice_that_does_not_say_what_to_deploy_is_refused(model, batches):
    answer = advised(model, batches, "tent", "tent")
    with pytest.raises(TemporaError, match=r"the advice is tent, .* give the method as a name"):
        tempora.deploy(model, replace(answer, evaluated=None), device="cpu")
    nothing = replace(answer, ranking=answer.ranking.iloc[:0], evaluated=None)
    with pytest.raises(TemporaError, match="names no method"):
        tempora.deploy(model, nothing, device="cpu")
