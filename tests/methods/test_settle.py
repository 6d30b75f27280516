"""Settle, and statistics that are averaged from the first batch on."""

from __future__ import annotations

import numpy as np
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


@pytest.mark.parametrize("name", ["adabn", "tent"])
def test_statistics_are_the_plain_mean_over_batches(
    name: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    method = create(name, resnet, frozen_stats="averaged")
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


@pytest.mark.parametrize("sizes", [[48], [1, 2, 5, 40], [16, 16, 16]])
def test_settled_statistics_are_those_of_all_images_however_they_came(
    sizes: list[int], resnet: Classifier, batches: list[Tensor]
) -> None:
    """NumPy's mean and variance of everything that reached the first layer: it does not depend on those before it."""
    method = create("settle", resnet)
    first, layer = next(iter(method.layers.items()))
    images = torch.cat(batches)[:48]
    for x in images.split(sizes):
        method.predict(x)
        method.adapt()
    reached = inputs(resnet, first, images).transpose(0, 1).flatten(1).double().numpy()
    np.testing.assert_allclose(layer.running_mean, reached.mean(axis=1), atol=1e-5)
    np.testing.assert_allclose(layer.running_var, reached.var(axis=1), rtol=1e-4)


def test_frame_by_frame_it_settles_on_what_a_batch_would_tell_it() -> None:
    network = models.load("fashion_resnet")
    opened = open_stream(
        data.open("fashion", shifts=["motion_blur"])["motion_blur"],
        network.preprocessing,
        batch_size=128,
        limit_batches=3,
        workers=0,
    )
    right = {}
    for size in (1, 128):
        method = create("settle", network)
        for index in range(2):
            for x in opened.batch(index).split(size):
                method.predict(x)
                method.adapt()
        found = method.predict(opened.batch(2)).argmax(dim=1).numpy()
        right[size] = (found == opened.labels(2)).mean()
    plain = create("standard", network).predict(opened.batch(2)).argmax(dim=1).numpy()
    assert right[1] > (plain == opened.labels(2)).mean() + 0.1
    assert right[1] == pytest.approx(right[128], abs=0.03)


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
    method = create("settle", request.getfixturevalue(network), images=2 * len(batches[0]))
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
    method = create("settle", vit, images=2 * len(batches[0]))
    with torch.no_grad():
        features = [vit.features(x) for x in batches[:3]]
        centre = (features[0].mean(dim=0) + features[1].mean(dim=0)) / 2
        expected = vit.head(features[2] - centre)
    for x in batches[:2]:
        method.predict(x)
        method.adapt()
    assert torch.allclose(method.predict(batches[2]), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["fashion_resnet", "fashion_vit"])
@pytest.mark.parametrize("size", [16, 64])
def test_it_settles_again_when_the_stream_changes(name: str, size: int) -> None:
    network = models.load(name)
    method = create("settle", network, images=128)
    before, after = (torch.cat(images(network, shift, 8)) for shift in ("clean", "gaussian_noise"))
    taken: dict[str, list[str]] = {}
    for shift, frames in (("clean", before), ("noise", after)):
        for x in frames.split(size):
            method.predict(x)
            taken.setdefault(shift, []).append(method.adapt())
    assert taken["clean"].count("settling") == taken["noise"].count("settling") == 128 // size
    assert "alarm" not in taken["clean"]
    assert taken["noise"].index("alarm") < 256 // size
    method.reset()
    assert torch.equal(method.predict(before[:64]), create("settle", network).predict(before[:64]))


def test_a_batch_with_nan_raises_no_alarm_and_leaves_no_trace(
    resnet: Classifier, batches: list[Tensor]
) -> None:
    size = len(batches[0])
    method = create("settle", resnet, images=2 * size)
    method.predict(batches[0])
    method.adapt()
    before = {name: tensor.clone() for name, tensor in method.changing.items()}
    method.predict(torch.full_like(batches[0], torch.nan))
    method.adapt()
    for name, tensor in method.changing.items():
        assert torch.equal(tensor, before[name]), name
    actions = set()
    for _ in range(600 // size):
        method.predict(torch.full_like(batches[0], torch.nan))
        actions.add(method.adapt())
    assert actions == {"none", "looked"}
