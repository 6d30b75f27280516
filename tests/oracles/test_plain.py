"""The oracles' own arithmetic against PyTorch's, so that a disagreement points at the method."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Categorical, kl_divergence

from oracles.networks import trained
from oracles.plain import PlainBatchNorm, PlainSGD, entropy, kl, log_probabilities


def test_batch_norm_is_that_of_pytorch_in_both_modes() -> None:
    reference = trained("bn").layer1[0].bn1
    plain = PlainBatchNorm(reference)
    x = torch.randn(5, 8, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(plain(x), reference(x))
    plain.use_batch = plain.track = True
    torch.testing.assert_close(plain(x), reference.train()(x))
    torch.testing.assert_close(plain.running_mean, reference.running_mean)
    torch.testing.assert_close(plain.running_var, reference.running_var)


def test_sgd_is_that_of_pytorch() -> None:
    ours, theirs = torch.ones(3), nn.Parameter(torch.ones(3))
    plain = PlainSGD({"w": 0.1})
    reference = torch.optim.SGD([theirs], lr=0.1, momentum=0.9)
    for _ in range(4):
        gradient = torch.randn(3)
        theirs.grad = gradient
        reference.step()
        plain.step({"w": ours}, {"w": gradient})
    torch.testing.assert_close(ours, theirs.detach())


def test_entropy_and_divergence_are_those_of_pytorch() -> None:
    a, b = 3 * torch.randn(2, 10, dtype=torch.float64)
    torch.testing.assert_close(entropy(a), Categorical(logits=a).entropy())
    expected = kl_divergence(Categorical(logits=a), Categorical(logits=b))
    torch.testing.assert_close(kl(log_probabilities(a), log_probabilities(b)), expected)
