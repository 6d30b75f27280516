"""Digital: contrast, elastic transform, pixelate, JPEG compression; saturate for tuning."""

from __future__ import annotations

import io

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from tempora_tta.data.corruptions.filters import Corruption, Draws, along_axes, gaussian
from tempora_tta.errors import TemporaError


def contrast(x: Tensor, c: float) -> Tensor:
    mean = x.mean((2, 3), keepdim=True)
    return (x - mean) * c + mean


def draw_elastic(rng: np.random.Generator, image: np.ndarray, c: tuple[float, float, float]) -> Draws:
    """Moves of three points (x, y), and of every pixel before smoothing (dx, dy)."""
    return rng.uniform(-1, 1, (3, 2)), rng.uniform(-1, 1, (2, *image.shape[1:])).astype(np.float32)


def elastic_transform(x: Tensor, c: tuple[float, float, float], moves: Tensor, jitter: Tensor) -> Tensor:
    """An affine map that moves three points a little, then a smooth random displacement of every pixel."""
    amount, sigma, affine = c
    height, width = x.shape[-2:]
    here = torch.stack(torch.meshgrid(*map(torch.arange, (width, height)), indexing="xy")).to(x)
    displaced = here + amount * gaussian(jitter, sigma, border="reflect", truncate=3.0)
    if affine:
        x = sample(x, _affine(here, affine * moves), align_corners=True)
    return sample(x, displaced, align_corners=False)


def _affine(here: Tensor, moves: Tensor) -> Tensor:
    """Find where each output pixel `here` (2, height, width) comes from if three points around the centre
    moved."""
    height, width = here.shape[1:]
    arm = min(height, width) // 3
    centre = moves.new_tensor([height // 2, width // 2])
    points = centre + arm * moves.new_tensor([[1, 1], [1, -1], [-1, -1]])
    moved = torch.cat([points + moves, moves.new_ones(len(moves), 3, 1)], dim=2)
    back = torch.linalg.solve(moved, points.expand_as(moves))
    ones = torch.ones_like(here[:1])
    return torch.einsum("khw,nkd->ndhw", torch.cat([here, ones]).to(back), back).to(here)


def sample(x: Tensor, places: Tensor, align_corners: bool) -> Tensor:
    """Bilinear values of x at `places` (n, 2, height, width), (x, y) in pixels.

    Outside, the image is mirrored: around its border pixels with `align_corners`, else around their outer
    edges.
    """
    height, width = x.shape[-2:]
    size = places.new_tensor([width, height]).view(1, 2, 1, 1)
    if align_corners:
        grid = 2 * places / (size - 1).clamp(min=1) - 1
    else:
        grid = (2 * places + 1) / size - 1
    return F.grid_sample(x, grid.movedim(1, -1), padding_mode="reflection", align_corners=align_corners)


def pixelate(x: Tensor, c: float) -> Tensor:
    return along_axes(x, lambda size: _coarse(size, max(1, int(size * c))))


def _coarse(size: int, small: int) -> Tensor:
    """Shrink a line of `size` pixels to `small` by box averages, and repeat these to the old size."""
    scale = size / small
    shrink = torch.zeros(small, size)
    for place in range(small):
        first, last = int(place * scale + 0.5), int((place + 1) * scale + 0.5)
        shrink[place, first:last] = 1 / (last - first)
    return shrink[((torch.arange(size) + 0.5) / scale).long()]


def jpeg_compression(x: Tensor, c: int) -> Tensor:
    """Through Pillow's encoder and back, one image at a time on the CPU."""
    pixels = (x * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    decoded = np.stack(
        [_through_jpeg(picture.squeeze(-1) if x.shape[1] == 1 else picture, c) for picture in pixels]
    )
    return torch.from_numpy(decoded).view(*pixels.shape).permute(0, 3, 1, 2).to(x) / 255


def _through_jpeg(picture: np.ndarray, quality: int) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def saturate(x: Tensor, c: tuple[float, float]) -> Tensor:
    """Scale and raise the saturation; hue and value stay. Grey pixels count as red, as hue 0 is."""
    if x.shape[1] == 1:
        raise TemporaError("saturate changes colours, and these images are grey: leave it out")
    value, darkest = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    spread = value - darkest
    saturation = spread / value.clamp(min=1e-12)
    red = x.new_tensor([0, 1, 1]).view(1, 3, 1, 1)
    distance = torch.where(spread > 0, (value - x) / spread.clamp(min=1e-12), red)
    return value * (1 - (saturation * c[0] + c[1]).clamp(0, 1) * distance)


FAMILY = {
    "contrast": Corruption(contrast),
    "elastic_transform": Corruption(elastic_transform, draw_elastic),
    "pixelate": Corruption(pixelate),
    "jpeg_compression": Corruption(jpeg_compression),
    "saturate": Corruption(saturate),
}
