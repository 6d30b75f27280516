"""SPA's views: the published mask, and the strength of its noise."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tempora_tta.methods import create
from tempora_tta.models import Classifier


def test_the_published_mask_can_drop_the_frequencies_of_the_published_code(vit: Classifier) -> None:
    """At 224 pixels: 22 rows below zero with columns -22 to 21, half a row at zero, and the mirror of each."""
    half = [(row, column) for row in range(-22, 0) for column in range(-22, 22)]
    half += [(0, column) for column in range(22)]
    expected = {(row % 224, column % 224) for pair in half for row, column in (pair, (-pair[0], -pair[1]))}
    assert len(expected) == 1979
    x = torch.randn(1, 1, 224, 224, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    masked = create("spa", vit, mask="published", mask_probability=1.0).masked(x)
    dropped = torch.fft.fft2(masked)[0, 0].abs() < 1e-9
    assert {tuple(pair) for pair in dropped.nonzero().tolist()} == expected


def test_the_strength_of_the_noise_climbs_and_keeps_its_mean(vit: Classifier, batches: list[Tensor]) -> None:
    method = create("spa", vit)
    for x in batches:
        method.predict(x)
        method.adapt()
    strength = method.strength.detach()
    assert strength.shape == (4, 4)
    assert strength.std() > 0
    assert strength.square().mean().item() <= 0.4 + 1e-6
    assert strength.abs().max() <= 1
    start = create("spa", vit)
    start.noised(batches[0])
    assert torch.all(start.strength == math.sqrt(0.4))
