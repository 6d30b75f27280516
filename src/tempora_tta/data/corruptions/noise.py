"""Noise: Gaussian, shot, impulse; speckle for tuning."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from tempora_tta.data.corruptions.filters import Corruption, Draws


def draw_normal(rng: np.random.Generator, image: np.ndarray, c: float) -> Draws:
    return (rng.standard_normal(image.shape, dtype=np.float32),)


def draw_uniform(rng: np.random.Generator, image: np.ndarray, c: float) -> Draws:
    return (rng.random(image.shape, dtype=np.float32),)


def draw_photons(rng: np.random.Generator, image: np.ndarray, c: float) -> Draws:
    return (rng.poisson(image * c).astype(np.float32),)


def gaussian_noise(x: Tensor, c: float, normal: Tensor) -> Tensor:
    return x + c * normal


def shot_noise(x: Tensor, c: float, photons: Tensor) -> Tensor:
    return photons / c


def impulse_noise(x: Tensor, c: float, uniform: Tensor) -> Tensor:
    """Half of the values hit turn black, the other half white; each channel is hit for itself."""
    return x.masked_fill(uniform < c / 2, 0).masked_fill(uniform > 1 - c / 2, 1)


def speckle_noise(x: Tensor, c: float, normal: Tensor) -> Tensor:
    return x + c * x * normal


FAMILY = {
    "gaussian_noise": Corruption(gaussian_noise, draw_normal),
    "shot_noise": Corruption(shot_noise, draw_photons),
    "impulse_noise": Corruption(impulse_noise, draw_uniform),
    "speckle_noise": Corruption(speckle_noise, draw_normal),
}
