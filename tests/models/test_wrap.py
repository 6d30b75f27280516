"""`wrap` splits any network into features and head, copies included."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from tempora_tta.errors import TemporaError
from tempora_tta.models import Classifier, wrap


class Small(nn.Module):
    """A network that follows no conventions."""

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
    assert (model.family, model.num_classes) == (family, 7)
    assert model.top[0].startswith(first_of_the_top)
    assert torch.equal(model(images), network(images))
    assert model.features(images).shape == (2, model.num_features)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "convnext_tiny"])
def test_torchvision_networks_need_nothing_else(name: str, images: Tensor) -> None:
    network = getattr(torchvision.models, name)(num_classes=7).eval()
    model = wrap(network)
    assert torch.equal(model(images), network(images))
    assert model.num_classes == 7
    assert model.preprocessing.mean == (0.485, 0.456, 0.406)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("resnetv2_50x1_bit", "head.fc"),
        ("dla46x_c", "fc"),
        ("repvit_m0_9", "head"),
        ("sequencer2d_s", "head.fc"),
        ("caformer_s18", "head.fc"),
    ],
)
def test_timm_heads_need_not_be_linear(name: str, head: str, images: Tensor) -> None:
    network = timm.create_model(name, num_classes=7).eval()
    network.pretrained_cfg = dict(network.pretrained_cfg, input_size=(3, 64, 64))
    model = wrap(network)
    assert (model.head_name, model.num_classes) == (head, 7)
    with torch.no_grad():
        assert model.features(images).shape == (2, model.num_features)
        assert torch.allclose(model(images), network(images))


@pytest.mark.parametrize("name", ["deit_tiny_distilled_patch16_224", "crossvit_tiny_240"])
def test_several_classifiers_are_refused(name: str) -> None:
    with torch.device("meta"):
        network = timm.create_model(name)
    with pytest.raises(TemporaError, match=r"several that vote: give wrap\(\.\.\., features=\.\.\., head="):
        wrap(network)


class Doubled(Small):
    """More than a head on top of features."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def test_a_split_that_computes_something_else_is_refused() -> None:
    known = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "input_size": (3, 8, 8)}
    with pytest.raises(
        TemporaError, match=r"Doubled: its head 'out'.* other logits .* features=\.\.\., head="
    ):
        wrap(Doubled(), **known)
    with pytest.raises(TemporaError, match=r"Tail: its head 'more'.* fails .*takes no part"):
        wrap(Tail(), head="more", **known)
    wrap(Doubled(), features="body", head="out", **known)  # the caller says how


class Probabilities(Small):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(dim=1)


def test_probabilities_are_split_at_their_logits(images: Tensor) -> None:
    model = wrap(Probabilities(), mean=(0.5,) * 3, std=(0.5,) * 3, input_size=(3, 8, 8))
    assert torch.allclose(model(images).softmax(dim=1), model.network(images))


class Tail(Small):
    """A part that forward never reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Linear(4, 5)


def test_comparing_leaves_no_trace() -> None:
    network = Small().train()
    network.body.eval()
    before = torch.get_rng_state()
    wrap(network, mean=(0.5,) * 3, std=(0.5,) * 3, input_size=(3, 8, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert (network.training, network.body.training, network.out.training) == (True, False, True)


def test_the_network_stops_at_its_head(images: Tensor) -> None:
    network = Small()
    model, runs = wrap(network), []
    network.out.register_forward_hook(lambda *_: runs.append("head"))
    model(images).sum().backward()
    assert runs == ["head"]
    assert network.body[0].weight.grad.any()


def test_compiled_features_are_the_same(images: Tensor) -> None:
    model = wrap(Small())
    compiled = torch.compile(model.features, backend="aot_eager")
    assert torch.allclose(compiled(images), model.features(images))


def ways_to_say_features(network: Small) -> dict[str, object]:
    return {
        "nothing": None,
        "a submodule": network.body,
        "its name": "body",
        "submodules in a new module": nn.Sequential(*list(network.children())[:-1]),
        "a bound method": network.embed,
        "a function of the network": lambda network, x: network.embed(x),
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


NETWORK = Small()


@pytest.mark.parametrize(
    "features",
    [
        lambda x: NETWORK.embed(x),
        functools.partial(lambda network, x: network.embed(x), NETWORK),
        nn.Conv2d(3, 4, 3),
        Small().embed,
        3,
    ],
)
def test_features_that_would_stay_with_the_original_are_refused(
    features: Callable[[Tensor], Tensor],
) -> None:
    with pytest.raises(TemporaError, match=r"f\(network, x\)"):
        wrap(NETWORK, features=features, head="out")


def test_unknown_parts_get_a_suggestion() -> None:
    with pytest.raises(TemporaError, match="unknown head submodule 'ouut': did you mean 'out'"):
        wrap(Small(), head="ouut")
    with pytest.raises(TemporaError, match="is not a part of this Small"):
        wrap(Small(), head=nn.Linear(4, 5))
    with pytest.raises(TemporaError, match="no linear classifier"):
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
