"""The views of CoTTA, RoTTA, ROID and MEMO against torchvision and PIL, one image at a time."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn.functional import pad
from torchvision.transforms.v2 import functional as tv

from tempora_tta.methods import create
from tempora_tta.methods import views as made
from tempora_tta.models import Classifier

SIDE = 32


@pytest.fixture
def pixels() -> Tensor:
    """Smooth images with some structure, in [0, 1]."""
    coarse = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.nn.functional.interpolate(coarse, (SIDE, SIDE), mode="bilinear")


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_the_move_is_torchvision_s_on_padded_images(pixels: Tensor, padding: str) -> None:
    """Pad, move, blur, crop, as published; ours computes the crop's pixels alone."""
    dice = torch.Generator().manual_seed(5)
    for _ in range(10):
        drawn = made.draw(dice, SIDE, SIDE)
        mode = {"border": "replicate", "reflection": "reflect"}[padding]
        padded = pad(pixels, (SIDE // 2,) * 4, mode=mode)
        moved = tv.affine(
            padded,
            drawn.degrees,
            list(drawn.shift),
            drawn.scale,
            [0.0, 0.0],
            interpolation=tv.InterpolationMode.BILINEAR,
        )
        expected = tv.center_crop(tv.gaussian_blur(moved, [5, 5], [drawn.sigma] * 2), [SIDE, SIDE])
        wide = made.affine(pixels, drawn.degrees, drawn.scale, drawn.shift, padding, made.MARGIN)
        given = made.blurred(wide, drawn.sigma)
        torch.testing.assert_close(given, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("turns", [-0.06, 0.0, 0.013, 0.06])
def test_hue_is_torchvision_s(pixels: Tensor, turns: float) -> None:
    """On smooth images, on greys among colours, and where two channels are equally bright."""
    few_levels = (pixels * 3).round() / 3
    for image in (pixels, few_levels, pixels[:, :1].expand_as(pixels)):
        torch.testing.assert_close(
            made.hue_turned(image, turns), tv.adjust_hue(image, turns), rtol=0, atol=2e-6
        )
    torch.testing.assert_close(made.hue_turned(pixels[:, :1], turns), pixels[:, :1])


@pytest.mark.parametrize("channels", [1, 3])
def test_colours_are_torchvision_s(pixels: Tensor, channels: int) -> None:
    images, dice = pixels[:, :channels], torch.Generator().manual_seed(1)
    for _ in range(10):
        drawn = made.draw(dice, SIDE, SIDE)
        expected = images
        for index in drawn.order:
            if index == 0:
                expected = tv.adjust_brightness(expected, drawn.brightness)
            elif index == 1:
                expected = tv.adjust_contrast(expected, drawn.contrast)
            elif index == 2:
                expected = tv.adjust_saturation(expected, drawn.saturation)
            elif index == 3 and channels == 3:
                expected = tv.adjust_hue(expected, drawn.hue)
            elif index == 4:
                expected = tv.adjust_gamma(expected.clamp(1e-8, 1), drawn.gamma)
        torch.testing.assert_close(made.coloured(images, drawn), expected, rtol=0, atol=2e-6)


def test_draws_lie_within_their_limits() -> None:
    dice = torch.Generator().manual_seed(0)
    drawn = [dataclasses.asdict(made.draw(dice, SIDE, 2 * SIDE)) for _ in range(2000)]
    limits = {
        "brightness": (0.6, 1.4),
        "contrast": (0.7, 1.3),
        "saturation": (0.5, 1.5),
        "hue": (-0.06, 0.06),
        "gamma": (0.7, 1.3),
        "degrees": (-15, 15),
        "scale": (0.9, 1.1),
        "sigma": (0.001, 0.5),
    }
    for name, (low, high) in limits.items():
        found = torch.tensor([one[name] for one in drawn])
        assert low <= found.min() < low + 0.01 * (high - low), name
        assert high - 0.01 * (high - low) < found.max() <= high, name
    across, down = zip(*(one["shift"] for one in drawn), strict=True)
    assert (min(across), max(across), min(down), max(down)) == (-8, 8, -4, 4)
    assert len({tuple(one["order"]) for one in drawn}) == 120
    assert sum(one["flip"] for one in drawn) == pytest.approx(1000, abs=100)


@pytest.mark.parametrize("name", ["cotta", "rotta", "roid"])
def test_views_share_their_draws_unless_told_otherwise(
    name: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    same = batches[0][:1].expand(3, -1, -1, -1)
    method = create(name, resnet)
    method.jitter.soften = False
    view = method.view(same)
    assert torch.allclose(view[0], view[2], atol=1e-5)
    assert view.min() >= -1
    assert view.max() <= 1
    assert not torch.equal(view, method.view(same))
    apart = create(name, resnet, draws="sample").view(same)
    assert not torch.allclose(apart[0], apart[2], atol=1e-2)
    method.reset()
    method.jitter.soften = False
    assert torch.equal(view, method.view(same))


def as_pil(image: Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).to(torch.uint8).numpy())


def as_tensor(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).double()


@pytest.fixture
def bytes_(pixels: Tensor) -> Tensor:
    return (0.2 + 0.6 * pixels).mul(255).round()


def test_pointwise_operations_are_pil_s(bytes_: Tensor) -> None:
    strength = torch.linspace(0.1, 1.0, 4, dtype=torch.float64)
    expected = {
        "autocontrast": [ImageOps.autocontrast(as_pil(image)) for image in bytes_],
        "equalize": [ImageOps.equalize(as_pil(image)) for image in bytes_],
        "posterize": [ImageOps.posterize(as_pil(image), 4) for image in bytes_],
        "solarize": [
            ImageOps.solarize(as_pil(image), 256 - int(25.6 * level))
            for image, level in zip(bytes_, strength.tolist(), strict=True)
        ],
    }
    for name, images in expected.items():
        given = getattr(made, name)(bytes_, strength)
        assert torch.equal(given, torch.stack([as_tensor(image) for image in images])), name


@pytest.mark.parametrize("name", made.GEOMETRIC)
@pytest.mark.parametrize("sign", [-1, 1])
def test_moves_are_pil_s_to_a_rounding(bytes_: Tensor, name: str, sign: int) -> None:
    matrix = made.matrix(name, 0.95, sign, SIDE, SIDE)
    given = made.warped(bytes_, torch.tensor([matrix] * 4, dtype=torch.float64))
    for image, ours in zip(bytes_, given, strict=True):
        flat, bilinear = [*matrix[0], *matrix[1]], Image.Resampling.BILINEAR
        moved = as_pil(image).transform((SIDE, SIDE), Image.Transform.AFFINE, flat, bilinear, fillcolor=128)
        if name == "rotate":
            moved = as_pil(image).rotate(sign * int(3 * 0.95), Image.Resampling.BILINEAR, fillcolor=128)
        difference = (as_tensor(moved) - ours).abs()
        # A pixel at the very edge may fall to either side.
        assert (difference > 1).double().mean() < 0.002, name


def test_views_mix_what_the_image_holds(pixels: Tensor) -> None:
    dice = torch.Generator().manual_seed(2)
    views = made.augmix(pixels[0], 50, dice)
    assert views.shape == (50, 3, SIDE, SIDE)
    assert views.min() >= 0
    assert views.max() <= 1
    assert len({float(view.sum()) for view in views}) > 45
    large = made.augmix(pixels[0].repeat(1, 3, 3), 4, dice)
    assert large.shape == (4, 3, 3 * SIDE, 3 * SIDE)


def test_memo_draws_the_same_views_for_the_same_batch(resnet: Classifier, batches: list[Tensor]) -> None:
    method = create("memo", resnet, views=3)
    first = method.predict(batches[0][:2])
    method.predict(batches[1][:2])
    assert torch.equal(method.predict(batches[0][:2]), first)


def test_memo_scores_images_together_as_one_by_one(resnet: Classifier, batches: list[Tensor]) -> None:
    one, together = (create("memo", copy.deepcopy(resnet).double(), views=3) for _ in range(2))
    together.score_together(2)
    x = batches[0][:5].double()
    expected = one.predict(x)
    torch.testing.assert_close(together.predict(x), expected, rtol=0, atol=1e-10)
    assert (expected[0] - expected[1]).abs().max() > 0.01
    assert together.together
    # A network that looks at its values cannot be mapped over weights, and goes one by one.
    looked: list[float] = []
    together.model.register_forward_hook(lambda _model, _inputs, z: looked.append(z.detach().sum().item()))
    torch.testing.assert_close(together.predict(x), expected, rtol=0, atol=1e-10)
    assert not together.together


def test_memo_scores_an_image_that_is_not_finite_with_the_source_s_weights(
    resnet: Classifier, batches: list[Tensor]
) -> None:
    method = create("memo", resnet, views=3)
    expected = method.predict(batches[0][:2])
    method.views = lambda image: torch.full((3, *image.shape), torch.nan)
    with torch.no_grad():
        source = torch.cat([method.model(image[None]) for image in batches[0][:2]])
    assert torch.equal(method.predict(batches[0][:2]), source)
    assert not torch.equal(source, expected)
