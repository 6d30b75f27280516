"""`wrap` splits any network into features and head, copies included."""

from __future__ import annotations

import copy

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from tempora.errors import TemporaError
from tempora.models import Classifier, wrap


class Small(nn.Module):
    """A network that follows nobody's conventions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1))
        self.out = nn.Linear(4, 5)

    def embed(self, x: Tensor) -> Tensor:
        return self.body(x).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.embed(x))


@pytest.fixture
def images() -> Tensor:
    return torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "family", "first_of_the_top"),
    [
        ("resnet10t", "cnn", "layer4"),
        ("convnext_atto", "cnn", "stages.3"),
        ("mobilenetv3_small_050", "cnn", "blocks.5"),
        ("efficientnet_b0", "cnn", "blocks.6"),
    ],
)
def test_timm_networks_need_nothing_else(
    name: str, family: str, first_of_the_top: str, images: Tensor
) -> None:
    network = timm.create_model(name, num_classes=7).eval()
    model = wrap(network)
    assert (model.family, model.num_classes, model.top[0]) == (family, 7, first_of_the_top)
    assert torch.equal(model(images), network(images))
    assert model.features(images).shape == (2, model.num_features)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "convnext_tiny"])
def test_torchvision_networks_need_nothing_else(name: str, images: Tensor) -> None:
    network = getattr(torchvision.models, name)(num_classes=7).eval()
    model = wrap(network)
    assert torch.equal(model(images), network(images))
    assert model.num_classes == 7
    assert model.preprocessing.mean == (0.485, 0.456, 0.406)


def test_the_top_of_a_transformer_is_a_quarter_of_its_blocks_rounded_up() -> None:
    vit = timm.models.vision_transformer.VisionTransformer
    for depth, first in ((12, "blocks.9"), (5, "blocks.3"), (2, "blocks.1")):
        network = vit(img_size=16, patch_size=8, embed_dim=8, depth=depth, num_heads=1, num_classes=3)
        model = wrap(network)
        assert (model.family, model.patch_size, model.top[0]) == ("vit", 8, first)
        assert model.in_top("network.norm")
        assert not model.in_top("network.blocks.0.norm1")
    torchvision_vit = torchvision.models.VisionTransformer(16, 8, 12, 1, 8, 16)
    assert wrap(torchvision_vit).top[0] == "encoder.layers.encoder_layer_9"
    assert wrap(torchvision_vit).in_top("network.encoder.ln")


def ways_to_say_features(network: Small) -> dict[str, object]:
    return {
        "nothing": None,
        "a submodule": network.body,
        "its name": "body",
        "a bound method": network.embed,
        "a function of the network": lambda module, x: module.embed(x),
        "a closure": lambda x: network.body(x).flatten(1),
    }


@pytest.mark.parametrize("way", list(ways_to_say_features(Small())))
def test_a_copy_computes_with_its_own_weights(way: str, images: Tensor) -> None:
    network = Small()
    model = wrap(network, features=ways_to_say_features(network)[way], head="out")
    assert torch.allclose(model(images), network(images))
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.network.body[0].weight.zero_()
        other.network.body[0].bias.zero_()
    assert not other.features(images).any()
    assert torch.allclose(model(images), network(images))


def test_a_function_that_cannot_follow_a_copy_is_refused() -> None:
    with pytest.raises(TemporaError, match=r"write it as f\(module, x\)"):
        wrap(Small(), features=lambda x: x.flatten(1), head="out")


def test_unknown_parts_get_a_suggestion() -> None:
    with pytest.raises(TemporaError, match="unknown head submodule 'ouut': did you mean 'out'"):
        wrap(Small(), head="ouut")
    with pytest.raises(TemporaError, match="is not a part of this Small"):
        wrap(Small(), head=nn.Linear(4, 5))
    with pytest.raises(TemporaError, match="no single linear classifier"):
        wrap(nn.Conv2d(3, 4, 3))


def test_unknown_preprocessing_is_asked_for_only_when_needed() -> None:
    model = wrap(Small())
    with pytest.raises(TemporaError, match=r"mean=\(\.\.\.\), std="):
        _ = model.preprocessing
    with pytest.raises(TemporaError, match="give both or neither"):
        wrap(Small(), mean=(0.5,) * 3)
    given = wrap(Small(), mean=(0.5,), std=(0.25,), input_size=(1, 28, 28)).preprocessing
    assert (given.lowest, given.highest, given.input_size) == ((-2.0,), (2.0,), (1, 28, 28))


def test_the_hash_tells_weights_apart_and_nothing_else() -> None:
    torch.manual_seed(0)
    model = wrap(Small())
    same = copy.deepcopy(model)
    assert model.weights_hash() == same.weights_hash()
    with torch.no_grad():
        same.network.out.bias[0] += 1e-3
    assert model.weights_hash() != same.weights_hash()
    assert isinstance(wrap(model), Classifier)
    assert wrap(model) is model
