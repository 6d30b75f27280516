"""Colour jitter, a small affine move, blur and noise: the random views of CoTTA, RoTTA and ROID.

Draws that decide what is computed come from a generator on the host, so that nobody waits for the device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import conv2d, grid_sample

from tempora_tta.errors import TemporaError
from tempora_tta.methods.functions import sent
from tempora_tta.models import Classifier

Draws = Literal["batch", "sample"]
MARGIN = 2  # pixels that a blur of 5x5 looks beyond the crop


@dataclass(frozen=True)
class Drawn:
    """One draw of everything but the noise."""

    order: list[int]
    brightness: float
    contrast: float
    saturation: float
    hue: float
    gamma: float
    degrees: float
    scale: float
    shift: tuple[int, int]
    """To the right and down, in pixels."""
    sigma: float
    flip: bool


class Jitter:
    """One random view of each image of a normalised batch.

    padding: what lies beyond the edge: it is repeated ("border") or mirrored ("reflection").
    soften: whether the view is blurred and gets noise.
    """

    def __init__(
        self,
        model: Classifier,
        method: str,
        *,
        padding: Literal["border", "reflection"] = "border",
        soften: bool = True,
    ) -> None:
        preprocessing = model.preprocessing
        if len(preprocessing.mean) not in (1, 3):
            raise TemporaError(
                f"{method} does not fit {model.name}: its views jitter colours, and images of "
                f"{len(preprocessing.mean)} channels are neither grey nor RGB."
            )
        self.mean, self.std = (
            torch.tensor(values, device=model.device, dtype=model.dtype)[:, None, None]
            for values in (preprocessing.mean, preprocessing.std)
        )
        self.padding, self.soften = padding, soften

    def __call__(self, x: Tensor, dice: torch.Generator, noise: torch.Generator, draws: Draws) -> Tensor:
        """All draws but the noise are shared by the batch, or made per image (draws="sample")."""
        if draws == "sample" and len(x) > 1:
            return torch.cat([self(image, dice, noise, "batch") for image in x.split(1)])
        pixels = torch.addcmul(self.mean, x, self.std).clamp_(0, 1)
        drawn = draw(dice, *x.shape[-2:])
        pixels = self.moved(coloured(pixels, drawn), drawn)
        if drawn.flip:
            pixels = pixels.flip(-1)
        if self.soften:
            grain = torch.randn(pixels.shape, device=x.device, dtype=x.dtype, generator=noise)
            pixels = pixels.add(grain, alpha=0.005)
        return pixels.clamp(0, 1).sub_(self.mean).div_(self.std)

    def moved(self, pixels: Tensor, drawn: Drawn) -> Tensor:
        """Padded, turned, scaled, shifted, blurred and cropped: only the pixels of the crop are computed."""
        margin = MARGIN if self.soften else 0
        moved = affine(pixels, drawn.degrees, drawn.scale, drawn.shift, self.padding, margin)
        return blurred(moved, drawn.sigma) if self.soften else moved


def draw(dice: torch.Generator, height: int, width: int) -> Drawn:
    """Draws for images of that size."""
    u: list[float] = torch.rand(11, dtype=torch.float64, generator=dice).tolist()

    def between(low: float, high: float) -> float:
        return low + (high - low) * u.pop()

    return Drawn(
        order=torch.randperm(5, generator=dice).tolist(),
        brightness=between(0.6, 1.4),
        contrast=between(0.7, 1.3),
        saturation=between(0.5, 1.5),
        hue=between(-0.06, 0.06),
        gamma=between(0.7, 1.3),
        degrees=between(-15, 15),
        scale=between(0.9, 1.1),
        shift=(round(between(-1 / 16, 1 / 16) * 2 * width), round(between(-1 / 16, 1 / 16) * 2 * height)),
        sigma=between(0.001, 0.5),
        flip=u.pop() < 0.5,
    )


def coloured(pixels: Tensor, drawn: Drawn) -> Tensor:
    """Brightness, contrast, saturation, hue and gamma, in the order drawn, each within [0, 1].

    What torchvision's `adjust_*` compute, in half as many launches.
    """
    changes = (
        lambda image: (image * drawn.brightness).clamp_(0, 1),
        lambda image: mixed(grey(image.mean((-2, -1), keepdim=True)), image, drawn.contrast),
        lambda image: mixed(grey(image), image, drawn.saturation),
        lambda image: hue_turned(image, drawn.hue),
        lambda image: image.clamp(1e-8, 1).pow_(drawn.gamma),
    )
    for index in drawn.order:
        pixels = changes[index](pixels)
    return pixels


def grey(pixels: Tensor) -> Tensor:
    """How bright they are."""
    if pixels.shape[-3] == 1:
        return pixels
    red, green, blue = pixels.split(1, dim=-3)
    brightness: Tensor = (red * 0.2989).add_(green, alpha=0.587).add_(blue, alpha=0.114)
    return brightness


def mixed(start: Tensor, end: Tensor, share: float) -> Tensor:
    """From `start` a share of the way to `end`, which may be more than all of it; within [0, 1]."""
    return torch.lerp(start, end, share).clamp_(0, 1)


def hue_turned(pixels: Tensor, turns: float) -> Tensor:
    """The hue moved round its circle; brightest and darkest channel of every pixel stay. Grey images have no hue.

    What torchvision's `adjust_hue` computes, without the six candidates for each channel that it chooses from.
    """
    if pixels.shape[-3] == 1:
        return pixels
    red, green, blue = pixels.unbind(-3)
    top, low = pixels.amax(-3), pixels.amin(-3)
    chroma = top - low
    scale = chroma.clamp(min=torch.finfo(chroma.dtype).tiny).reciprocal_()
    sixths = torch.where(
        top == red,
        (green - blue) * scale,
        torch.where(top == green, (blue - red) * scale + 2, (red - green) * scale + 4),
    )
    # Where the circle's sixths begin for red, green and blue: 5, 3 and 1.
    begins = torch.arange(5, 0, -2, device=pixels.device, dtype=pixels.dtype).add_(6 * turns)
    k = (sixths.unsqueeze(-3) + begins[:, None, None]).remainder_(6)
    fall = torch.minimum(k, 4 - k).clamp_(0, 1)
    return torch.addcmul(top.unsqueeze(-3), chroma.unsqueeze(-3), fall, value=-1)


def affine(
    pixels: Tensor, degrees: float, scale: float, shift: tuple[int, int], padding: str, margin: int
) -> Tensor:
    """The image turned clockwise and scaled about its centre, then shifted; `margin` more pixels on each side.

    Bilinear. What padding would add is read from the edge itself: the move reaches less than half an image away.
    """
    n, _, height, width = pixels.shape
    angle = math.radians(degrees)
    half_w, half_h = (width - 1) / 2, (height - 1) / 2
    cos, sin = math.cos(angle) / scale, math.sin(angle) / scale
    options: dict[str, Any] = {"device": pixels.device, "dtype": pixels.dtype}
    right = torch.arange(-margin, width + margin, **options) - (half_w + shift[0])
    down = torch.arange(-margin, height + margin, **options)[:, None] - (half_h + shift[1])
    x = torch.add(right * (cos / max(half_w, 0.5)), down, alpha=sin / max(half_w, 0.5))
    y = torch.add(down * (cos / max(half_h, 0.5)), right, alpha=-sin / max(half_h, 0.5))
    grid = torch.stack([x, y], dim=2)
    return grid_sample(
        pixels, grid.expand(n, *grid.shape), mode="bilinear", padding_mode=padding, align_corners=True
    )


def blurred(pixels: Tensor, sigma: float) -> Tensor:
    """A Gaussian blur of 5x5 that leaves its margin out."""
    weights = [math.exp(-0.5 * (k / sigma) ** 2) for k in range(-MARGIN, MARGIN + 1)]
    line = sent(torch.tensor(weights, dtype=torch.float64).div(sum(weights)).to(pixels.dtype), pixels.device)
    n, channels, height, width = pixels.shape
    flat = pixels.reshape(n * channels, 1, height, width)
    flat = conv2d(conv2d(flat, line.view(1, 1, 1, -1)), line.view(1, 1, -1, 1))
    return flat.view(n, channels, *flat.shape[-2:])
