"""Pictures in arrays and files, and how they are fitted to the square of bytes that a model takes."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from tempora_tta.data.fingerprint import content_hash, forget
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
    """A model's preprocessing up to normalisation: resizing and cropping."""

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


class Images(Protocol):
    """A source of pictures. Reading is deterministic: the same index gives the same bytes."""

    slow_to_read: ClassVar[bool]
    """Reading takes time, and threads shorten it."""

    def __len__(self) -> int: ...

    def read(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        """The pictures at `indices` as uint8 (n, channels, height, width)."""


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Pictures in one uint8 array (n, height, width) or (n, height, width, channels), perhaps memory-mapped.

    They are taken as cropped already: a model of another input size sees the whole picture, scaled.
    """

    slow_to_read: ClassVar[bool] = False
    array: np.ndarray = field(repr=False)

    def __post_init__(self) -> None:
        shape, dtype = self.array.shape, self.array.dtype
        if dtype != np.uint8 or len(shape) not in (3, 4) or shape[3:] not in ((), (1,), (3,)):
            raise TemporaError(
                f"images have shape {shape} and type {dtype}: expected uint8 of shape (n, height, width), "
                "(n, height, width, 1) or (n, height, width, 3)"
            )

    def __len__(self) -> int:
        return len(self.array)

    def read(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        chosen = np.asarray(self.array[indices])
        if chosen.ndim == 3:
            chosen = chosen[..., None]
        if chosen.shape[1:] == (geometry.height, geometry.width, geometry.channels):
            return np.ascontiguousarray(chosen.transpose(0, 3, 1, 2))
        pictures = (
            Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels) for pixels in chosen
        )
        return stack([geometry.fit(picture, precropped=True) for picture in pictures], geometry)


@dataclass(frozen=True, eq=False)
class FileImages:
    """Picture files: `names` are paths relative to `root`."""

    slow_to_read: ClassVar[bool] = True
    root: Path
    names: Sequence[str] = field(repr=False)
    precropped: bool = False
    hashes: np.ndarray | None = field(default=None, repr=False)
    """Hashes of the files when the shift was opened (`fingerprint.file_hashes`); None: not taken."""
    as_stored: bool = False
    """Read without regard to EXIF orientation and alpha."""

    def __len__(self) -> int:
        return len(self.names)

    def read(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        return stack([self._decode(int(index), geometry) for index in indices], geometry)

    def _decode(self, index: int, geometry: Geometry) -> np.ndarray:
        path = self.root / self.names[index]
        content = _content(path)
        if self.hashes is not None and content_hash(content) != self.hashes[index].tobytes():
            forget(self.root)  # its remembered hashes are not to be trusted
            raise TemporaError(
                f"{path}: was changed while this run was reading its folder. Run again when no program writes there"
            )
        return geometry.fit(_picture(content, path, self.as_stored), self.precropped)


def read_picture(path: Path) -> Image.Image:
    """The picture in a file, decoded, with 8 bits a channel, upright and on white."""
    return _picture(_content(path), path, as_stored=False)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error.strerror) from error


def _picture(content: bytes, path: Path, as_stored: bool) -> Image.Image:
    try:
        with Image.open(io.BytesIO(content)) as picture:
            picture.load()
            if not as_stored:
                ImageOps.exif_transpose(picture, in_place=True)
    except UnidentifiedImageError as error:
        raise _unreadable(path, "no known image format") from error
    except Exception as error:  # decoders raise many kinds of errors on a damaged file
        raise _unreadable(path, error) from error
    try:
        whole = in_bytes(picture)
    except ValueError as error:
        raise TemporaError(f"{path}: {error}. Save it with 8 or 16 bits a channel") from error
    return whole if as_stored or not whole.has_transparency_data else _on_white(whole)


def _on_white(picture: Image.Image) -> Image.Image:
    """Put a picture that is transparent in places on white, as viewers do; grey ones stay grey."""
    colours = picture.convert("RGBA")
    white = Image.new("RGBA", colours.size, "white")
    return Image.alpha_composite(white, colours).convert("L" if picture.mode.startswith("L") else "RGB")


def _unreadable(path: Path, reason: object) -> TemporaError:
    return TemporaError(
        f"{path}: cannot be read as an image ({reason}). It is truncated, damaged or missing: "
        "replace it (`tempora data verify PATH --decode` lists every such file)"
    )


def in_bytes(picture: Image.Image) -> Image.Image:
    """Convert grey pictures of 16 bits or of fractions to 8 bits; return others as they are.

    Pillow would cut off larger values at 255, and so turn 16-bit pictures white. It opens these as
    integers of 16 or of 32 bits, depending on format and version. The upper byte is kept, as Pillow itself
    does with 16-bit colours.
    """
    if not picture.mode.startswith(("I", "F")):
        return picture
    values = np.asarray(picture)
    white = 1 if picture.mode == "F" else 65_535
    if not ((values >= 0) & (values <= white)).all():
        raise ValueError(
            f"a grey picture with values from {values.min()} to {values.max()}: expected 0 to {white}"
        )
    levels = np.round(values * 255) if picture.mode == "F" else values >> 8
    return Image.fromarray(levels.astype(np.uint8))


def stack(pictures: list[np.ndarray], geometry: Geometry) -> np.ndarray:
    """One array of pictures that `geometry` has fitted."""
    # np.stack would keep the pictures' own layout
    stacked = np.empty((len(pictures), *geometry.shape), np.uint8)
    for row, picture in zip(stacked, pictures, strict=True):
        row[:] = picture
    return stacked
