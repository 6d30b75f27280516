"""Layers that mix statistics: two passes, single values, and gradients against autograd; and two worked examples."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from tempora_tta.methods import create, custom_norm
from tempora_tta.methods.cma import Constants
from tempora_tta.methods.custom_norm import MixedNorm, RobustNorm
from tempora_tta.methods.rotta import BalancedMemory
from tempora_tta.models import Classifier


def values(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def close(given: Tensor, *numbers: float) -> None:
    assert given.detach().flatten().tolist() == pytest.approx(list(numbers), abs=1e-6)


def bare_norm(mean: float, var: float) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(1, eps=0.0).double()
    layer.running_mean.fill_(mean)
    layer.running_var.fill_(var)
    return layer


def pixels(*numbers: float) -> Tensor:
    return values(*numbers).view(-1, 1, 1, 1)


def test_alpha_bn_in_two_passes_feeds_its_statistics_in_the_first(
    resnet: Classifier, batches: list[Tensor]
) -> None:
    one, two = (create("alpha_bn", resnet, passes=passes) for passes in (1, 2))
    assert torch.equal(one.predict(batches[0]), two.predict(batches[0]))  # mixing needs no tracking
    first, *later = one.changing
    assert torch.equal(one.changing[first], two.changing[first])  # nothing lies below the first layer
    assert not torch.equal(one.changing[later[-1]], two.changing[later[-1]])


def test_moving_alpha_bn_in_two_passes_is_training_mode_then_eval_mode(
    resnet: Classifier, batches: list[Tensor]
) -> None:
    """As the common benchmark does it; two images show best which variance the first forward uses."""
    reference, method = copy.deepcopy(resnet).eval(), create("alpha_bn", resnet, mode="ema", passes=2)
    layers = [layer for layer in reference.modules() if isinstance(layer, nn.BatchNorm2d)]
    for x in (batch[:2] for batch in batches):
        for layer in layers:
            layer.train()
        with torch.no_grad():
            reference(x)
            expected = reference.eval()(x)
        torch.testing.assert_close(method.predict(x), expected)


def test_a_single_value_per_channel_takes_the_source_s_variance() -> None:
    layer = MixedNorm(bare_norm(1.0, 4.0))
    layer.weight_of_batch = 0.5
    close(layer(pixels(3)), (3 - 2) / 2)


def test_rotta_s_memory() -> None:
    memory = BalancedMemory(capacity=2, num_classes=3)
    offered = [("a", 0, 0.1), ("b", 0, 0.5), ("c", 0, 0.05), ("d", 1, 0.3), ("e", 2, 0.2), ("f", 1, 1.0)]
    taken = {name: memory.offer(label, u) is not None for name, label, u in offered}
    assert taken == {"a": True, "b": False, "c": True, "d": True, "e": True, "f": False}
    c, e = memory.entries()
    assert (c.label, c.uncertainty, memory.age(c)) == (0, 0.05, 4)
    assert (e.label, e.uncertainty, memory.age(e)) == (2, 0.2, 2)
    assert [memory.freshness(one) for one in (c, e)] == pytest.approx([0.1192, 0.2689], abs=1e-4)
    assert memory.offer(1, float("nan")) is None


@pytest.mark.parametrize(
    ("device", "shape"),
    [
        ("cpu", (4, 5, 3, 3)),
        pytest.param("cuda", (4, 5, 3, 3), marks=pytest.mark.gpu),
        pytest.param("cuda", (8, 64, 112, 112), marks=pytest.mark.gpu, id="few-channels"),
    ],
)
@pytest.mark.parametrize("affine", [True, False])
def test_the_gradient_of_rotta_s_batchnorm_is_what_autograd_finds(
    affine: bool, device: str, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    layer = nn.BatchNorm2d(shape[1], affine=affine).double().to(device)
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    robust = RobustNorm(layer, 0.05)
    robust.learning = True
    x = torch.randn(shape, dtype=torch.float64, device=device, requires_grad=True)
    wanted = [x, *layer.parameters()]
    mean = 0.95 * layer.running_mean + 0.05 * x.mean((0, 2, 3))
    var = 0.95 * layer.running_var + 0.05 * x.var((0, 2, 3), correction=0)
    expected = (x - mean[:, None, None]) / torch.sqrt(var[:, None, None] + layer.eps)
    if affine:
        expected = expected * layer.weight[:, None, None] + layer.bias[:, None, None]
    given = robust.normalise(x)
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-12)
    into = torch.randn_like(x)
    pairs = zip(
        torch.autograd.grad(given, wanted, into), torch.autograd.grad(expected, wanted, into), strict=True
    )
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14 * x.numel())
    if affine:  # images need no gradient
        (alone,) = torch.autograd.grad(robust.normalise(x.detach()), [layer.weight], into)
        (whole,) = torch.autograd.grad(robust.normalise(x), [layer.weight], into)
        torch.testing.assert_close(alone, whole, rtol=1e-12, atol=1e-12)


def reduced(g, x, mean, invstd, weight, _x_too, of_weight, of_bias):
    """torch.batch_norm_backward_reduce, which only a GPU has: sums per channel of g and of g (x - mean)."""
    shape, over = (1, -1, *([1] * (x.ndim - 2))), [0, *range(2, x.ndim)]
    of_g, of_distance = g.sum(over), (g * (x - mean.view(shape))).sum(over)
    return of_g, of_distance, of_distance * invstd if of_weight else None, of_g if of_bias else None


def by_element(g, x, mean, invstd, weight, of_g, of_distance, count):
    """torch.batch_norm_backward_elemt: w s (g - of_g / n - (x - mean) s^2 of_distance / n)."""
    shape, n = (1, -1, *([1] * (x.ndim - 2))), count.sum()
    of_g, slope, w = (part.view(shape) for part in (of_g / n, invstd**2 * of_distance / n, weight * invstd))
    return w * (g - of_g - (x - mean.view(shape)) * slope)


@pytest.mark.parametrize("few", [False, True])
def test_a_gpu_s_way_to_the_gradient_of_rotta_s_batchnorm_is_the_same(
    few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the two kernels' own formulas, so that what is put together from them is tested without a GPU."""
    monkeypatch.setattr(torch, "batch_norm_backward_reduce", reduced)
    monkeypatch.setattr(torch, "batch_norm_backward_elemt", by_element)
    monkeypatch.setattr(custom_norm, "few_channels", lambda x: few)
    torch.manual_seed(0)
    x, g = torch.randn(2, 512, 64, 3, 3, dtype=torch.float64)
    mean, var, own_mean = torch.randn(64), torch.rand(64) + 0.5, torch.randn(64)
    layer = RobustNorm(nn.BatchNorm2d(64).double(), 0.05)
    layer.weight.data = torch.randn(64, dtype=torch.float64)
    given = (x, layer.weight.detach(), mean.double(), var.double(), own_mean.double())
    context = SimpleNamespace(layer=layer, needs_input_grad=(True,))
    for ours, plain in zip(
        custom_norm.backward_on_gpu(context, g, *given),
        custom_norm.backward_plain(context, g, *given),
        strict=True,
    ):
        assert torch.allclose(ours, plain, rtol=1e-9, atol=1e-12)


def test_foa() -> None:
    c = Constants(2304, 27)
    given = [c.mass, c.c1 * 1e7, c.cm * 1e6, c.cc * 1e3, c.cs * 1e3, c.damp]
    assert given == pytest.approx([7.824763, 3.763349, 2.332823, 1.734569, 4.244279, 1.004244], rel=1e-6)
    assert sum(w for w in c.weights if w < 0) == pytest.approx(-1.161322, abs=1e-6)
    assert len(c.weights) == 28
    assert 16 < c.patience < 17
