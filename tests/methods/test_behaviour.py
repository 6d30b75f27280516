"""Behaviour of methods on a stream: freezing early, filters, recovery, bad batches, and when they adapt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tempora_tta.data.bundled import test_set as fashion_images
from tempora_tta.errors import TemporaError
from tempora_tta.methods import create, names
from tempora_tta.methods.contract import UNTOLD
from tempora_tta.methods.lame import affinity
from tempora_tta.methods.testing import run
from tempora_tta.models import Classifier, load


def accuracy_frozen_after(count: int, name: str, **settings: str) -> float:
    """Measure the bundled BatchNorm network on clean images, frozen after `count` batches."""
    pixels, labels = fashion_images()
    model = load("fashion_resnet")
    mean, std = model.preprocessing.mean[0], model.preprocessing.std[0]
    x = (torch.from_numpy(pixels[:512].astype(np.float32))[:, None] / 255 - mean) / std
    y = torch.from_numpy(labels[:512].astype(np.int64))
    method = create(name, model, **settings)
    run(method, x[:256].split(64)[:count])
    method.freeze()
    return (method.predict(x[256:]).argmax(dim=1) == y[256:]).float().mean().item()


@pytest.mark.parametrize("batches_seen", [1, 3])
def test_frozen_early_methods_live_or_die_by_their_statistics(batches_seen: int) -> None:
    """The paper's ablation: resetting source statistics collapses a method that is frozen early."""
    for name, settings in (
        ("tent", {}),
        ("eta", {}),
        ("adabn", {}),
        ("shot_im", {"params": "norm", "source_stats": "reset"}),
    ):
        assert accuracy_frozen_after(batches_seen, name, **settings) < 0.3, name
    for name, settings in (
        ("shot_im", {}),
        ("eta", {"source_stats": "keep"}),
        ("tent", {"source_stats": "keep"}),
        ("tent", {"frozen_stats": "batch"}),
        ("tent", {"frozen_stats": "averaged"}),
        ("adabn", {"frozen_stats": "averaged"}),
        ("settle", {}),
    ):
        assert accuracy_frozen_after(batches_seen, name, **settings) > 0.85, name


