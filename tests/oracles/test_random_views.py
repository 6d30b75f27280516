"""The random parts of DeYO, CMF and SPA, each against a plain loop or an outside implementation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import ks_2samp, kstest, truncnorm
from torch import Tensor
from torch.nn.functional import interpolate
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms.v2.functional import resized_crop

import tempora_tta.methods
import tempora_tta.models
from oracles.networks import build


def create(name: str, kind: str, seed: int = 1, **settings: Any) -> Any:
    model = tempora_tta.models.wrap(build(kind), mean=(0.5,) * 3, std=(0.5,) * 3)
    return tempora_tta.methods.create(name, model, seed=seed, **settings)


def images(n: int, height: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    return torch.rand(n, 3, height, width, generator=generator, dtype=torch.float64) * 2 - 1


def area(k: int, image: Tensor) -> tuple[Any, slice, slice]:
    """Return the index of patch k of the 4x4 grid."""
    height, width = image.shape[-2] // 4, image.shape[-1] // 4
    top, left = k // 4 * height, k % 4 * width
    return (..., slice(top, top + height), slice(left, left + width))


def rearranged(image: Tensor, order: list[int]) -> Tensor:
    out = torch.empty_like(image)
    for to, source in enumerate(order):
        out[area(to, image)] = image[area(source, image)]
    return out


def resized(image: Tensor, size: tuple[int, int]) -> Tensor:
    return interpolate(image[None], size, mode="bilinear")[0]


def test_deyo_permutes_the_patches_of_each_sample() -> None:
    x = images(8, 32, 32)
    orders = []
    for before, after in zip(x, create("deyo", "bn").shuffle(x), strict=True):
        order = []
        for to in range(16):
            order += [k for k in range(16) if torch.equal(after[area(to, after)], before[area(k, before)])]
        assert sorted(order) == list(range(16))
        orders.append(tuple(order))
    assert len(set(orders)) == 8


@pytest.mark.parametrize("size", [(34, 34), (39, 45)])
def test_deyo_resizes_what_four_does_not_divide(size: tuple[int, int]) -> None:
    x = images(2, *size)
    shuffled = create("deyo", "bn").shuffle(x)
    lower = (size[0] // 4 * 4, size[1] // 4 * 4)
    for before, after in zip(x, shuffled, strict=True):
        small = resized(before, lower)
        candidates = [resized(rearranged(small, [k] * 16), size) for k in range(16)]
        order = []
        for to in range(16):
            # The middle of a patch shows which patch it is; its rim is blended with its neighbours.
            top = (2 * (to // 4) + 1) * size[0] // 8
            left = (2 * (to % 4) + 1) * size[1] // 8
            middle = (..., slice(top - 1, top + 2), slice(left - 1, left + 2))
            distances = [float((candidate[middle] - after[middle]).abs().max()) for candidate in candidates]
            order.append(min(range(16), key=distances.__getitem__))
        assert sorted(order) == list(range(16))
        expected = resized(rearranged(small, order), size)
        torch.testing.assert_close(after, expected, rtol=0, atol=1e-10)


def signposts(n: int, height: int, width: int) -> Tensor:
    """Images whose pixels tell their column and row, so that a crop's border tells where it was cut."""
    x = images(n, height, width)
    x[:, 0] = torch.arange(width)
    x[:, 1] = torch.arange(height)[:, None]
    return x


def boxes_of(crops: Tensor) -> Tensor:
    """Top, left, height and width of each crop of a signpost."""
    left, top = crops[:, 0].amin((-1, -2)), crops[:, 1].amin((-1, -2))
    right, bottom = crops[:, 0].amax((-1, -2)), crops[:, 1].amax((-1, -2))
    return torch.stack([top, left, bottom - top + 1, right - left + 1], dim=1)


@pytest.mark.parametrize("size", [(32, 32), (24, 40)])
def test_cmf_crops_as_torchvision_does(size: tuple[int, int]) -> None:
    x = signposts(100, *size)
    crops = create("cmf", "bn").view(x)
    for before, after, box in zip(x, crops, boxes_of(crops).round().int().tolist(), strict=True):
        expected = resized_crop(before, *box, list(size), antialias=True)
        flipped = after[0, 0, 0] > after[0, 0, -1]
        torch.testing.assert_close(after, expected.flip(-1) if flipped else expected, rtol=0, atol=1e-9)


