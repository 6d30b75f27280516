"""The later methods' arithmetic, by hand: numbers that anybody can check with a pocket calculator."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tempora_tta.methods import create, custom_norm
from tempora_tta.methods.cma import Constants
from tempora_tta.methods.custom_norm import Copies, MixedNorm, RobustNorm, follow
from tempora_tta.methods.foa import FOA
from tempora_tta.methods.functions import cross_entropy
from tempora_tta.methods.memo import marginal_entropy
from tempora_tta.methods.rotta import BalancedMemory
from tempora_tta.methods.weighted import likelihood_ratio, smoothed_prior
from tempora_tta.models import Classifier, wrap


def values(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def close(given: Tensor, *numbers: float) -> None:
    assert given.detach().flatten().tolist() == pytest.approx(list(numbers), abs=1e-6)


def bare_norm(mean: float, var: float) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(1, eps=0.0).double()
    layer.running_mean.fill_(mean)
    layer.running_var.fill_(var)
    return layer


class Norm1(nn.Module):
    """One BatchNorm layer over the pixels, and two classes: the pixel itself and zero."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = bare_norm(1.0, 4.0)
        self.fc = nn.Linear(1, 2, bias=False).double()
        self.fc.weight.data = torch.tensor([[1.0], [0.0]], dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.bn(x).flatten(1))


def pixels(*numbers: float) -> Tensor:
    return values(*numbers).view(-1, 1, 1, 1)


def test_alpha_bn() -> None:
    model = wrap(Norm1(), features=lambda network, x: network.bn(x).flatten(1), head="fc")
    method = create("alpha_bn", model)
    close(method.predict(pixels(3, 5, 7, 9))[:, 0], 0.726184, 1.694430, 2.662676, 3.630922)
    layer = next(iter(method.layers.values()))
    close(torch.cat(layer.mixed(layer.running_mean, layer.running_var)), 1.05, 4.026667)
    ema = create("alpha_bn", model, mode="ema")
    close(ema.predict(pixels(3, 5, 7, 9))[:, 0], 0.726184, 1.694430, 2.662676, 3.630922)
    layer = next(iter(ema.layers.values()))
    close(torch.cat([layer.running_mean, layer.running_var]), 1.5, 4.266667)
    ema.predict(pixels(0, 2, 4, 2))
    close(torch.cat([layer.running_mean, layer.running_var]), 1.55, 4.106667)


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


def test_a_copy_of_the_source_s_statistics_takes_one_batch() -> None:
    """The second batch of a forward, in a layer that is used twice, is not mixed with the first."""
    layer = MixedNorm(bare_norm(1.0, 4.0))
    layer.weight_of_batch = 0.1
    copies = Copies({layer: (layer.source_mean, layer.source_var)})
    for _ in range(2):
        copies.refresh()
        close(layer(pixels(3, 5, 7, 9)), 0.726184, 1.694430, 2.662676, 3.630922)
        close(layer(pixels(3, 5, 7, 9)), 0.726184, 1.694430, 2.662676, 3.630922)
    close(torch.cat([layer.source_mean, layer.source_var]), 1, 4)


def test_alpha_bn_s_statistics_do_not_follow_a_batch_that_is_not_finite() -> None:
    """Neither a layer's own, nor those that all layers put off, and in the order of the batches."""
    layer, twin = (MixedNorm(bare_norm(1.0, 4.0)) for _ in range(2))
    copies = Copies({layer: (layer.source_mean, layer.source_var)})
    for batch in (pixels(3, 5, 7, 9), pixels(0, float("nan"), 4, 2), pixels(0, 2, 4, 2)):
        copies.refresh()
        for one in (layer, twin):
            one.weight_of_batch, one.track = 0.1, True
            one(batch)
        assert layer.seen
        assert not twin.seen
        follow([layer, twin])
        assert torch.equal(layer.running_mean, twin.running_mean)
        torch.testing.assert_close(layer.running_var, twin.running_var, rtol=1e-14, atol=0)
    # 0.9 (0.9 S + 0.1 (6, 20/3)) + 0.1 (2, 8/3): the same as in `ema`
    close(torch.cat([layer.running_mean, layer.running_var]), 1.55, 4.106667)


def test_t3a() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=True)).double()
    network[1].weight.data, network[1].bias.data = torch.eye(2, dtype=torch.float64), values(0, 0)
    method = create("t3a", wrap(network, features=lambda net, x: x.flatten(1), head="1"))
    close(method.predict(values(3, 1).view(1, 2, 1, 1)), 3.121445, 1.0)


def test_eata_s_penalty(vit: Classifier) -> None:
    method = create("eata", vit, beta=0)
    w = nn.Parameter(values(1.002, 0.499))
    method.settings = SimpleNamespace(beta=2000.0)
    method.parameters, method.optimizer = [w], torch.optim.SGD([w], 2.5e-4, 0.9)
    method.anchors, method.importance = [values(1, 0.5)], [values(0.01, 0.04)]
    loss = (w * values(0.3, -0.2)).sum()
    (total,) = method.gradients(loss)
    close(total, 0.38, -0.36)
    method.step([total])
    close(w, 1.001905, 0.49909)


