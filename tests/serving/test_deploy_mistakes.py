"""tempora.deploy: what users hand over wrong, or from places that they did not think of."""

from __future__ import annotations

import copy
from collections import OrderedDict

import pytest
import torch
from torch import nn

import tempora_tta as tempora
from live_clock import FakeClock, image, tiny_network
from tempora_tta import TemporaError, models
from tempora_tta.errors import TemporaWarning
from tempora_tta.methods import Method
from tempora_tta.scenarios import Poisson

WATCHDOG_S = 600


def images(count: int) -> torch.Tensor:
    return torch.ones(count, 1, 2, 2)


def _pooling_network() -> models.Classifier:
    """It takes images of any size and names none."""
    parts = OrderedDict(conv=nn.Conv2d(3, 4, 3), pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten())
    network = nn.Sequential(parts)
    network.add_module("head", nn.Linear(4, 5))
    return models.wrap(network, mean=(0.5,) * 3, std=(0.5,) * 3)


def test_the_first_answer_and_not_the_first_image_shows_the_shape():
    with tempora.deploy(tiny_network(), "standard", device="cpu") as pipeline:
        with pytest.raises(TemporaError, match="cannot answer this batch"):
            pipeline.submit(torch.ones(3, 5, 5)).result(WATCHDOG_S)
        assert not pipeline.submit(image()).result(WATCHDOG_S).dropped
        assert pipeline.wait(WATCHDOG_S)
        with pytest.raises(TemporaError, match=r"give an image of shape \(1, 2, 2\).* deploy with example="):
            pipeline.submit(torch.ones(3, 5, 5))


def test_a_network_that_names_no_size_takes_any():
    with tempora.deploy(_pooling_network(), "standard", device="cpu") as pipeline:
        assert pipeline.submit(torch.ones(2, 3, 32, 32)).result(WATCHDOG_S).scores.shape == (2, 5)


def test_images_of_different_shapes_are_not_collected_into_one_batch():
    clock = FakeClock()
    with tempora.deploy(
        tiny_network(), "standard", device="cpu", batch_size=2, max_wait_ms=20, clock=clock, queue=9
    ) as pipeline:
        wrong, right, too = (pipeline.submit(x) for x in (torch.ones(3, 5, 5), image(), image()))
        with pytest.raises(TemporaError, match="cannot answer this batch"):
            wrong.result(WATCHDOG_S)
        assert not right.result(WATCHDOG_S).dropped
        assert not too.result(WATCHDOG_S).dropped


@pytest.mark.parametrize("name", ["tent", "shot_im", "cotta"])
def test_a_client_in_inference_mode_is_learned_from(name, model, batches, tmp_path):
    settings = {"views": 2} if name == "cotta" else {}
    with torch.inference_mode():
        example = batches[0].clone()
        with tempora.deploy(model, (name, settings), device="cpu", example=example) as pipeline:
            for x in batches[:2]:
                pipeline.module()(x.clone())
            pipeline.load(pipeline.save(tmp_path / "state"))
            for x in batches[2:4]:
                pipeline.module()(x.clone())
            assert pipeline.wait(WATCHDOG_S)
            stats = pipeline.stats()
    assert (stats["failure"], stats["steps"]) == (None, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"example": torch.ones(1, 28, 28)},
            r"example= is of shape \(1, 28, 28\).* one image is example=image",
        ),
        ({"example": "a picture"}, "example='a picture': must be a batch of normalised images"),
        ({"example": torch.ones(2, 3, 28, 28)}, "takes images of 1 channels, but these have 3"),
        ({"example": torch.full((2, 1, 28, 28), float("nan"))}, "example= holds NaN"),
        ({"example": torch.ones(2, 1, 28, 28, device="meta")}, "on meta: give a batch"),
        ({"seed": "a"}, "seed='a': must be a whole number"),
        ({"method": 3}, "method 3: give a name, a class"),
        ({"model": None}, "model=None: must be a network"),
    ],
)
def test_what_is_no_example_seed_method_or_model_says_so(given, message, model):
    arguments = {"model": model, "method": "standard", "device": "cpu", **given}
    with pytest.raises(TemporaError, match=message):
        tempora.deploy(**arguments)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("known", [True, False])
def test_a_network_whose_weights_take_no_float32_is_refused_before_it_refuses_everything(dtype, known, model):
    network = copy.deepcopy(model) if known else tiny_network()
    with pytest.raises(TemporaError, match=r"its weights are \w+, but images come as float32"):
        tempora.deploy(network.to(dtype), "standard", device="cpu")


