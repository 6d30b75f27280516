"""Preprocessing: how an image becomes the input of a network."""

from __future__ import annotations

from dataclasses import dataclass

from tempora_tta.errors import TemporaError


@dataclass(frozen=True)
class Preprocessing:
    """Resize to `input_size / crop_pct`, crop `input_size` from the centre, scale to [0, 1], normalise.

    Normalise: subtract `mean`, divide by `std`.
    `input_size` is (channels, height, width), None where it is unknown; `mean` and `std` have one entry per channel.
    `assumed` names the fields that neither the network nor the user stated.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    input_size: tuple[int, int, int] | None = None
    crop_pct: float = 0.875
    interpolation: str = "bilinear"
    assumed: tuple[str, ...] = ()

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """`input_size`. Raises where it is unknown."""
        if self.input_size is None:
            raise TemporaError(
                "the image size of this network is unknown, so images cannot be prepared for it: "
                "models.wrap(network, ..., input_size=(channels, height, width)) states it."
            )
        return self.input_size

    @property
    def lowest(self) -> tuple[float, ...]:
        """Per channel, what a black pixel becomes: the least value that a normalised image can hold."""
        return tuple((0.0 - mean) / std for mean, std in zip(self.mean, self.std, strict=True))

    @property
    def highest(self) -> tuple[float, ...]:
        """Per channel, what a white pixel becomes: the greatest value that a normalised image can hold."""
        return tuple((1.0 - mean) / std for mean, std in zip(self.mean, self.std, strict=True))
