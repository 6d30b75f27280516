"""Strengths of each corruption at severities 1 to 5.

Lengths are in pixels, so each set belongs to an image size (`SIZES`). "imagenet" and "cifar" are the
numbers of Hendrycks & Dietterich (ICLR 2019) behind ImageNet-C and CIFAR-10-C. "fashion" starts from
"cifar" and is made for 28 px grey images of clothes on black: see `_FASHION` for what was changed and why.
"""

from __future__ import annotations

from typing import Any

VERSION = 1
"""Raise it whenever a constant or an algorithm changes what comes out: caches are made again then."""

SIZES = {"imagenet": 224, "cifar": 32, "fashion": 28}
"""Side of the images that each set of constants is meant for."""

_IMAGENET: dict[str, tuple[Any, ...]] = {
    # standard deviation
    "gaussian_noise": (0.08, 0.12, 0.18, 0.26, 0.38),
    # photons at full brightness
    "shot_noise": (60, 25, 12, 5, 3),
    # fraction of values replaced by black or white
    "impulse_noise": (0.03, 0.06, 0.09, 0.17, 0.27),
    # standard deviation relative to the value
    "speckle_noise": (0.15, 0.2, 0.35, 0.45, 0.6),
    # radius of the disk, sigma of its soft edge
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    # sigma, farthest displacement, rounds
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    # radius, sigma
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    # zoom factors from 1 up to (not including) the first number in steps of the second
    "zoom_blur": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    # sigma
    "gaussian_blur": (1, 2, 3, 4, 6),
    # flakes: mean, spread, zoom, threshold; their fall: radius, sigma; share of the image kept from whitening
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    # weight of the image, weight of the frost, scale of its texture
    "frost": ((1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    # thickness, decay of its detail
    "fog": ((1.5, 2), (2.0, 2), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
    # added to the value (of hue, saturation, value)
    "brightness": (0.1, 0.2, 0.3, 0.4, 0.5),
    # drops: mean, spread, sigma, threshold; strength (water) or sigma of the edge (mud); 0 water, 1 mud
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
    # share of the contrast that is left
    "contrast": (0.4, 0.3, 0.2, 0.1, 0.05),
    # displacement, its smoothness (sigma), largest move of the three points that fix the affine part
    "elastic_transform": (
        (488, 170.8, 24.4),
        (488, 19.52, 48.8),
        (12.2, 2.44, 4.88),
        (17.08, 2.44, 4.88),
        (29.28, 2.44, 4.88),
    ),
    # size of the small image relative to the full one
    "pixelate": (0.6, 0.5, 0.4, 0.3, 0.25),
    # JPEG quality
    "jpeg_compression": (25, 18, 15, 10, 7),
    # factor of the saturation, added to it
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
}

_CIFAR: dict[str, tuple[Any, ...]] = {
    "gaussian_noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": (500, 250, 100, 75, 50),
    "impulse_noise": (0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle_noise": (0.06, 0.1, 0.12, 0.16, 0.2),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    "gaussian_blur": (0.4, 0.6, 0.7, 0.8, 1),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": ((1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
    "elastic_transform": (
        (0, 0, 2.56),
        (1.6, 6.4, 2.24),
        (2.56, 1.92, 1.92),
        (3.2, 1.28, 1.6),
        (3.2, 0.96, 0.96),
    ),
    "pixelate": (0.95, 0.9, 0.85, 0.75, 0.65),
    "jpeg_compression": (80, 65, 58, 50, 40),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}

# Clothes on black are easier than CIFAR's pictures: where CIFAR's severity 5 cost the bundled networks
# little, the constants go on until it costs tens of points. Snow, frost, fog, brightness and contrast hurt
# enough as they are.
_FASHION: dict[str, tuple[Any, ...]] = {
    "gaussian_noise": (0.04, 0.06, 0.08, 0.12, 0.16),
    "shot_noise": (100, 50, 25, 12, 6),
    "impulse_noise": (0.02, 0.04, 0.07, 0.10, 0.14),
    "speckle_noise": (0.15, 0.2, 0.35, 0.45, 0.6),
    "defocus_blur": ((0.5, 0.6), (1, 0.2), (1.5, 0.1), (2, 0.5), (2.5, 0.5)),
    "glass_blur": ((0.4, 1, 1), (0.4, 1, 2), (0.55, 1, 2), (0.7, 1, 2), (0.7, 2, 1)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2.5), (9, 3.5)),
    "zoom_blur": ((1.16, 0.01), (1.26, 0.02), (1.36, 0.02), (1.46, 0.02), (1.56, 0.02)),
    "gaussian_blur": (0.6, 0.8, 1, 1.3, 1.6),
    "spatter": (
        (0.65, 0.3, 1, 0.75, 0.4, 0),
        (0.65, 0.3, 1, 0.74, 0.5, 0),
        (0.65, 0.3, 1, 0.72, 0.6, 0),
        (0.65, 0.3, 1, 0.65, 1.0, 1),
        (0.65, 0.3, 1, 0.65, 0.8, 1),
    ),
    "elastic_transform": ((0, 0, 1.5), (1.4, 5.6, 1.96), (2.8, 0.96, 0.96), (3.5, 0.9, 1.5), (5, 1, 2)),
    "pixelate": (0.75, 0.65, 0.5, 0.4, 0.33),
    "jpeg_compression": (40, 20, 12, 8, 5),
}

CONSTANTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "imagenet": _IMAGENET,
    "cifar": _CIFAR,
    "fashion": {**_CIFAR, **_FASHION},
}
