"""Settle, and statistics that are averaged from the first batch on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tempora_tta import data, models
from tempora_tta.data import open_stream
from tempora_tta.methods import create
from tempora_tta.models import Classifier


def images(network: Classifier, shift: str, batches: int) -> list[Tensor]:
    """The first batches of a shift of the bundled images."""
    opened = data.open("fashion", shifts=[shift])[shift]
    stream = open_stream(opened, network.preprocessing, limit_batches=batches, workers=0)
    return [stream.batch(index) for index in range(batches)]


def layer_of(method) -> torch.nn.Module:
    """The first BatchNorm layer: what it gets does not depend on the layers before."""
    return next(iter(method.statistics.layers.values()))


def inputs(model: Classifier, name: str, x: Tensor) -> Tensor:
    """What the layer of that name gets from a batch."""
    got: list[Tensor] = []
    hook = model.get_submodule(name).register_forward_pre_hook(lambda _, given: got.append(given[0]))
    with torch.no_grad():
        model(x)
    hook.remove()
    return got[0]


@pytest.mark.parametrize("name", ["adabn", "tent", "settle"])
def test_statistics_are_the_plain_mean_over_batches(
    name: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    settings = {} if name == "settle" else {"frozen_stats": "averaged"}
    method = create(name, resnet, **settings)
    first = next(iter(method.statistics.layers))
    features = [inputs(resnet, first, x).transpose(0, 1).flatten(1) for x in batches[:3]]
    for x in batches[:3]:
        method.predict(x)
        method.adapt()
    assert torch.allclose(
        layer_of(method).running_mean, torch.stack([f.mean(dim=1) for f in features]).mean(dim=0), atol=1e-5
    )
    assert torch.allclose(
        layer_of(method).running_var, torch.stack([f.var(dim=1) for f in features]).mean(dim=0), rtol=1e-4
    )


@pytest.mark.parametrize("name", ["adabn", "tent"])
def test_averaged_statistics_of_no_batch_are_the_source_s(name: str) -> None:
    """As published a model frozen before its first batch predicts with mean 0 and variance 1."""
    network = models.load("fashion_resnet")
    (x,) = images(network, "clean", 1)
    expected = create("standard", network).predict(x)
    averaged, published = create(name, network, frozen_stats="averaged"), create(name, network)
    for method in (averaged, published):
        method.freeze()
    with torch.no_grad():
        assert torch.allclose(averaged.predict(x), expected, atol=1e-5)
        assert not torch.allclose(published.predict(x), expected, atol=1)


@pytest.mark.parametrize("network", ["resnet", "vit"])
def test_settled_it_changes_no_more(
    network: str, request: pytest.FixtureRequest, batches: list[Tensor]
) -> None:
    method = create("settle", request.getfixturevalue(network), batches=2)
    actions = []
    for x in batches[:2]:
        method.predict(x)
        actions.append(method.adapt())
    assert actions == ["settling", "settling"]
    scores = method.predict(batches[2])
    for x in batches[3:6]:
        method.predict(x)
        assert method.adapt() == "none"
    assert torch.equal(method.predict(batches[2]), scores)
    assert method.work == ("settled", 0.0)
    method.freeze()
    assert torch.equal(method.predict(batches[2]), scores)


def test_settled_on_a_network_without_batchnorm_it_centres_features(
    vit: Classifier, batches: list[Tensor]
) -> None:
    method = create("settle", vit, batches=2)
    with torch.no_grad():
        features = [vit.features(x) for x in batches[:3]]
        centre = (features[0].mean(dim=0) + features[1].mean(dim=0)) / 2
        expected = vit.head(features[2] - centre)
    for x in batches[:2]:
        method.predict(x)
        method.adapt()
    assert torch.allclose(method.predict(batches[2]), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["fashion_resnet", "fashion_vit"])
def test_it_settles_anew_when_the_stream_changes(name: str) -> None:
    network = models.load(name)
    method = create("settle", network, batches=2, usual=4)
    actions = []
    for x in [*images(network, "clean", 8), *images(network, "gaussian_noise", 4)]:
        method.predict(x)
        actions.append(method.adapt())
    looks = ["none"] * 3 + ["looked"]  # every fourth batch, at all since the last look
    assert actions == ["settling"] * 2 + looks + ["none"] * 3 + ["alarm"] + ["settling"] * 2
    method.reset()
    (x,) = images(network, "clean", 1)
    assert torch.equal(method.predict(x), create("settle", network, batches=2).predict(x))


def test_a_batch_with_nan_raises_no_alarm_and_leaves_no_trace(
    resnet: Classifier, batches: list[Tensor]
) -> None:
    method = create("settle", resnet, batches=2, usual=2)
    method.predict(batches[0])
    method.adapt()
    before = [buffer.clone() for buffer in method.statistics.buffers().values()]
    method.predict(torch.full_like(batches[0], torch.nan))
    method.adapt()
    after = method.statistics.buffers()
    for name, old in zip(after, before, strict=True):
        if not name.endswith("num_batches_tracked"):
            assert torch.equal(after[name], old), name
    actions = []
    for x in (batches[1], batches[2], torch.full_like(batches[0], torch.nan), batches[3]):
        method.predict(x)
        actions.append(method.adapt())
    assert actions == ["none"] * 3 + ["looked"]
    assert len(method.usual) == 2
