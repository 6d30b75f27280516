"""tempora.deploy: lambda and the costs of work, of as many images as come at once."""

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
from tempora_tta.scenarios import Poisson

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
    told: list = []

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


SAID = [({"example": images(5)}, 5), ({"batch_size": 4, "max_wait_ms": 1.0}, 4), ({}, 2)]
"""What was said of the size of a batch, and the size that is measured on."""


@pytest.mark.usefixtures("lambda_is_the_size")
@pytest.mark.parametrize("knobs", [{}, {"deadline_ms": 90.0}])
@pytest.mark.parametrize(("said", "size"), SAID)
def test_a_time_aware_method_is_told_lambda_and_what_its_work_costs(said, size, knobs, aware):
    with (
        warnings.catch_warnings(action="error"),
        tempora.deploy(named_network(), aware, device="cpu", interval_ms=60, **said, **knobs) as pipeline,
    ):
        pipeline.submit(images(size)).result(PATIENCE_S)
    images_told, moment = aware.told[-1]
    assert (images_told, moment.baseline_ms, moment.interval_ms) == (size, float(size), 60)
    assert list(moment.cost_ms) == ["step"], "its work was tried before it had to decide"


@pytest.mark.usefixtures("lambda_is_the_size")
@pytest.mark.parametrize(("said", "size"), SAID)
def test_a_knob_of_lambda_is_of_as_many_images_as_come_at_once(said, size):
    with tempora.deploy(named_network(), "standard", device="cpu", threshold_ms=size + 0.5, **said):
        pass
    with pytest.raises(TemporaError, match=f"is not above baseline_ms={size}"):
        tempora.deploy(named_network(), "standard", device="cpu", threshold_ms=size - 0.5, **said)


def test_lambda_is_asked_for_where_no_size_of_an_image_is_known(aware):
    half = {"arrivals": Poisson(utilisation=0.5)}
    for method, knobs in ((aware, {}), ("pace", {}), ("standard", {"threshold_x": 5}), ("standard", half)):
        with pytest.raises(TemporaError, match="give baseline_ms=, or example="):
            tempora.deploy(tiny_network(), method, device="cpu", **knobs)
    with tempora.deploy(tiny_network(), aware, device="cpu", baseline_ms=10.0) as pipeline:
        pipeline.submit(images(6)).result(PATIENCE_S)
    size, moment = aware.told[-1]
    assert (size, moment.baseline_ms, moment.cost_ms) == (6, 10.0, {})


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


def test_pace_is_the_default(network):
    model = network("fashion_resnet")
    with tempora.deploy(model, device="cpu", interval_ms=1000, example=torch.ones(8, 1, 28, 28)) as pipeline:
        assert pipeline.submit(torch.ones(8, 1, 28, 28)).result(PATIENCE_S).scores.shape == (8, 10)
        assert (pipeline._operator.name, pipeline.stats()["failure"]) == ("pace", None)
