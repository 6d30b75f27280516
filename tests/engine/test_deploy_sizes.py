"""tempora.deploy: what it measures, on how many images, and what it says when others come."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from importlib import import_module

import pytest
import torch
from live_clock import tiny_network
from torch import nn

import tempora_tta as tempora
from tempora_tta import TemporaError, models
from tempora_tta.errors import TemporaWarning
from tempora_tta.methods import Method

PATIENCE_S = 60
KNOWN = {"mean": (0.0,), "std": (1.0,), "input_size": (1, 2, 2)}


def named_network() -> models.Classifier:
    """As `tiny_network`, and it says what its images look like."""
    parts = OrderedDict(flat=nn.Flatten(), head=nn.Linear(4, 3))
    return models.wrap(nn.Sequential(parts), features="flat", head="head", **KNOWN)


def images(count: int) -> torch.Tensor:
    return torch.ones(count, 1, 2, 2)


class Aware(Method):
    """Notes what it is told and how many images it has seen it with."""

    name = "aware"
    state = ("seen",)
    time_aware = True
    told: list = []  # noqa: RUF012

    def setup(self):
        self.seen = 0

    @torch.no_grad()
    def predict(self, x, moment):
        self.told.append((len(x), moment))
        return self.model(x) + self.seen

    def adapt(self, moment):
        self.seen += not self.frozen
        return "step"


@pytest.fixture
def aware():
    return type("Aware", (Aware,), {"told": []})


@pytest.fixture
def lambda_is_the_size(monkeypatch):
    """Standard inference takes a millisecond an image."""
    module = import_module("tempora_tta.engine.deploy")  # whose name is that of the function, too
    monkeypatch.setattr(module, "measured_baseline", lambda standard, x: float(len(x)))


@pytest.mark.usefixtures("lambda_is_the_size")
@pytest.mark.parametrize("knobs", [{}, {"deadline_ms": 90.0}])
@pytest.mark.parametrize("make", [tiny_network, named_network])
@pytest.mark.parametrize("given", ["example", "first batch"])
def test_a_time_aware_method_is_told_lambda_of_the_batches_that_come(given, make, knobs, aware):
    example = images(5) if given == "example" else None
    with tempora.deploy(make(), aware, device="cpu", interval_ms=60, example=example, **knobs) as pipeline:
        pipeline.submit(images(5)).result(PATIENCE_S)
    size, moment = aware.told[-1]
    assert (size, moment.baseline_ms, moment.interval_ms) == (5, 5.0, 60)
    assert list(moment.cost_ms) == ["step"], "its work was tried before it had to decide"


@pytest.mark.usefixtures("lambda_is_the_size")
@pytest.mark.parametrize(
    ("said", "at_once"), [({}, None), ({"batch_size": 4}, 4.0), ({"example": images(3)}, 3.0)]
)
def test_lambda_is_of_as_many_images_as_come_at_once(said, at_once):
    with tempora.deploy(named_network(), "standard", device="cpu", threshold_x=5, **said) as pipeline:
        if at_once is not None:
            assert pipeline._resolved.baseline_ms == at_once
        size = int(at_once or 7)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pipeline.submit(images(size)).result(PATIENCE_S)
        assert (pipeline._resolved.baseline_ms, pipeline._resolved.threshold_ms) == (size, 5.0 * size)
        assert pipeline._shared.replies.value.threshold_ms == 5.0 * size


@pytest.mark.usefixtures("lambda_is_the_size")
def test_a_batch_of_another_size_than_was_measured_on_is_said_once(aware):
    with tempora.deploy(named_network(), aware, device="cpu", example=images(4)) as pipeline:
        with pytest.warns(TemporaWarning, match=r"a batch of 2 came, .* on 4: .* example=") as said:  # noqa: PT031
            for size in (4, 2, 2, 3):
                pipeline.submit(images(size)).result(PATIENCE_S)
        assert len(said) == 1
    collecting = {"batch_size": 4, "max_wait_ms": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tempora.deploy(named_network(), aware, device="cpu", **collecting) as pipeline:
            pipeline.submit(images(1)[0]).result(PATIENCE_S)  # of a batch that is never full


def test_a_size_that_nothing_depends_on_is_not_asked_for():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tempora.deploy(
            named_network(), "standard", device="cpu", deadline_ms=90, batch_size=4
        ) as pipeline:
            for size in (1, 2, 3):
                pipeline.submit(images(size)).result(PATIENCE_S)
            assert pipeline._resolved.baseline_ms is None


@pytest.mark.usefixtures("lambda_is_the_size")
def test_costs_of_a_size_that_nobody_named_are_forgotten(aware):
    with tempora.deploy(named_network(), aware, device="cpu", baseline_ms=10.0) as pipeline:
        pipeline.submit(images(6)).result(PATIENCE_S)
    size, moment = aware.told[-1]
    assert (size, moment.baseline_ms, moment.cost_ms) == (6, 10.0, {})


@pytest.mark.usefixtures("lambda_is_the_size")
def test_measuring_on_the_first_batch_leaves_a_loaded_state_and_what_was_spent(aware, tmp_path):
    network, knobs = named_network(), {"device": "cpu", "budget_ms": 1e6}
    with tempora.deploy(network, aware, **knobs) as pipeline:
        for _ in range(3):
            pipeline.submit(images(2)).result(PATIENCE_S)
            assert pipeline.wait(PATIENCE_S)
        pipeline._shared.line.timeline.resume(77.0)
        pipeline.save(tmp_path / "state")
    with tempora.deploy(network, aware, **knobs) as pipeline:
        pipeline.load(tmp_path / "state")
        pipeline.submit(images(2)).result(PATIENCE_S)
        assert pipeline.wait(PATIENCE_S)
        assert pipeline._operator.method.seen == 4
        assert pipeline.stats()["spent_ms"] >= 77.0


@pytest.mark.usefixtures("lambda_is_the_size")
def test_what_cannot_be_measured_on_is_refused_and_the_next_one_is_tried(aware):
    with tempora.deploy(named_network(), aware, device="cpu") as pipeline:
        with pytest.raises(TemporaError, match="cannot answer this batch"):
            pipeline.submit(torch.ones(2, 3, 5, 5))
        assert not pipeline.submit(images(3)).result(PATIENCE_S).dropped
        assert (pipeline._resolved.baseline_ms, pipeline.stats()["refused"]) == (3.0, 1)
    with tempora.deploy(named_network(), "standard", device="cpu", threshold_ms=4.0) as pipeline:
        for _ in range(2):
            with pytest.raises(TemporaError, match="threshold_ms=4 is not above baseline_ms=5"):
                pipeline.submit(images(5))


def test_pace_is_the_default(network):
    model = network("fashion_resnet")
    with tempora.deploy(model, device="cpu", interval_ms=1000) as pipeline:
        assert pipeline.submit(torch.ones(8, 1, 28, 28)).result(PATIENCE_S).scores.shape == (8, 10)
        assert (pipeline._operator.name, pipeline.stats()["failure"]) == ("pace", None)
        assert pipeline._resolved.baseline_ms > 0
