"""Small trees in the published layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from .trees import save_picture


@pytest.fixture
def class_tree(tmp_path: Path) -> Callable[..., Path]:
    """Build `place`/CLASS/i.jpg with `each` images per class, of shade k for the k-th class (modulo 256)."""

    def build(place: str, classes: Iterable[str], each: int = 1) -> Path:
        root = tmp_path / place
        for number, name in enumerate(classes):
            for i in range(each):
                save_picture(root / name / f"{i}.jpg", shade=number % 256)
        return root

    return build


@pytest.fixture
def noise_pictures(tmp_path: Path) -> list[Path]:
    """Photograph-like JPEG files of different sizes and shapes."""
    rng = np.random.default_rng(0)
    paths = []
    for i in range(40):
        rough = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        size = (int(rng.integers(40, 90)), int(rng.integers(40, 90)))
        path = tmp_path / "noise" / f"{i:03}.jpg"
        path.parent.mkdir(exist_ok=True)
        rough.resize(size, Image.Resampling.BICUBIC).save(path)
        paths.append(path)
    return paths
