"""AugMix views (Hendrycks et al., 2020) as MEMO makes them: all views of an image together, on the device.

Pixels are whole numbers from 0 to 255 in floating point. What is drawn comes from a generator on the host, so
that the device is never asked which operation a view gets.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import grid_sample, pad

from tempora_tta.methods.crops import random_resized_crops
from tempora_tta.methods.functions import sent

SMALL = 64  # side of images up to which views are shifted crops and not zoomed ones
SHIFT = 4  # pixels of black around small images
CHAINS, DEPTH = 3, 3
FILL = (128.0, 0.0, 0.0)  # what PIL makes of fillcolor=128 in RGB
POINTWISE = ("autocontrast", "equalize", "posterize", "solarize")
GEOMETRIC = ("rotate", "shear_x", "shear_y", "shift_x", "shift_y")
OPERATIONS = (*POINTWISE, *GEOMETRIC)


def augmix(image: Tensor, count: int, dice: torch.Generator) -> Tensor:
    """`count` views of one image (c, h, w) of pixels in [0, 1]."""
    start = base(image, count, dice).mul_(255).clamp_(0, 255).round_()  # o
    chains = start.repeat(CHAINS, 1, 1, 1)
    length = torch.randint(1, DEPTH + 1, (len(chains),), generator=dice)
    for step in range(DEPTH):
        operation = torch.randint(len(OPERATIONS), (len(chains),), generator=dice)
        strength = 0.1 + 0.9 * torch.rand(len(chains), dtype=torch.float64, generator=dice)
        sign = 1 - 2 * torch.randint(2, (len(chains),), generator=dice)
        operate(chains, operation.where(length > step, -1), strength, sign)
    weights = -torch.rand(CHAINS, count, dtype=torch.float64, generator=dice).log()
    share = torch.rand(1, count, dtype=torch.float64, generator=dice)
    drawn = torch.cat([weights / weights.sum(dim=0), share]).to(image.dtype)
    parts = sent(drawn, image.device)[:, :, None, None, None]
    mixed = (parts[:CHAINS] * chains.unflatten(0, (CHAINS, count))).sum(dim=0)
    return torch.lerp(mixed, start, parts[CHAINS]).div_(255)


def base(image: Tensor, count: int, dice: torch.Generator) -> Tensor:
    """Random crops, flipped half of the time."""
    if max(image.shape[-2:]) > SMALL:
        views = image.expand(count, *image.shape)
        return random_resized_crops(views, dice, scale=(0.08, 1.0))
    height, width = image.shape[-2:]
    padded = pad(image, (SHIFT,) * 4)
    top, left = torch.randint(2 * SHIFT + 1, (count, 2), generator=dice).unsqueeze(2).unbind(1)
    flip = torch.rand(count, 1, generator=dice) < 0.5
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    columns = torch.where(flip, columns.flip(1), columns)
    rows, columns = sent(rows, image.device), sent(columns, image.device)
    return padded[:, rows[:, :, None], columns[:, None, :]].transpose(0, 1).contiguous()


def operate(x: Tensor, operation: Tensor, strength: Tensor, sign: Tensor) -> None:
    """Put each image under its operation (an index, -1: none), in place: those with the same one together."""
    sorted_, order = operation.sort(stable=True)
    limits = [*torch.searchsorted(sorted_, torch.arange(len(POINTWISE) + 1)).tolist(), len(order)]
    places = sent(order, x.device)
    for index, (start, end) in enumerate(itertools.pairwise(limits)):
        if start == end:
            continue
        where, chosen = places[start:end], order[start:end]
        images = x.index_select(0, where)
        if index < len(POINTWISE):
            images = _POINTWISE[POINTWISE[index]](images, strength[chosen])
        else:
            drawn = zip(*(part[chosen].tolist() for part in (operation, strength, sign)), strict=True)
            moves = [matrix(OPERATIONS[kind], level, turn, *x.shape[-2:]) for kind, level, turn in drawn]
            images = warped(images, torch.tensor(moves, dtype=torch.float64))
        x.index_copy_(0, where, images)


def autocontrast(x: Tensor, _strength: Tensor) -> Tensor:
    """Each channel stretched to 0 ... 255."""
    low, high = (edge.double() for edge in torch.aminmax(x.flatten(2), dim=2, keepdim=True))
    scale = torch.full_like(low, 255).div((high - low).clamp_(min=1))  # 255 / x would be 255 * (1 / x)
    stretched = (x.flatten(2) * scale).sub_(low * scale).floor_().clamp_(0, 255)
    return torch.where((high > low)[..., None], stretched.to(x.dtype).view(x.shape), x)


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
    threshold = sent((256 - (25.6 * strength).floor()).to(x.dtype), x.device)[:, None, None, None]
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
    options: dict[str, Any] = {"device": x.device, "dtype": x.dtype}
    right, down = torch.arange(0.5, width, **options), torch.arange(0.5, height, **options)[:, None]
    # In grid_sample's units: -1 and 1 are the outer edges.
    size = torch.tensor([[width], [height]], dtype=torch.float64)
    scaled = 2 * matrices / size - torch.tensor([0.0, 0.0, 1.0])
    by_right, by_down, offset = sent(scaled.to(x.dtype), x.device)[..., None, None].unbind(2)
    grid = torch.addcmul(torch.addcmul(offset, by_down, down), by_right, right)
    inside = ((grid >= -1) & (grid < 1)).all(dim=1, keepdim=True)
    sampled = grid_sample(
        x, grid.permute(0, 2, 3, 1), mode="bilinear", padding_mode="border", align_corners=False
    )
    fill = torch.tensor(FILL if channels == 3 else (FILL[0],) * channels, dtype=x.dtype)
    return torch.where(inside, sampled.round_(), sent(fill, x.device)[:, None, None])
