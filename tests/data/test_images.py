"""Pictures to bytes, compared with torchvision's transforms."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms

from tempora_tta.data.from_dataset import from_dataset
from tempora_tta.data.images import ArrayImages, FileImages, Geometry
from tempora_tta.errors import TemporaError
from tempora_tta.models import Preprocessing


def _geometry(**settings: object) -> Geometry:
    return Geometry.of(Preprocessing(mean=(0.0,) * 3, std=(1.0,) * 3, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("size", "crop_pct"), [(24, 0.875), (33, 0.9), (48, 1.0)])
def test_resize_and_crop_are_torchvisions(
    noise_pictures: list[Path], size: int, crop_pct: float, mode: str
) -> None:
    reference = transforms.Compose(
        [
            transforms.Resize(int(size / crop_pct), transforms.InterpolationMode(mode)),
            transforms.CenterCrop(size),
            transforms.PILToTensor(),
        ]
    )
    geometry = _geometry(input_size=(3, size, size), crop_pct=crop_pct, interpolation=mode)
    source = FileImages(noise_pictures[0].parent, [path.name for path in noise_pictures])
    found = source.read(np.arange(len(source)), geometry)
    for row, path in zip(found, noise_pictures, strict=True):
        with Image.open(path) as picture:
            assert torch.equal(torch.from_numpy(row), reference(picture))


def test_a_precropped_picture_of_the_right_size_is_left_alone(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    geometry = _geometry(input_size=(3, 24, 24), crop_pct=0.875)
    assert (
        FileImages(tmp_path, ["a.png"], precropped=True).read(np.array([0]), geometry)[0]
        == pixels.transpose(2, 0, 1)
    ).all()
    assert (
        FileImages(tmp_path, ["a.png"]).read(np.array([0]), geometry)[0] != pixels.transpose(2, 0, 1)
    ).any()


@pytest.mark.parametrize("shape", [(5, 6, 6), (5, 6, 6, 1), (5, 6, 6, 3)])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [6, 12])
def test_arrays_of_any_channels_and_size(shape: tuple[int, ...], channels: int, side: int) -> None:
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    geometry = Geometry.of(Preprocessing((0.0,) * channels, (1.0,) * channels, (channels, side, side), 1.0))
    found = ArrayImages(array).read(np.array([3, 1]), geometry)
    assert found.shape == (2, channels, side, side)
    assert found.flags.c_contiguous
    if side == 6 and channels == array.reshape(5, 6, 6, -1).shape[-1]:
        assert (found == array.reshape(5, 6, 6, -1)[[3, 1]].transpose(0, 3, 1, 2)).all()


@pytest.mark.parametrize(
    "array", [np.zeros((2, 4, 4), np.float32), np.zeros((2, 3, 4, 4), np.uint8), np.zeros(4, np.uint8)]
)
def test_other_arrays_are_refused(array: np.ndarray) -> None:
    with pytest.raises(TemporaError, match="expected uint8 of shape"):
        ArrayImages(array)


def test_unknown_interpolation_and_channels() -> None:
    with pytest.raises(TemporaError, match="did you mean 'bicubic'"):
        _geometry(interpolation="bicubik")
    with pytest.raises(TemporaError, match="1 or 3 channels"):
        _geometry(input_size=(4, 8, 8))


def test_a_picture_of_gigapixels_is_named_not_decoded(tmp_path: Path) -> None:
    """A PNG whose header asks for 60000 x 60000 pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    chunks = [struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))]
    (tmp_path / "huge.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    with pytest.raises(TemporaError, match=r"huge\.png: cannot be read as an image"):
        FileImages(tmp_path, ["huge.png"]).read(np.array([0]), _geometry(input_size=(3, 8, 8)))


_SHADES = np.arange(256).reshape(16, 16)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("16-bit.png", (_SHADES * 257).astype(np.uint16)),
        ("16-bit.tif", (_SHADES * 257).astype(np.uint16)),
        ("16-bit.pgm", (_SHADES * 257).astype(np.uint16)),  # which Pillow opens as 32-bit integers
        ("fractions.tif", (_SHADES / 255).astype(np.float32)),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_deep_grey_pictures_keep_their_shades(
    tmp_path: Path, name: str, values: np.ndarray, channels: int
) -> None:
    deep = Image.fromarray(values)
    deep.save(tmp_path / name)
    geometry = _geometry(input_size=(channels, 16, 16), crop_pct=1.0)
    from_file = FileImages(tmp_path, [name], precropped=True).read(np.array([0]), geometry)
    from_python = from_dataset("deep", [(deep, 0)], num_classes=2).source.read(np.array([0]), geometry)
    for found in (from_file, from_python):
        assert (found[0] == _SHADES).all()


@pytest.mark.parametrize("values", [_SHADES.astype(np.float32), _SHADES.astype(np.int32) - 1])
def test_grey_pictures_without_a_known_white_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    deep = Image.fromarray(values)
    deep.save(tmp_path / "deep.tif")
    geometry = _geometry(input_size=(3, 16, 16))
    with pytest.raises(TemporaError, match=r"deep\.tif: a grey picture with values from .* expected 0 to"):
        FileImages(tmp_path, ["deep.tif"]).read(np.array([0]), geometry)
    with pytest.raises(TemporaError, match="dataset 'deep': item 0 is a grey picture with values"):
        from_dataset("deep", [(deep, 0)], num_classes=2).source.read(np.array([0]), geometry)
