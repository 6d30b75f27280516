"""Weather: snow, frost, fog, brightness; spatter for tuning."""

from __future__ import annotations

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor

from tempora_tta.data.corruptions.filters import Corruption, Draws, luminance, shift_and_add, zoom_in
from tempora_tta.data.corruptions.frost import TEXTURES, texture


def draw_flakes(rng: np.random.Generator, image: np.ndarray, c: tuple[float, ...]) -> Draws:
    return rng.standard_normal((1, *image.shape[1:]), dtype=np.float32), rng.uniform(-135, -45, 1)


def snow(x: Tensor, c: tuple[float, ...], normal: Tensor, angle_degrees: Tensor) -> Tensor:
    """Falling flakes, seen a second time upside down, over an image that whitens."""
    mean, spread, zoom, threshold, radius, sigma, kept = c
    flakes = zoom_in(mean + spread * normal, zoom)
    flakes = flakes.where(flakes >= threshold, 0).clamp(0, 1)
    flakes = shift_and_add(flakes, int(radius), sigma, angle_degrees)
    whitened = torch.maximum(x, luminance(x) * 1.5 + 0.5)
    return kept * x + (1 - kept) * whitened + flakes + flakes.flip(2, 3)


def draw_frost(rng: np.random.Generator, image: np.ndarray, c: tuple[float, float, float]) -> Draws:
    """A random piece of a random texture. Textures wrap around, so a piece may have any size."""
    channels, *size = image.shape
    ice = texture(int(rng.integers(TEXTURES)), c[2], channels)
    rows, columns = (
        (rng.integers(side) + np.arange(length)) % side
        for side, length in zip(ice.shape[1:], size, strict=True)
    )
    return (ice[:, rows[:, None], columns],)


def frost(x: Tensor, c: tuple[float, float, float], ice: Tensor) -> Tensor:
    image_weight, ice_weight, _ = c
    return image_weight * x + ice_weight * ice


def draw_plasma(rng: np.random.Generator, image: np.ndarray, c: tuple[float, float]) -> Draws:
    side = 1 << (max(image.shape[1:]) - 1).bit_length()
    return (rng.uniform(-1, 1, (side, side)).astype(np.float32),)


def plasma(uniform: Tensor, decay: float) -> Tensor:
    """A fractal landscape from 0 to 1 by midpoint displacement on a square (n, 2^k, 2^k) that wraps around.

    Every point is set once: to the mean of four points set before, plus its entry of `uniform` times the
    square of an amplitude that starts at 100 and shrinks by `decay` with every halving of the grid.
    """
    land = torch.zeros_like(uniform)
    step, amplitude = uniform.shape[-1], 100.0

    def fill(rows: slice, columns: slice, sum_of_four: Tensor) -> None:
        land[:, rows, columns] = sum_of_four / 4 + amplitude**2 * uniform[:, rows, columns]

    while step >= 2:
        on, between = slice(0, None, step), slice(step // 2, None, step)
        corners = land[:, on, on]
        pairs = corners + corners.roll(-1, 1)
        fill(between, between, pairs + pairs.roll(-1, 2))
        centres = land[:, between, between]
        fill(on, between, centres + centres.roll(1, 1) + corners + corners.roll(-1, 2))
        fill(between, on, centres + centres.roll(1, 2) + corners + corners.roll(-1, 1))
        step //= 2
        amplitude /= decay
    lowest, highest = land.amin((1, 2), keepdim=True), land.amax((1, 2), keepdim=True)
    return (land - lowest) / (highest - lowest).clamp(min=1e-12)  # a single point is all there is: 0


def fog(x: Tensor, c: tuple[float, float], uniform: Tensor) -> Tensor:
    thickness, decay = c
    haze = plasma(uniform, decay)[:, None, : x.shape[2], : x.shape[3]]
    brightest = x.amax((1, 2, 3), keepdim=True)
    return (x + thickness * haze) * brightest / (brightest + thickness)


def brightness(x: Tensor, c: float) -> Tensor:
    """Raise the value (the largest channel) and keep hue and saturation: all channels scale alike."""
    value = x.amax(1, keepdim=True)
    raised = (value + c).clamp(max=1)
    return torch.where(value > 0, x * (raised / value), raised)


def draw_spatter(rng: np.random.Generator, image: np.ndarray, c: tuple[float, ...]) -> Draws:
    """Draw how much of each pixel is covered, (1, height, width): drops of water with a bright rim, or flat
    mud."""
    mean, spread, sigma, threshold, strength, is_mud = c
    liquid = ndimage.gaussian_filter(rng.normal(mean, spread, image.shape[1:]), sigma, mode="nearest")
    if is_mud:
        cover = ndimage.gaussian_filter((liquid > threshold).astype(np.float32), strength, mode="nearest")
        cover = np.where(cover < 0.8, 0, cover)
    else:
        wet = liquid >= threshold
        cover = np.where(wet, liquid, 0) * _rim(wet)
        cover *= strength / max(cover.max(), 1e-12)
    return (cover.astype(np.float32)[None],)


def _rim(wet: np.ndarray) -> np.ndarray:
    """Light and shade on drops, in [0, 1]: the distance to their edge, equalised and lit from one side."""
    edge = wet & ~ndimage.binary_erosion(wet)
    if not edge.any():
        return np.ones(wet.shape)
    distance = ndimage.uniform_filter(np.minimum(ndimage.distance_transform_edt(~edge), 20), 3, mode="mirror")
    level, counts = np.unique(np.floor(distance), return_counts=True)
    share = (counts.cumsum() - counts[0]) / max(1, wet.size - counts[0])
    equalised = share[np.searchsorted(level, np.floor(distance))]
    lit = ndimage.correlate(equalised, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]), mode="mirror").clip(
        0, 1
    )
    return ndimage.uniform_filter(lit, 3, mode="mirror")


def spatter(x: Tensor, c: tuple[float, ...], cover: Tensor) -> Tensor:
    is_mud = c[-1]
    colour = x.new_tensor([63, 42, 20] if is_mud else [175, 238, 238]).view(1, 3, 1, 1) / 255
    if x.shape[1] == 1:
        colour = luminance(colour)
    return x * (1 - cover) + cover * colour if is_mud else x + cover * colour


FAMILY = {
    "snow": Corruption(snow, draw_flakes),
    "frost": Corruption(frost, draw_frost),
    "fog": Corruption(fog, draw_plasma),
    "brightness": Corruption(brightness),
    "spatter": Corruption(spatter, draw_spatter),
}