STRANGE = {
    "meta": image().to("meta"),
    "sparse": torch.eye(2)[None].to_sparse(),
    "nested": torch.nested.nested_tensor([image(), image()]),
    "jagged": torch.nested.nested_tensor([image(), image()], layout=torch.jagged),
    "mkldnn": image()[None].to_mkldnn(),
    "float8": image().to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("x", STRANGE.values(), ids=STRANGE.keys())
def test_tensors_that_no_network_takes_are_refused_at_the_door(x):
    with tempora.deploy(tiny_network(), "standard", device="cpu") as pipeline:
        with pytest.raises(TemporaError, match="without values of its own"):
            pipeline.submit(x)
        assert pipeline.stats()["refused"] == 1
    with pytest.raises(TemporaError, match="example= is"):
        tempora.deploy(tiny_network(), "standard", device="cpu", example=x)


@pytest.mark.parametrize(
    "facts",
    [
        *([1], None, {"device": None}, {"froze_itself": "no"}),
        *({"spent_ms": None}, {"spent_ms": -1}, {"spent_ms": float("nan")}),
    ],
)
def test_a_state_whose_facts_were_edited_is_refused(facts, tmp_path):
    with tempora.deploy(tiny_network(), "neo", device="cpu", example=image()[None]) as pipeline:
        pipeline.save(tmp_path / "state")
        content = torch.load(tmp_path / "state")
        content["facts"] = {**content["facts"], **facts} if isinstance(facts, dict) else facts
        torch.save(content, tmp_path / "state")
        with pytest.raises(TemporaError, match=r"cannot be read as a saved state \(.*save it again"):
            pipeline.load(tmp_path / "state")


@pytest.mark.parametrize(
    "label",
    [3, -1, 999, 0.5, float("nan"), True, torch.tensor([3]), torch.tensor([1], dtype=torch.uint64)],
)
def test_a_label_is_a_class_of_the_network(label):
    with tempora.deploy(tiny_network(), "standard", device="cpu") as pipeline:
        future = pipeline.submit(image())
        future.result(WATCHDOG_S)
        with pytest.raises(TemporaError, match="a class is a whole number from 0 to 2"):
            pipeline.label(future, label)
        pipeline.label(future, torch.tensor([2]))
        assert pipeline.stats()["labelled"] == 1


def test_a_request_of_another_pipeline_is_not_counted_here():
    with (
        tempora.deploy(tiny_network(), "standard", device="cpu") as one,
        tempora.deploy(tiny_network(), "standard", device="cpu") as other,
    ):
        future = one.submit(image())
        future.result(WATCHDOG_S)
        with pytest.raises(TemporaError, match=r"submit\(\) did not return: give one of this pipeline"):
            other.label(future, 0)
        assert (one.stats()["labelled"], other.stats()["labelled"]) == (0, 0)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(3, 3), "of shape .3, 3.: give an image of shape .1, 2, 2."),
        (torch.ones(0, 1, 2, 2), "give an image of shape"),
        (torch.ones(2, 1, 2, 2, dtype=torch.int64), "give normalised floating-point images"),
        (torch.full((1, 2, 2), float("nan")), "NaN or infinite"),
        ("a picture", "a str that is no tensor"),
    ],
)
def test_what_no_network_takes_is_refused_before_it_counts_as_an_arrival(x, message):
    with tempora.deploy(tiny_network(), "standard", device="cpu", example=torch.ones(2, 1, 2, 2)) as pipeline:
        with pytest.raises(TemporaError, match=message):
            pipeline.submit(x)
        assert pipeline.stats()["refused"] == 1
        assert pipeline.stats()["arrived"] == 0


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"interval": 33}, "unknown knob of a deployment 'interval': did you mean 'interval_ms'"),
        ({"budget_x": 0.5}, "a service has none; use budget_ms"),
        ({"fallback": "latest", "fallback_cost": "free"}, "can be simulated, not served"),
        ({"budget_ms": 5, "rule": "strict", "arrivals": "on_completion"}, "which no live system can"),
        ({"batch_size": 0}, "batch_size=0: must be a whole number"),
        ({"max_wait_ms": -1.0}, "max_wait_ms=-1.0: must be a finite number"),
        ({"threshold_ms": 100}, "pass baseline_ms=, or example="),
        ({"arrivals": Poisson(utilisation=0.5)}, "pass baseline_ms=, or example="),
        ({"method": "pace"}, "pass baseline_ms=, or example="),
    ],
)
def test_knobs_that_make_no_sense_say_so(knobs, message):
    with pytest.raises(TemporaError, match=message):
        tempora.deploy(tiny_network(), **{"method": "standard", "device": "cpu", **knobs})


# lambda and the costs of work are those of batches of one size.


class Aware(Method):
    """Notes how many images it has seen, and with what it was told."""

    name = "aware"
    time_aware = True

    @torch.no_grad()
    def predict(self, x, moment):
        self.told.append((len(x), moment))
        return self.model(x)

    def adapt(self, moment):
        return "step"


@pytest.mark.parametrize("knobs", [{}, {"deadline_ms": 90.0}])
@pytest.mark.parametrize(
    ("said", "size"), [({"example": images(5)}, 5), ({"batch_size": 4, "max_wait_ms": 1.0}, 4), ({}, 2)]
)
def test_a_time_aware_method_is_told_lambda_and_what_its_work_costs(said, size, knobs, recwarn):
    kind = type("Aware", (Aware,), {"told": []})
    known = {"mean": (0.0,), "std": (1.0,), "input_size": (1, 2, 2)}
    parts = OrderedDict(flat=nn.Flatten(), head=nn.Linear(4, 3))
    network = models.wrap(nn.Sequential(parts), features="flat", head="head", **known)
    with tempora.deploy(network, kind, device="cpu", interval_ms=60, **said, **knobs) as pipeline:
        pipeline.submit(images(size)).result(WATCHDOG_S)
        assert not [warning for warning in recwarn if warning.category is TemporaWarning]
        for another in (size + 1, size + 1, size + 2):
            pipeline.submit(images(another)).result(WATCHDOG_S)
    (warning,) = [warning for warning in recwarn if warning.category is TemporaWarning]
    assert f"a batch of {size + 1} came, and lambda and what work costs were measured on {size}" in str(
        warning.message
    )
    assert {seen for seen, _ in kind.told[:4]} == {size}, "it warms up on as many as will come"
    moment = kind.told[4][1]
    assert moment.interval_ms == 60
    assert moment.baseline_ms > 0
    assert list(moment.cost_ms) == ["step"], "its work was tried before it had to decide"
