"""Random resized crops and flips of a whole batch at once, each image with a crop of its own."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from tempora_tta.methods.functions import sent

SCALE = (0.5, 1.0)  # share of the image's area
ASPECT = (3 / 4, 4 / 3)  # width over height
ATTEMPTS = 10  # at drawing a crop that lies within the image


def random_resized_crops(x: Tensor, generator: torch.Generator, scale: tuple[float, float] = SCALE) -> Tensor:
    """One random crop of each image, scaled back to its size, and flipped sideways half of the time.

    Crops are never larger than the image, so scaling only enlarges: antialiasing has nothing to smooth, and
    bilinear sampling between the crop's own pixels is the whole of it. The generator may be on the host.
    """
    n, _, height, width = x.shape
    crop_h, crop_w = _crop_sizes(n, height, width, generator.device, generator, scale)
    top = _random_offsets(height - crop_h, generator)
    left = _random_offsets(width - crop_w, generator)
    flip = torch.rand(n, device=generator.device, generator=generator) < 0.5
    rows = _sources(top, crop_h, height, x.dtype)
    columns = _sources(left, crop_w, width, x.dtype)
    columns = torch.where(flip[:, None], columns.flip(1), columns)
    rows, columns = sent(rows, x.device)[:, :, None], sent(columns, x.device)[:, None, :]
    grid = torch.stack([columns.expand(n, height, width), rows.expand(n, height, width)], dim=3)
    return grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _crop_sizes(
    n: int,
    height: int,
    width: int,
    device: torch.device,
    generator: torch.Generator,
    scale: tuple[float, float] = SCALE,
) -> tuple[Tensor, Tensor]:
    """Height and width of each crop: area and aspect drawn at random until one fits, else the whole image."""
    area, aspect = torch.rand(2, n, ATTEMPTS, dtype=torch.float64, device=device, generator=generator)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
    low, high = (math.log(limit) for limit in ASPECT)
    aspect = (low + (high - low) * aspect).exp()
    heights, widths = (area / aspect).sqrt().round(), (area * aspect).sqrt().round()
    fits = (heights <= height) & (widths <= width) & (heights >= 1) & (widths >= 1)
    first = fits.int().argmax(dim=1, keepdim=True)
    found = fits.any(dim=1)
    crop_h = torch.where(found, heights.gather(1, first).squeeze(1), height)
    crop_w = torch.where(found, widths.gather(1, first).squeeze(1), width)
    return crop_h, crop_w


def _random_offsets(room: Tensor, generator: torch.Generator) -> Tensor:
    """A whole number from 0 to `room`, both included, for each image."""
    share = torch.rand(room.shape, dtype=room.dtype, device=room.device, generator=generator)
    return torch.minimum((share * (room + 1)).floor(), room)


def _sources(start: Tensor, length: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Where each of `size` output pixels reads, in grid_sample's units: -1 and 1 are the outer edges."""
    centres = torch.arange(size, dtype=torch.float64, device=start.device) + 0.5
    within = (centres * length[:, None] / size - 0.5).clamp(min=0)
    pixel = start[:, None] + torch.minimum(within, length[:, None] - 1)
    return ((2 * pixel + 1) / size - 1).to(dtype)
