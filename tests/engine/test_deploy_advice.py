"""From `recommend` to `deploy`: what was evaluated is what is served."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.engine.job import MethodSpec
from tempora_tta.scenarios import Discrete
from tempora_tta.store import Evaluated

PATIENCE_S = 60


def advised(model, batches, method, label, **knobs):
    clock = {"baseline_ms": 40, "standard": (38, 0), label: (40, 20)}
    results = tempora.evaluate(
        model, batches, [method], Discrete(interval_ms=100), device="cpu", clock=clock, **knobs
    )
    return results.recommend(interval_ms=100)


@pytest.mark.parametrize(
    ("method", "label"), [(("tent", {"lr": 0.01}), "tent"), (("tent", {"lr": 0.01, "label": "mine"}), "mine")]
)
def test_the_settings_that_were_evaluated_are_served(method, label, network, batches):
    model = network("fashion_resnet")
    advice = advised(model, batches, method, label)
    assert (advice.method, advice.evaluated) == (label, Evaluated("tent", {"lr": 0.01}))
    with tempora.deploy(model, advice, device="cpu") as pipeline:
        assert pipeline._operator.method.name == "tent"
        assert pipeline._operator.method.settings.lr == 0.01


def test_so_are_the_preset_and_the_runtime(network, batches):
    model = network("fashion_resnet")
    spec = MethodSpec("cmf").under("channels_last")
    advice = advised(model, batches, spec, spec.label, preset="paper")
    assert advice.evaluated == Evaluated("cmf", {}, "channels_last", "paper")
    with tempora.deploy(model, advice, device="cpu", fallback="latest") as pipeline:
        method = pipeline._operator.method
        assert method.settings == tempora.methods.create("cmf", model, preset="paper").settings
        assert method.settings != tempora.methods.create("cmf", model).settings
        convolution = next(p for p in method.model.parameters() if p.ndim == 4 and p.shape[1] > 1)
        assert convolution.is_contiguous(memory_format=torch.channels_last)
        assert not pipeline.submit(batches[0][0]).result(PATIENCE_S).dropped
        assert pipeline.stats()["failure"] is None


def test_advice_of_a_run_that_does_not_say_how_it_was_made_is_refused(network, batches):
    model = network("fashion_resnet")
    advice = replace(advised(model, batches, "tent", "tent"), evaluated=None)
    with pytest.raises(TemporaError, match=r"the advice is tent, .* give the method as a name"):
        tempora.deploy(model, advice, device="cpu")


def test_an_answer_that_names_no_method_is_refused(network, batches):
    model = network("fashion_resnet")
    answer = advised(model, batches, "tent", "tent")
    nothing = replace(answer, ranking=answer.ranking.iloc[:0], evaluated=None)
    with pytest.raises(TemporaError, match="names no method"):
        tempora.deploy(model, nothing, device="cpu")
