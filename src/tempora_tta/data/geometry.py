"""From a decoded picture to the square of bytes that a model looks at."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from tempora_tta.errors import TemporaError, unknown

if TYPE_CHECKING:
    from tempora_tta.models import Preprocessing

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_MODES = {1: "L", 3: "RGB"}


@dataclass(frozen=True)
class Geometry:
    """What a model's preprocessing does before normalisation. Knows no torch: workers use it."""

    channels: int
    height: int
    width: int
    resize_height: int
    resize_width: int
    interpolation: str

    @classmethod
    def of(cls, preprocessing: Preprocessing) -> Geometry:
        """Resize to input_size / crop_pct, then crop input_size from the centre, as timm does."""
        if preprocessing.interpolation not in _FILTERS:
            raise unknown("interpolation", preprocessing.interpolation, _FILTERS)
        channels, height, width = preprocessing.image_shape
        if channels not in _MODES:
            raise TemporaError(f"input_size={preprocessing.input_size}: images have 1 or 3 channels")
        scaled = [math.floor(side / preprocessing.crop_pct) for side in (height, width)]
        return cls(channels, height, width, scaled[0], scaled[1], preprocessing.interpolation)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of every image."""
        return self.channels, self.height, self.width

    def fit(self, image: Image.Image, precropped: bool) -> np.ndarray:
        """`image` as uint8 (channels, height, width).

        A `precropped` image already shows what the model should see (ImageNet-C is published resized and
        cropped): it is only scaled, and left alone where it has the right size.
        """
        if image.mode != _MODES[self.channels]:  # converting to the same mode would copy
            image = image.convert(_MODES[self.channels])
        if not precropped:
            image = self._crop(self._shrink(image))
        elif image.size != (self.width, self.height):
            image = image.resize((self.width, self.height), _FILTERS[self.interpolation])
        pixels = np.asarray(image)
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)

    def _shrink(self, image: Image.Image) -> Image.Image:
        """Scale to the resize size: the shorter edge where that size is square, else both edges."""
        width, height = image.size
        new_width, new_height = self.resize_width, self.resize_height
        if new_width == new_height:
            short, long = sorted((width, height))
            stretched = int(new_width * long / short)
            if width > height:
                new_width = stretched
            else:
                new_height = stretched
        if (new_width, new_height) == (width, height):
            return image
        return image.resize((new_width, new_height), _FILTERS[self.interpolation])

    def _crop(self, image: Image.Image) -> Image.Image:
        left, top = round((image.width - self.width) / 2), round((image.height - self.height) / 2)
        return image.crop((left, top, left + self.width, top + self.height))