def test_cmf_draws_crops_as_torchvision_does() -> None:
    side, n = 64, 1500
    crops = create("cmf", "bn").view(signposts(n, side, side))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        image = torch.empty(3, side, side)
        reference = [RandomResizedCrop.get_params(image, [0.5, 1], [3 / 4, 4 / 3]) for _ in range(n)]
    ours, theirs = boxes_of(crops).T, torch.tensor(reference).double().T
    for top, left, height, width in (ours, theirs):
        assert bool((height + top <= side + 1e-6).all() and (width + left <= side + 1e-6).all())
    shares = [height * width / side**2 for _, _, height, width in (ours, theirs)]
    aspects = [width / height for _, _, height, width in (ours, theirs)]
    rounding = 2 / side
    assert 0.5 - rounding <= float(shares[0].min()) < 0.53
    assert 0.97 < float(shares[0].max()) <= 1
    assert 3 / 4 - rounding <= float(aspects[0].min()) < 0.8
    assert 1.25 < float(aspects[0].max()) <= 4 / 3 + rounding
    for mine, other in (shares, aspects, (ours[0], theirs[0]), (ours[1], theirs[1])):
        assert ks_2samp(mine.numpy(), other.numpy()).pvalue > 0.01
    flips = (crops[:, 0, 0, 0] > crops[:, 0, 0, -1]).double().mean()
    assert abs(float(flips) - 0.5) < 0.05


@pytest.mark.parametrize(("kind", "probability"), [("vit", 0.2), ("gn", 0.1)])
@pytest.mark.parametrize("side", [32, 45])
def test_spa_masks_low_frequencies_in_pairs(kind: str, probability: float, side: int) -> None:
    x = images(64, side, side)
    masked, _ = create("spa", kind).views(x)
    assert masked.dtype == x.dtype
    before, after = torch.fft.fft2(x), torch.fft.fft2(masked)
    dropped = after.abs() < 1e-9
    # What stays is untouched, phase and amplitude; x has no frequency of amplitude 0 itself.
    assert before.abs().min() > 1e-6
    assert float(torch.where(dropped, 0, after - before).abs().max()) < 1e-9
    frequency = torch.fft.fftfreq(side, 1 / side)
    reach = torch.maximum(frequency[:, None].abs(), frequency[None, :].abs())
    half = int(0.2 * side) / 2
    assert not dropped[..., reach > half].any()
    inside = dropped[..., reach < half]
    assert inside.flatten(0, 1).any(0).all()
    assert abs(float(inside.double().mean()) - probability) < 0.02
    mirrored = dropped[..., [-k % side for k in range(side)], :][..., [-k % side for k in range(side)]]
    assert torch.equal(dropped, mirrored)
    patterns = {tuple(pattern.tolist()) for pattern in inside.flatten(0, 1)}
    assert len(patterns) > 64  # drawn again for each sample and channel


def test_spa_draws_new_noise_for_each_batch_and_shares_it_among_samples() -> None:
    method = create("spa", "vit")
    grey = torch.zeros(3, 3, 32, 32, dtype=torch.float64)
    _, first = method.views(grey)
    _, second = method.views(grey)
    first, second = first.detach(), second.detach()
    assert torch.equal(first[0], first[1])
    assert torch.equal(first[0], first[2])
    assert not torch.equal(first, second)
    inner = first[0][first[0].abs() < 1]  # s^2 noise with s^2 = 0.4, where it was not clipped at 1
    expected = truncnorm(-2.5, 2.5, scale=0.4)
    assert kstest(inner.numpy(), expected.cdf).pvalue > 0.01


@pytest.mark.parametrize(("name", "part"), [("deyo", "shuffle"), ("cmf", "view"), ("spa", "views")])
def test_the_seed_decides_and_reset_rewinds(name: str, part: str) -> None:
    x = images(4, 32, 32)

    def drawn(method: Any) -> Tensor:
        result = getattr(method, part)(x)
        return torch.cat(result).detach() if isinstance(result, tuple) else result

    method = create(name, "vit", seed=1)
    first = drawn(method)
    assert not torch.equal(first, drawn(method))
    method.reset()
    assert torch.equal(first, drawn(method))
    assert torch.equal(first, drawn(create(name, "vit", seed=1)))
    assert not torch.equal(first, drawn(create(name, "vit", seed=2)))