@pytest.mark.parametrize("name", ["eta", "sar", "deyo"])
def test_nothing_kept_changes_no_parameter_and_no_momentum(
    name: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    method = create(name, resnet, **{"max_entropy" if name == "deyo" else "margin": 1e-6})
    before = method.snapshot()
    method.predict(batches[0])
    assert method.adapt() == "nothing_kept"
    after = method.snapshot()
    trained = len(method.trainable)
    assert all(map(torch.equal, before["tensors"][:trained], after["tensors"][:trained]))
    assert not method.optimizer.state


@pytest.mark.parametrize("name", ["tent", "shot_im", "cmf"])
def test_a_batch_with_nan_is_counted_and_leaves_no_trace(
    name: str, vit: Classifier, batches: list[Tensor]
) -> None:
    spoilt, spared = create(name, vit), create(name, vit)
    run(spoilt, batches[:2])
    run(spared, batches[:2])
    spoilt.predict(torch.full_like(batches[0], torch.nan))
    assert spoilt.adapt() == "non_finite"
    assert torch.equal(spoilt.predict(batches[2]), spared.predict(batches[2]))


def test_sar_recovers_to_where_it_began(vit: Classifier, batches: list[Tensor]) -> None:
    method = create("sar", vit, margin=1.0, recover_below=0.0)
    ((_, action),) = run(method, batches[:1])
    assert action == "step"
    assert method.ema is not None
    fragile = create("sar", vit, margin=1.0, recover_below=100.0)
    first = fragile.predict(batches[0])
    assert fragile.adapt() == "recovered"
    assert fragile.ema is None
    assert torch.equal(fragile.predict(batches[0]), first)


def test_a_lone_view_is_normalised_as_if_it_came_twice(resnet: Classifier, batches: list[Tensor]) -> None:
    """One kept sample leaves a single value per channel in the last stage; PyTorch refuses, we need not."""
    method = create("deyo", resnet)
    x = batches[0][:1]
    with pytest.raises(TemporaError, match="a batch of 1 gives BatchNorm a single value per channel"):
        method.predict(x)
    method.reset()
    with torch.no_grad(), method.untracked():
        expected = method.model(torch.cat([x, x]))[:1]
    assert torch.equal(method.view_logits(x), expected)


def test_neo_ignores_a_batch_that_would_spoil_its_mean(vit: Classifier, batches: list[Tensor]) -> None:
    method = create("neo", vit)
    method.predict(batches[0])
    mu = method.mu.clone()
    method.predict(torch.full_like(batches[0], torch.nan))
    assert torch.equal(method.mu, mu)
    assert method.seen == len(batches[0])


def test_every_adapts_on_the_first_of_k_batches(resnet: Classifier, batches: list[Tensor]) -> None:
    method = create("tent", resnet, every=3)
    assert [action for _, action in run(method, batches)] == ["step", "none", "none"] * 2
    plain = create("tent", resnet)
    run(plain, batches[:1])
    method.reset()
    run(method, batches[:1])
    assert torch.equal(method.predict(batches[1]), plain.predict(batches[1]))
    assert method.pending is None  # no graph is kept for a batch without adaptation


def test_stop_after_freezes_at_the_state_reached(resnet: Classifier, batches: list[Tensor]) -> None:
    method = create("tent", resnet, stop_after=2)
    assert [action for _, action in run(method, batches[:4])] == ["step", "step", "none", "none"]
    by_hand = create("tent", resnet)
    run(by_hand, batches[:2])
    by_hand.freeze()
    assert torch.equal(method.predict(batches[5]), by_hand.predict(batches[5]))
    method.reset()
    assert not method.frozen
    assert create("tent", resnet, stop_after=0).frozen


def test_schedules_combine(resnet: Classifier, batches: list[Tensor]) -> None:
    method = create("tent", resnet, every=2, stop_after=3, reforward=True)
    assert [action for _, action in run(method, batches)] == ["step", "none", "step", "none", "none", "none"]
    assert (method.settings.every, method.settings.stop_after, method.settings.reforward) == (2, 3, True)
    assert not method.history_free


@pytest.mark.parametrize("frozen_stats", ["tracked", "batch"])
def test_the_last_batch_is_still_predicted_again_while_adapting(
    frozen_stats: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    options: dict[str, Any] = {"lr": 0.1, "frozen_stats": frozen_stats, "reforward": True}
    stopped, goes_on = create("tent", resnet, stop_after=1, **options), create("tent", resnet, **options)
    assert torch.equal(stopped.predict(batches[0]), goes_on.predict(batches[0]))
    assert (stopped.adapt(), stopped.frozen) == ("step", True)
    goes_on.adapt()
    goes_on.freeze()
    assert torch.equal(stopped.predict(batches[1]), goes_on.predict(batches[1]))


@pytest.mark.parametrize("name", names())
def test_predicting_again_changes_nothing(
    name: str, request: pytest.FixtureRequest, batches: list[Tensor]
) -> None:
    """The next batches go as if it had not been."""
    model = request.getfixturevalue("vit" if name in ("spa", "zerosiam", "foa") else "resnet")
    options: dict[str, Any] = {"memo": {"views": 2}, "cotta": {"views": 1, "gate": 1.0}}.get(name, {})
    if name in ("eata", "foa"):
        options = {"samples": 16, "source": torch.cat(batches)}
    looked, plain = (create(name, model, **options) for _ in range(2))
    run(looked, batches[:2])
    run(plain, batches[:2])
    at = (UNTOLD,) if looked.time_aware else ()
    looked.predict_again(batches[1], *at)
    for (one, did), (two, done) in zip(run(looked, batches[2:4]), run(plain, batches[2:4]), strict=True):
        assert torch.equal(one, two)
        assert did == done


def test_lame_finds_neighbours_of_dead_features() -> None:
    """A vector of zeros is at distance 1 from every unit vector: nearer than one that points elsewhere."""
    f = torch.tensor([[1, 0, 0], [0.3, 0.9, 0], [0.2, 0.1, 0.9], [0, 0, 0]])
    distances = torch.cdist(torch.nn.functional.normalize(f), torch.nn.functional.normalize(f))
    nearest = distances.fill_diagonal_(torch.inf).argmin(dim=1)
    assert affinity(f, 1).argmax(dim=1)[:3].tolist() == nearest[:3].tolist() == [3, 3, 3]


def test_deyo_says_that_images_are_too_small(resnet: Classifier) -> None:
    with pytest.raises(TemporaError, match="3 x 8 pixels cannot be cut"):
        create("deyo", resnet).predict(torch.zeros(2, 3, 3, 8))


def test_scaled_the_learning_rate_follows_the_size_of_each_batch(
    resnet: Classifier, batches: list[Tensor]
) -> None:
    published, scaled = (create("tent", resnet, lr=0.01, **more) for more in ({}, {"lr_scaling": "linear"}))
    half = create("tent", resnet, lr=0.01 * len(batches[0]) / 64)
    for method in (published, scaled, half):
        method.predict(batches[0])
        method.adapt()
    for name, tensor in scaled.trainable.items():
        assert tensor.equal(half.trainable[name])
    assert any(not tensor.equal(published.trainable[name]) for name, tensor in scaled.trainable.items())
