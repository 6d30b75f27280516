"""Tools of several corruptions: separable linear filters as matrices, shifts along a line, zooming in.

A separable filter of an image x is `rows @ x @ columns.T` with one matrix per axis. The matrix holds the
border rule and a kernel of any width, so small images with wide kernels need no special case.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Draws = tuple[np.ndarray, ...]


def draw_nothing(rng: np.random.Generator, image: np.ndarray, c: object) -> Draws:
    return ()


@dataclass(frozen=True)
class Corruption:
    """A corruption in two halves, so that chance is apart from the arithmetic."""

    apply: Callable[..., Tensor]
    """apply(images, c, *draws): float images (n, channels, height, width) in [0, 1], the constants of one
    severity, the draws of all images stacked. What leaves [0, 1] is clipped by the caller."""
    draw: Callable[..., Draws] = draw_nothing
    """draw(rng, image, c): all the random numbers that one image (channels, height, width) needs."""


def along_axes(x: Tensor, matrix: Callable[[int], Tensor]) -> Tensor:
    """Apply the same kind of filter along height and width; `matrix(size)` gives the one for an axis."""
    rows, columns = (matrix(size).to(x) for size in x.shape[-2:])
    return rows @ x @ columns.T


def gaussian_matrix(size: int, sigma: float, border: str = "nearest", truncate: float = 4.0) -> Tensor:
    """Gaussian smoothing of a line of `size` pixels, as scipy.ndimage does it.

    `border`: "nearest" repeats the last pixel, "reflect" mirrors the line at its ends.
    """
    radius = int(truncate * sigma + 0.5)
    offsets = np.arange(-radius, radius + 1)
    kernel = np.exp(-0.5 * (offsets / sigma) ** 2) if radius else np.ones(1)
    seen = np.arange(size)[:, None] + offsets
    if border == "reflect":
        seen = seen % (2 * size)
        seen = np.minimum(seen, 2 * size - 1 - seen)
    matrix = np.zeros((size, size))
    np.add.at(matrix, (np.arange(size)[:, None], seen.clip(0, size - 1)), kernel / kernel.sum())
    return torch.from_numpy(matrix)


def gaussian(x: Tensor, sigma: float, border: str = "nearest", truncate: float = 4.0) -> Tensor:
    """Gaussian smoothing of images (..., height, width)."""
    return along_axes(x, lambda size: gaussian_matrix(size, sigma, border, truncate))


def shift_and_add(x: Tensor, radius: int, sigma: float, angle_degrees: Tensor) -> Tensor:
    """Drag each image along its own angle: 2 radius + 1 shifted copies with the weights of half a Gaussian.

    What moves in from outside repeats the border.
    """
    height, width = x.shape[-2:]
    margin = 2 * radius
    weights = np.exp(-0.5 * (np.arange(margin + 1) / sigma) ** 2)
    padded, dragged = F.pad(x, [margin] * 4, mode="replicate"), torch.zeros_like(x)
    angles = torch.deg2rad(angle_degrees.double()).flatten().tolist()
    for source, target, angle in zip(padded, dragged, angles, strict=True):
        for distance, weight in enumerate((weights / weights.sum()).tolist()):
            top = margin + math.ceil(distance * math.sin(angle) - 0.5)
            left = margin + math.ceil(distance * math.cos(angle) - 0.5)
            target.add_(source[:, top : top + height, left : left + width], alpha=weight)
    return dragged


def zoom_in(x: Tensor, factor: float) -> Tensor:
    """The centre of each image, enlarged bilinearly by `factor` >= 1 to the size of the whole."""
    height, width = x.shape[-2:]
    crop = [math.ceil(size / factor) for size in (height, width)]
    top, left = (height - crop[0]) // 2, (width - crop[1]) // 2
    centre = x[..., top : top + crop[0], left : left + crop[1]]
    grown = [max(size, round(side * factor)) for size, side in zip((height, width), crop, strict=True)]
    zoomed = F.interpolate(centre, size=grown, mode="bilinear", align_corners=True)
    top, left = (grown[0] - height) // 2, (grown[1] - width) // 2
    return zoomed[..., top : top + height, left : left + width]


def luminance(x: Tensor) -> Tensor:
    """Grey value (n, 1, height, width) of grey or RGB images."""
    if x.shape[1] == 1:
        return x
    return torch.einsum("nchw,c->nhw", x, x.new_tensor([0.299, 0.587, 0.114])).unsqueeze(1)
