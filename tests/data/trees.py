"""Pictures and settings that the data tests share."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from tempora_tta.models import Preprocessing

CIFAR_LIKE = Preprocessing(mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), input_size=(3, 32, 32), crop_pct=1.0)


def picture(shade: int, size: tuple[int, int] = (20, 16)) -> Image.Image:
    """A flat picture, which can be told by its shade."""
    return Image.new("RGB", size, (shade, shade, shade))


def save_picture(path: Path, shade: int = 0, size: tuple[int, int] = (20, 16)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(shade, size).save(path)
    return path
