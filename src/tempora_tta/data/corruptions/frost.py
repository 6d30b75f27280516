"""Textures of frost, made by arithmetic: the photographs behind the published data sets are not free to ship.

Ice on glass looks alike at every scale and grows in feathers. So: noise with nearly equal variance per
octave, bent by another such noise, and folded at its middle so that ridges appear. Six textures cover the
range of brightness and contrast of the published photographs, and their bluish tint.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import ndimage

SIDE = 640  # pixels; the textures wrap around at their borders
_LEVELS = ((0.82, 0.085), (0.76, 0.09), (0.61, 0.11), (0.51, 0.08), (0.48, 0.16), (0.37, 0.16))
TEXTURES = len(_LEVELS)
_TINT = np.array([-0.07, 0.01, 0.06]).reshape(3, 1, 1)


@lru_cache(maxsize=24)
def texture(number: int, scale: float, channels: int) -> np.ndarray:
    """Texture `number` shrunk by `scale` (1 over a whole number): float32 (channels, side, side) in [0,
    1]."""
    mean, spread = _LEVELS[number]
    rng = np.random.Generator(np.random.Philox(key=[number, 0]))
    bend, ice = 40 * _octaves(rng), _octaves(rng)
    bend_too = 40 * _octaves(rng)
    row, column = np.mgrid[:SIDE, :SIDE]
    feathers = -np.abs(
        ndimage.map_coordinates(ice, [row + bend, column + bend_too], order=1, mode="grid-wrap")
    )
    mixed = _standardised(_standardised(feathers) + _octaves(rng))
    block = round(1 / scale)
    grey = (mean + spread * mixed).reshape(SIDE // block, block, SIDE // block, block).mean((1, 3))
    ice_colour = grey[None] if channels == 1 else grey[None] + _TINT
    frost: np.ndarray = ice_colour.clip(0, 1).astype(np.float32)
    return frost


def _octaves(rng: np.random.Generator) -> np.ndarray:
    """Noise that looks alike at every scale, a little softer when seen closely: amplitude =
    frequency^-1.3."""
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE))
    frequency[0, 0] = np.inf
    return _standardised(
        np.fft.irfft2(np.fft.rfft2(rng.standard_normal((SIDE, SIDE))) / frequency**1.3, (SIDE, SIDE))
    )


def _standardised(field: np.ndarray) -> np.ndarray:
    standardised: np.ndarray = (field - field.mean()) / field.std()
    return standardised
