"""Common corruptions: turn clean images into a corrupted benchmark.

The fifteen of Hendrycks & Dietterich (2019) in five severities, and four more (`TUNING`) on which settings
may be tuned without touching what is evaluated.

    corrupted = corrupt(images, "fog", severity=5, constants="imagenet", seed=2025)

The random numbers of an image depend on the seed, the corruption and the image's index alone: neither the
batch it came in, nor the severity, nor the device changes them. They are drawn on the CPU; the arithmetic
runs where the images are.
"""

from tempora_tta.data.corruptions.constants import SIZES, VERSION
from tempora_tta.data.corruptions.core import SEVERITIES, TUNING, corrupt, names
from tempora_tta.data.corruptions.folder import corrupt_folder

__all__ = ["SEVERITIES", "SIZES", "TUNING", "VERSION", "corrupt", "corrupt_folder", "names"]