def test_cotta_restores_after_the_teacher_has_followed(vit: Classifier) -> None:
    method = create("cotta", vit, restore=0.01)
    w, teacher = nn.Parameter(values(1, 2, 3, 4)), nn.Parameter(values(0, 0, 0, 0), requires_grad=False)
    method.parameters = [w]
    method.changing, method.source_weights = {"teacher": teacher}, [values(0, 0, 0, 0)]
    method.mask = lambda w: values(0.005, 0.5, 0.02, 0.0099) < 0.01
    method.after_step()
    close(teacher, 0.001, 0.002, 0.003, 0.004)
    close(w, 0, 2, 3, 0)
    log_p, log_u = values(0.8, 0.2).log()[None], values(0.6, 0.4).log()[None]
    close(cross_entropy(log_p, log_u), 0.591919)
    close(0.5 * cross_entropy(log_p, log_u) + 0.5 * cross_entropy(log_u, log_p), 0.684790)


def test_cotta_s_masks_are_drawn_in_the_order_of_the_parameters(vit: Classifier) -> None:
    method, generator = create("cotta", vit, restore=0.25), torch.Generator()
    for _ in range(2):
        generator.set_state(method.generator.get_state())
        for w in method.parameters:
            assert torch.equal(method.mask(w).bool(), torch.rand(w.shape, generator=generator) < 0.25)
    assert method.mask(torch.zeros(10_000)).mean() == pytest.approx(0.25, abs=0.03)


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


def test_rotta_s_robust_batchnorm() -> None:
    layer = RobustNorm(bare_norm(0.0, 1.0), momentum=0.05)
    layer.learning = True
    close(layer(pixels(2, 4)), 1.85, 3.85)
    close(torch.cat(layer.proposed), 0.15, 1.0)
    Copies({layer: (layer.running_mean, layer.running_var)}).refresh()
    for _ in range(2):  # the second batch of a forward finds no copy
        close(layer(pixels(2, 4)), 1.85, 3.85)
        close(torch.cat(layer.proposed), 0.15, 1.0)
    close(layer.running_mean, 0.0)  # until the update is made


def test_roid(vit: Classifier) -> None:
    close(likelihood_ratio(values(0.7, 0.2, 0.1)[None]), -0.096147)
    method = create("roid", vit)
    method.distribution = values(0.6, 0.2, 0.2)[None]
    p = torch.stack([values(0.8, 0.1, 0.1), values(0.1, 0.8, 0.1), values(0.4, 0.3, 0.3)])
    close(method.weights(p, -(p * p.log()).sum(dim=1)), 0.0, 20.085537, 0.0)
    method.batch_distribution = p.mean(dim=0, keepdim=True)
    method.remember_source = lambda: None
    method.after_step()
    close(method.distribution, 0.583333, 0.22, 0.196667)
    rows = torch.stack([values(0.6, 0.3, 0.1)] * 4)
    close(smoothed_prior(rows.log())[0], 0.433333, 0.320833, 0.245833)


def test_memo() -> None:
    close(marginal_entropy(torch.stack([values(0.9, 0.1), values(0.5, 0.5)]).log()), 0.610864)


def test_rdumb_starts_over(vit: Classifier, batches: list[Tensor]) -> None:
    method, fresh = (create("rdumb", vit, reset_every=3, margin=1.1, max_similarity=2.0) for _ in range(2))
    actions = []
    for x in batches[:3]:
        method.predict(x)
        actions.append(method.adapt())
    assert actions == ["step", "step", "recovered"]
    assert torch.equal(method.predict(batches[3]), fresh.predict(batches[3]))
    assert method.adapt() == "step"


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


def test_foa_s_discrepancy_and_shift() -> None:
    method: Any = FOA.__new__(FOA)
    method.settings = SimpleNamespace(prompts=1, discrepancy=0.4)
    method.source_mean, method.source_std = values(0.5)[:, None], values(1.0)[:, None]
    g = values(0, 2).view(1, 2, 1)
    method.tokens = SimpleNamespace(prompted=lambda tokens, prompts: None, run=lambda _: g)
    method.model = SimpleNamespace(head=lambda f: f * 0 + values(0, -1e9))  # certain: no entropy
    fitness, _ = method.tried(torch.zeros(2, 1, 1), torch.zeros(1, 1))
    close(fitness, 0.00526966)
    method.model = SimpleNamespace(head=lambda f: f)
    method.source_mean, method.mu = values(1.0)[:, None], None
    shifts = []
    for mean in (2.0, 4.0, 0.0):
        shifts.append(float(method.head(values(0.0))))
        method.mu = values(mean) if method.mu is None else 0.9 * method.mu + 0.1 * values(mean)
    assert shifts == pytest.approx([0.0, -1.0, -1.2])


def test_foa_leaves_candidates_that_are_not_finite_out_of_its_mean() -> None:
    method: Any = FOA.__new__(FOA)
    method.mu, told = None, []
    method.search = SimpleNamespace(update=lambda candidates, order: told.append(order.tolist()))
    f = torch.stack([values(1, 3), values(float("nan"), 0), values(5, 7)])[
        :, :, None
    ]  # three candidates, two images
    usable, order = torch.tensor([True, False, True]), torch.tensor([2, 0, 1])
    method.pending = (torch.eye(3, dtype=torch.float64), order, usable, f)
    assert method.adapt() == "step"
    close(method.mu, 4.0)
    close(method.winner, 0.0, 0.0, 1.0)
    assert told == [[2, 0, 1]]
    method.pending = (torch.eye(3, dtype=torch.float64), order, torch.zeros(3, dtype=torch.bool), f)
    assert method.adapt() == "non_finite"
    close(method.mu, 4.0)
