"""Sample pictures of shifts: small, the same samples of each, and only of data that may be passed on."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tempora_tta.config import DataConfig
from tempora_tta.data import StreamSettings, array_shift, bundled, draw
from tempora_tta.engine.samples import SAMPLES, SIDE, may_be_kept, sample_pictures
from tempora_tta.models import Preprocessing

SMALL = Preprocessing(mean=(0.5,), std=(0.25,), input_size=(1, 28, 28), crop_pct=1.0)
LARGE = Preprocessing(mean=(0.5,) * 3, std=(0.25,) * 3, input_size=(3, 224, 224), crop_pct=1.0)


def pixels(jpeg: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(jpeg)) as picture:
        assert picture.format == "JPEG"
        return np.asarray(picture)


def test_the_bundled_images_are_there_with_clean_ones_first() -> None:
    shifts = bundled.fashion(shifts=["brightness"])
    orders = draw(StreamSettings(), list(shifts.values()), 64, 1)
    found = sample_pictures(DataConfig(), orders, SMALL)
    assert list(found) == ["clean", "brightness"]
    clean, brighter = (pixels(jpeg).astype(int) for jpeg in found.values())
    assert clean.shape == brighter.shape == (28, 28 * SAMPLES)
    assert brighter.mean() > clean.mean() + 20, "the same garments, brighter"
    assert np.corrcoef(clean.ravel(), brighter.ravel())[0, 1] > 0.8


def test_large_pictures_are_made_small() -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 224, 224, 3), np.uint8)
    shift = array_shift("mine", images, np.arange(12) % 3, 3)
    found = sample_pictures(DataConfig(dataset="folder"), draw(StreamSettings(), [shift], 4, 1), LARGE)
    assert list(found) == ["mine"], "folders have no clean images of their own"
    assert pixels(found["mine"]).shape == (SIDE, 3 * SIDE, 3), "one of each class"
    assert len(found["mine"]) < 40_000


@pytest.mark.parametrize(
    ("dataset", "kept"),
    [("fashion", True), ("cifar10_c", True), ("imagenet_c", False), ("imagenet", False), ("folder", False)],
)
def test_the_dataset_says_whether_its_pictures_may_travel_and_the_user_decides(
    dataset: str, kept: bool, tmp_path: Path
) -> None:
    assert may_be_kept(DataConfig(dataset=dataset)) is kept
    for asked in (True, False):
        assert may_be_kept(DataConfig(dataset=dataset, pictures=asked)) is asked
