"""Sources of a shift's pictures: an array, files on disk, or a Python dataset."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from tempora_tta.data.fingerprint import content_hash, forget
from tempora_tta.data.geometry import Geometry
from tempora_tta.errors import TemporaError


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
    """What the files held when the shift was opened (`contents.file_hashes`); None: nobody looked."""
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
            forget(self.root)  # whatever is remembered of this folder is not to be trusted
            raise TemporaError(
                f"{path}: was changed after its folder had been looked through. Run again when nobody writes there"
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
    except Exception as error:  # a decoder raises whatever it trips over in a damaged file
        raise _unreadable(path, error) from error
    try:
        whole = in_bytes(picture)
    except ValueError as error:
        raise TemporaError(f"{path}: {error}. Save it with 8 or 16 bits a channel") from error
    return whole if as_stored or not whole.has_transparency_data else _on_white(whole)


def _on_white(picture: Image.Image) -> Image.Image:
    """What a viewer shows of a picture that is transparent in places; grey ones stay grey."""
    colours = picture.convert("RGBA")
    white = Image.new("RGBA", colours.size, "white")
    return Image.alpha_composite(white, colours).convert("L" if picture.mode.startswith("L") else "RGB")


def _unreadable(path: Path, reason: object) -> TemporaError:
    return TemporaError(
        f"{path}: cannot be read as an image ({reason}). It is truncated, damaged or missing: "
        "replace it (`tempora data verify PATH --decode` lists every such file)"
    )


def in_bytes(picture: Image.Image) -> Image.Image:
    """Grey pictures of 16 bits or of fractions with 8 bits; others as they are.

    Pillow would cut off at 255 whatever is larger, and so turn 16-bit pictures white. It opens these as
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
