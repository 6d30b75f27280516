"""tempora.deploy: what users hand over wrong, or from places that they did not think of."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict

import pytest
import torch
from live_clock import FakeClock, tiny_network
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import tempora_tta as tempora
from tempora_tta import TemporaError, models

PATIENCE_S = 60


def image(value: float = 1.0) -> torch.Tensor:
    return torch.full((1, 2, 2), value)


def _pooling_network() -> models.Classifier:
    """It takes images of any size and names none."""
    parts = OrderedDict(conv=nn.Conv2d(3, 4, 3), pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten())
    network = nn.Sequential(parts)
    network.add_module("head", nn.Linear(4, 5))
    return models.wrap(network, mean=(0.5,) * 3, std=(0.5,) * 3)


def test_the_first_answer_and_not_the_first_image_shows_the_shape():
    with tempora.deploy(tiny_network(), "standard", device="cpu") as pipeline:
        with pytest.raises(TemporaError, match="cannot answer this batch"):
            pipeline.submit(torch.ones(3, 5, 5)).result(PATIENCE_S)
        assert not pipeline.submit(image()).result(PATIENCE_S).dropped
        assert pipeline.wait(PATIENCE_S)
        with pytest.raises(TemporaError, match=r"give an image of shape \(1, 2, 2\).* deploy with example="):
            pipeline.submit(torch.ones(3, 5, 5))


def test_a_network_that_names_no_size_takes_any():
    with tempora.deploy(_pooling_network(), "standard", device="cpu") as pipeline:
        assert pipeline.submit(torch.ones(2, 3, 32, 32)).result(PATIENCE_S).scores.shape == (2, 5)


def test_images_of_different_shapes_are_not_collected_into_one_batch():
    clock = FakeClock()
    with tempora.deploy(
        tiny_network(), "standard", device="cpu", batch_size=2, max_wait_ms=20, clock=clock, queue=9
    ) as pipeline:
        wrong, right, too = (pipeline.submit(x) for x in (torch.ones(3, 5, 5), image(), image()))
        with pytest.raises(TemporaError, match="cannot answer this batch"):
            wrong.result(PATIENCE_S)
        assert not right.result(PATIENCE_S).dropped
        assert not too.result(PATIENCE_S).dropped


@pytest.mark.parametrize("name", ["tent", "shot_im", "cotta"])
def test_a_client_in_inference_mode_is_learned_from(name, network, batches, tmp_path):
    model = network("fashion_resnet")
    settings = {"views": 2} if name == "cotta" else {}
    with torch.inference_mode():
        example = batches[0][0].clone()
        with tempora.deploy(model, (name, settings), device="cpu", example=example) as pipeline:
            for x, _ in batches[:2]:
                pipeline.module()(x.clone())
            pipeline.load(pipeline.save(tmp_path / "state"))
            for x, _ in batches[2:4]:
                pipeline.module()(x.clone())
            assert pipeline.wait(PATIENCE_S)
            stats = pipeline.stats()
    assert (stats["failure"], stats["steps"]) == (None, 4)


def test_source_images_from_inference_mode_can_be_learned_from(network, batches):
    with torch.inference_mode():
        source = torch.cat([x for x, _ in batches])[:16].clone()
        with tempora.deploy(
            network("fashion_resnet"), ("eata", {"samples": 16}), device="cpu", source=source
        ) as pipeline:
            pipeline.submit(batches[0][0]).result(PATIENCE_S)
            assert pipeline.stats()["failure"] is None


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
def test_what_is_no_example_seed_method_or_model_says_so(given, message, network):
    arguments = {"model": network("fashion_resnet"), "method": "standard", "device": "cpu", **given}
    with pytest.raises(TemporaError, match=message):
        tempora.deploy(**arguments)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("known", [True, False])
def test_a_network_whose_weights_take_no_float32_is_refused_before_it_refuses_everything(
    dtype, known, network
):
    model = copy.deepcopy(network("fashion_resnet")) if known else tiny_network()
    with pytest.raises(TemporaError, match=r"its weights are \w+, but images come as float32"):
        tempora.deploy(model.to(dtype), "standard", device="cpu")


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


def test_saving_to_no_place_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with tempora.deploy(tiny_network(), "standard", device="cpu") as pipeline:
        with pytest.raises(TemporaError, match=r"cannot be written .there is no folder .*missing"):
            pipeline.save(tmp_path / "missing" / "state")
        with pytest.raises(TemporaError, match=r"cannot be written .there is no folder .*file"):
            pipeline.save(tmp_path / "file" / "state")
        with pytest.raises(TemporaError, match="cannot be written"):
            pipeline.save(tmp_path)
        assert [path.name for path in tmp_path.parent.glob("*.part")] == []


@pytest.mark.parametrize(
    "facts", [[1], None, {"device": None}, {"froze_itself": "no"}, {"spent_ms": None}, {"spent_ms": -1}]
)
def test_a_state_whose_facts_were_edited_is_refused(facts, tmp_path):
    with tempora.deploy(tiny_network(), "neo", device="cpu", example=image()[None]) as pipeline:
        pipeline.save(tmp_path / "state")
        with safe_open(tmp_path / "state", "pt") as file:
            header = file.metadata()
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        edited = {**json.loads(header["facts"]), **facts} if isinstance(facts, dict) else facts
        save_file(tensors, tmp_path / "state", metadata={**header, "facts": json.dumps(edited)})
        with pytest.raises(TemporaError, match=r"cannot be read as a saved state .its .*save it again"):
            pipeline.load(tmp_path / "state")


@pytest.mark.parametrize(
    "label",
    [3, -1, 999, 0.5, float("nan"), True, torch.tensor([3]), torch.tensor([1], dtype=torch.uint64)],
)
def test_a_label_is_a_class_of_the_network(label):
    with tempora.deploy(tiny_network(), "standard", device="cpu") as pipeline:
        future = pipeline.submit(image())
        future.result(PATIENCE_S)
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
        future.result(PATIENCE_S)
        with pytest.raises(TemporaError, match=r"submit\(\) did not return: give one of this pipeline"):
            other.label(future, 0)
        assert (one.stats()["labelled"], other.stats()["labelled"]) == (0, 0)
