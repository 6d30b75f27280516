"""Blur: defocus, glass, motion, zoom; Gaussian for tuning."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tempora_tta.data.corruptions.filters import Corruption, Draws, gaussian, shift_and_add, zoom_in


def disk(radius: float, edge_sigma: float) -> Tensor:
    """A filled circle that sums to one, its edge softened by a Gaussian of 3 x 3 (5 x 5 for large disks)."""
    reach, soft = (8, 1) if radius <= 8 else (int(radius), 2)
    line = torch.arange(-reach, reach + 1, dtype=torch.float64)
    sharp = (line[:, None] ** 2 + line**2 <= radius**2).double()
    taps = torch.exp(-0.5 * (torch.arange(-soft, soft + 1, dtype=torch.float64) / edge_sigma) ** 2)
    edge = torch.outer(taps, taps) / taps.sum() ** 2
    padded = F.pad((sharp / sharp.sum())[None, None], [soft] * 4, mode="reflect")
    return F.conv2d(padded, edge[None, None])[0, 0]


def pad_mirrored(x: Tensor, margin: int) -> Tensor:
    """Mirror the image around its border pixels, as often as the margin needs (F.pad does it only once)."""
    for axis in (-2, -1):
        size = x.shape[axis]
        period = max(2 * size - 2, 1)
        place = torch.arange(-margin, size + margin, device=x.device) % period
        x = x.index_select(axis, torch.minimum(place, period - place).clamp(max=size - 1))
    return x


def defocus_blur(x: Tensor, c: tuple[float, float]) -> Tensor:
    """Through the frequencies: a disk is not separable, and large."""
    kernel = disk(*c).to(x)
    padded = pad_mirrored(x, len(kernel) // 2)
    size = padded.shape[-2:]
    blurred: Tensor = torch.fft.irfft2(torch.fft.rfft2(padded) * torch.fft.rfft2(kernel, size), size)
    return blurred[..., len(kernel) - 1 :, len(kernel) - 1 :]


def draw_displacements(rng: np.random.Generator, image: np.ndarray, c: tuple[float, int, int]) -> Draws:
    """(dx, dy) of every pixel that has room to move, from the bottom right to the top left, in every
    round."""
    _, farthest, rounds = c
    room = [max(0, size - 2 * farthest) for size in image.shape[1:]]
    return (rng.integers(-farthest, farthest, (rounds, *room, 2), dtype=np.int8),)


def displace(x: Tensor, farthest: int, displacements: Tensor) -> Tensor:
    """Give each pixel in turn the value of its neighbour at (dx, dy), from the bottom right to the top left.

    Later pixels see what earlier ones left, so order matters. Pixels on a skewed front (one row up, 2
    farthest + 1 columns to the right) reach no common neighbour: a front moves at once and the result is
    that of the plain loop. The published data sets copy too, where their authors meant to swap: they
    swapped array views.
    """
    channels, height, width = x.shape[1:]
    _, rounds, rows, columns, _ = displacements.shape
    if rows == 0 or columns == 0:
        return x
    h = height - farthest - torch.arange(rows, device=x.device)
    w = width - farthest - torch.arange(columns, device=x.device)
    dx, dy = displacements.long().unbind(-1)
    target = (h[:, None] * width + w).flatten()
    source = (target.view(rows, columns) + dy * width + dx).flatten(2)
    skew = 2 * farthest + 1
    pixels = x.flatten(2).clone()
    fronts = [_front(step, rows, columns, skew).to(x.device) for step in range((rows - 1) * skew + columns)]
    for turn in range(rounds):
        for front in fronts:
            seen = source[:, turn, None, front].expand(-1, channels, -1)
            pixels[:, :, target[front]] = pixels.gather(2, seen)
    return pixels.view_as(x)


def _front(step: int, rows: int, columns: int, skew: int) -> Tensor:
    """Flat places (row, column) with row * skew + column == step, both counted from the bottom right."""
    row = torch.arange(max(0, -(-(step - columns + 1) // skew)), min(rows - 1, step // skew) + 1)
    return row * columns + (step - row * skew)


def glass_blur(x: Tensor, c: tuple[float, int, int], displacements: Tensor) -> Tensor:
    sigma, farthest, _ = c
    blurred = (gaussian(x, sigma) * 255 + 1e-3).floor() / 255
    return gaussian(displace(blurred, farthest, displacements), sigma)


def draw_angle(rng: np.random.Generator, image: np.ndarray, c: tuple[int, float]) -> Draws:
    return (rng.uniform(-45, 45, 1),)


def motion_blur(x: Tensor, c: tuple[int, float], angle_degrees: Tensor) -> Tensor:
    return shift_and_add(x, *c, angle_degrees)


def zoom_blur(x: Tensor, c: tuple[float, float]) -> Tensor:
    factors = np.arange(1, *c)
    return (x + sum(zoom_in(x, factor) for factor in factors)) / (len(factors) + 1)


def gaussian_blur(x: Tensor, c: float) -> Tensor:
    return gaussian(x, c)


FAMILY = {
    "defocus_blur": Corruption(defocus_blur),
    "glass_blur": Corruption(glass_blur, draw_displacements),
    "motion_blur": Corruption(motion_blur, draw_angle),
    "zoom_blur": Corruption(zoom_blur),
    "gaussian_blur": Corruption(gaussian_blur),
}
