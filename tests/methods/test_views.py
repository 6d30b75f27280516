"""The random views: crops, patch shuffles, masked frequencies and noisy patches."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2.functional import resized_crop

from tempora_tta.methods import create
from tempora_tta.methods.views import SCALE, crop_sizes, random_offsets, random_resized_crops
from tempora_tta.models import Classifier


@pytest.fixture
def images() -> Tensor:
    return torch.rand(64, 3, 30, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1


def test_crops_equal_torchvision_s_with_antialias(images: Tensor) -> None:
    """The same boxes, one image at a time, through an outside implementation."""
    generator = torch.Generator().manual_seed(3)
    views = random_resized_crops(images, generator)
    generator.manual_seed(3)
    heights, widths = crop_sizes(64, 30, 20, generator, SCALE)
    tops = random_offsets(30 - heights, generator)
    lefts = random_offsets(20 - widths, generator)
    flips = torch.rand(64, generator=generator) < 0.5
    for image, view, top, left, height, width, flip in zip(
        images, views, tops, lefts, heights, widths, flips, strict=True
    ):
        box = [int(value) for value in (top, left, height, width)]
        expected = resized_crop(image[None], *box, [30, 20], antialias=True)[0]
        torch.testing.assert_close(view, expected.flip(-1) if flip else expected, rtol=0, atol=1e-10)


def test_crops_have_the_wanted_areas_and_aspects() -> None:
    heights, widths = crop_sizes(4000, 224, 224, torch.Generator().manual_seed(0), SCALE)
    area, aspect = heights * widths / 224**2, widths / heights
    assert 0.49 < area.min() < 0.52
    assert area.max() <= 1
    assert aspect.min() >= 3 / 4 - 0.01
    assert aspect.max() <= 4 / 3 + 0.01
    assert abs(aspect.log().mean()) < 0.01


def test_masked_frequencies_come_in_pairs_near_zero(vit: Classifier, images: Tensor) -> None:
    method = create("spa", vit, mask_probability=0.5)
    masked = method.masked(images)
    before, after = (torch.fft.fft2(x) for x in (images, masked))
    dropped = after.abs() < 1e-9
    untouched = torch.isclose(after, before, atol=1e-9)
    assert (dropped | untouched).all()  # the amplitude is gone, or everything is as it was
    rows, columns = (torch.fft.fftfreq(side, 1 / side).abs() for side in (30, 20))
    within = (rows[:, None] <= 2) & (columns[None, :] <= 1)  # squares of side int(0.2 * 30) and int(0.2 * 20)
    assert not (dropped & ~within).any()
    assert dropped[:, :, within].double().mean().item() == pytest.approx(0.5, abs=0.05)
    assert create("spa", vit, mask_probability=1.0).masked(images).mean(dim=(2, 3)).abs().max() < 1e-12


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


def test_noise_is_shared_by_the_batch_and_clipped_to_an_image_s_range(vit: Classifier) -> None:
    method = create("spa", vit)
    x = torch.zeros(5, 3, 16, 16)
    noised = method.noised(x)
    assert torch.equal(noised[0], noised[4])
    assert noised.abs().max() <= 1
    assert noised.std() > 0.2


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


def test_views_can_be_replaced(vit: Classifier, batches: list[Tensor]) -> None:
    method = create("spa", vit)
    method.views = lambda x: (0.5 * x, 0.3 * x)
    method.predict(batches[0])
    assert method.adapt() in {"step", "nothing_kept"}
