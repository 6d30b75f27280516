"""What a network expects its images to look like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    """Resize to `input_size / crop_pct`, crop `input_size` from the centre, scale to [0, 1], normalise.

    Normalise: subtract `mean`, divide by `std`.
    `input_size` is (channels, height, width); `mean` and `std` have one entry per channel.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    input_size: tuple[int, int, int] = (3, 224, 224)
    crop_pct: float = 0.875
    interpolation: str = "bilinear"

    @property
    def lowest(self) -> tuple[float, ...]:
        """Per channel, what a black pixel becomes: the least value that a normalised image can hold."""
        return tuple((0.0 - mean) / std for mean, std in zip(self.mean, self.std, strict=True))

    @property
    def highest(self) -> tuple[float, ...]:
        """Per channel, what a white pixel becomes: the greatest value that a normalised image can hold."""
        return tuple((1.0 - mean) / std for mean, std in zip(self.mean, self.std, strict=True))
