"""AugMix views (Hendrycks et al., 2020) as MEMO makes them: all views of an image together, on the device.

Pixels are whole numbers from 0 to 255 in floating point. What is drawn comes from a generator on the host, so
that the device is never asked which operation a view gets.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import grid_sample, pad

from tempora.methods.crops import random_resized_crops

SMALL = 64  # side of images up to which views are shifted crops and not zoomed ones
SHIFT = 4  # pixels of black around small images
CHAINS, DEPTH = 3, 3
FILL = (128.0, 0.0, 0.0)  # what PIL makes of fillcolor=128 in RGB
POINTWISE = ("autocontrast", "equalize", "posterize", "solarize")
GEOMETRIC = ("rotate", "shear_x", "shear_y", "shift_x", "shift_y")
OPERATIONS = (*POINTWISE, *GEOMETRIC)


def augmix(image: Tensor, count: int, dice: torch.Generator) -> Tensor:
    """`count` views of one image (c, h, w) of pixels in [0, 1]."""
    start = (base(image, count, dice) * 255).clamp(0, 255).round()  # o
    chains = start.repeat(CHAINS, 1, 1, 1)
    length = torch.randint(1, DEPTH + 1, (len(chains),), generator=dice)
    for step in range(DEPTH):
        operation = torch.randint(len(OPERATIONS), (len(chains),), generator=dice)
        strength = 0.1 + 0.9 * torch.rand(len(chains), dtype=torch.float64, generator=dice)
        sign = 1 - 2 * torch.randint(2, (len(chains),), generator=dice)
        active = length > step
        chains = operated(chains, operation.where(active, -1), strength, sign)
    weights = -torch.rand(CHAINS, count, dtype=torch.float64, generator=dice).log()
    weights = (weights / weights.sum(dim=0)).to(image)[:, :, None, None, None]
    share = torch.rand(count, dtype=torch.float64, generator=dice).to(image)[:, None, None, None]
    mixed: Tensor = (weights * chains.unflatten(0, (CHAINS, count))).sum(dim=0)
    return (share * start + (1 - share) * mixed) / 255


def base(image: Tensor, count: int, dice: torch.Generator) -> Tensor:
    """Random crops, flipped half of the time."""
    if max(image.shape[-2:]) > SMALL:
        views = image.expand(count, *image.shape)
        return random_resized_crops(views, dice, scale=(0.08, 1.0))
    height, width = image.shape[-2:]
    padded = pad(image, (SHIFT,) * 4)
    offsets = torch.randint(2 * SHIFT + 1, (count, 2), generator=dice).tolist()
    flips = (torch.rand(count, generator=dice) < 0.5).tolist()
    crops = [padded[:, top : top + height, left : left + width] for top, left in offsets]
    return torch.stack([crop.flip(-1) if flip else crop for crop, flip in zip(crops, flips, strict=True)])


def operated(x: Tensor, operation: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    """Each image under its operation (an index, -1: none): those with the same one together."""
    out = x.clone()
    for index, name in enumerate(POINTWISE):
        chosen = (operation == index).nonzero().squeeze(1)
        if len(chosen):
            where = chosen.to(x.device)
            out[where] = _POINTWISE[name](x[where], strength[chosen])
    chosen = (operation >= len(POINTWISE)).nonzero().squeeze(1)
    if len(chosen):
        matrices = [
            matrix(OPERATIONS[kind], level, turn, *x.shape[-2:])
            for kind, level, turn in zip(
                *(part[chosen].tolist() for part in (operation, strength, sign)), strict=True
            )
        ]
        where = chosen.to(x.device)
        out[where] = warped(x[where], torch.tensor(matrices, dtype=torch.float64).to(x.device))
    return out


def autocontrast(x: Tensor, _strength: Tensor) -> Tensor:
    """Each channel stretched to 0 ... 255."""
    wide = x.double()
    low, high = wide.amin(dim=(2, 3), keepdim=True), wide.amax(dim=(2, 3), keepdim=True)
    scale = torch.full_like(low, 255).div((high - low).clamp(min=1))  # 255 / x would be 255 * (1 / x)
    stretched = (wide * scale - low * scale).floor().clamp(0, 255)
    return torch.where(high > low, stretched, wide).to(x)


def equalize(x: Tensor, _strength: Tensor) -> Tensor:
    """Each channel with a histogram as flat as whole steps make it."""
    values = x.nan_to_num().long().flatten(2)
    histogram = torch.zeros(*values.shape[:2], 256, dtype=torch.long, device=x.device)
    histogram.scatter_add_(2, values, torch.ones_like(values))
    last = histogram.gather(2, values.amax(dim=2, keepdim=True))
    step = (values.shape[2] - last) // 255
    below = histogram.cumsum(dim=2) - histogram
    table = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, table.gather(2, values), values).view(x.shape).to(x)


def posterize(x: Tensor, _strength: Tensor) -> Tensor:
    """The four highest bits: no strength reaches the next number of bits."""
    return (x / 16).floor() * 16


def solarize(x: Tensor, strength: Tensor) -> Tensor:
    """Inverted from a threshold on."""
    threshold = (256 - (25.6 * strength).floor()).to(x)[:, None, None, None]
    return torch.where(x < threshold, x, 255 - x)


_POINTWISE = {
    "autocontrast": autocontrast,
    "equalize": equalize,
    "posterize": posterize,
    "solarize": solarize,
}


def matrix(name: str, strength: float, sign: int, height: int, width: int) -> list[list[float]]:
    """Where a point of the view reads in the image, both measured in pixels from the upper-left corner."""
    if name == "rotate":
        angle = sign * math.radians(int(3 * strength))
        cos, sin, x, y = math.cos(angle), math.sin(angle), width / 2, height / 2
        return [[cos, -sin, x - cos * x + sin * y], [sin, cos, y - sin * x - cos * y]]
    if name == "shear_x":
        return [[1, sign * 0.03 * strength, 0], [0, 1, 0]]
    if name == "shear_y":
        return [[1, 0, 0], [sign * 0.03 * strength, 1, 0]]
    if name == "shift_x":
        return [[1, 0, sign * int(strength * width / 30)], [0, 1, 0]]
    return [[1, 0, 0], [0, 1, sign * int(strength * height / 30)]]


def warped(x: Tensor, matrices: Tensor) -> Tensor:
    """Bilinear, rounded to whole numbers; what lies outside is filled."""
    channels, height, width = x.shape[1:]
    options: dict[str, Any] = {"device": x.device, "dtype": torch.float64}
    right = (torch.arange(width, **options) + 0.5).expand(height, width)
    down = (torch.arange(height, **options) + 0.5)[:, None].expand(height, width)
    points = torch.stack([right, down, torch.ones_like(right)], dim=2)
    read = torch.einsum("nij,hwj->nhwi", matrices, points)
    size = torch.tensor([width, height], **options)
    inside = ((read >= 0) & (read < size)).all(dim=3)[:, None]
    grid = (2 * read / size - 1).to(x)
    sampled = grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
    fill = torch.tensor(FILL if channels == 3 else (FILL[0],) * channels).to(x)[:, None, None]
    return torch.where(inside, sampled.round().clamp(0, 255), fill)
