"""One's own pictures are read as a viewer shows them, published benchmarks as their published code reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tempora_tta import data
from tempora_tta.data.corruptions.folder import corrupt_folder
from tempora_tta.data.registry import datasets

from .trees import CIFAR_LIKE

ORIENTATION, QUARTER_TURN = 0x0112, 6


def sideways(path: Path) -> None:
    """Black above white once it is turned; as stored, black is on the left."""
    pixels = np.zeros((32, 32), np.uint8)
    pixels[:, 16:] = 255
    exif = Image.Exif()
    exif[ORIENTATION] = QUARTER_TURN
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).convert("RGB").save(path, exif=exif)


def transparent(path: Path) -> None:
    """A black square of which the lower half is transparent."""
    pixels = np.zeros((32, 32, 4), np.uint8)
    pixels[:16, :, 3] = 255
    Image.fromarray(pixels).save(path)


def corners(shift: data.Shift) -> list[list[int]]:
    """Upper right and lower left pixel of every picture: 255 is white."""
    images = shift.images(range(len(shift)), CIFAR_LIKE)
    return [[int(image[0, 0, -1]), int(image[0, -1, 0])] for image in images]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    sideways(tmp_path / "photos" / "cat" / "a.png")
    transparent(tmp_path / "photos" / "cat" / "b.png")
    (tmp_path / "photos" / "classes.txt").write_text("cat\ndog\n")
    return tmp_path / "photos"


UPRIGHT, AS_STORED = [[0, 255], [0, 255]], [[255, 0], [0, 0]]


def test_a_folder_of_one_s_own_is_upright_on_white_unless_asked_for_as_stored(photos: Path) -> None:
    upright, stored = data.open("folder", photos), data.open("folder", photos, as_stored=True)
    assert corners(upright["photos"]) == UPRIGHT
    assert corners(stored["photos"]) == AS_STORED
    assert upright["photos"].fingerprint != stored["photos"].fingerprint


def test_corrupted_copies_are_upright_on_white(photos: Path, tmp_path: Path) -> None:
    corrupt_folder(photos, tmp_path / "out", "contrast", constants="cifar")
    (tmp_path / "out" / "classes.txt").write_text("cat\ndog\n")
    assert corners(data.open("folder", tmp_path / "out", shifts="clean")["clean"]) == UPRIGHT


PUBLISHED = {
    "imagenet": ("imagenet-val/n01440764", "0d30c84657d41fab407287c0"),
    "imagenet_c": ("ImageNet-C/fog/5/n01440764", "a2eb4595a9e39f45316cb004"),
    "imagenet_r": ("imagenet-r/n01443537", "0375ed0223626e6af99eb345"),
    "imagenet_a": ("imagenet-a/n01498041", "61af953f710a7db4eee9100c"),
    "imagenet_v2": ("ImageNetV2/imagenetv2-matched-frequency-format-val/0", "dbd5d70ece7b8b6b6be9bcc2"),
}
"""A class folder, and the fingerprint of one known picture in it, by which runs of version 0.1.0 know it."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_benchmarks_are_read_as_stored_and_keep_their_identity(name: str, tmp_path: Path) -> None:
    folder, fingerprint = tmp_path / PUBLISHED[name][0], PUBLISHED[name][1]

    def opened() -> data.Shift:
        return next(
            iter(
                data.open(
                    name, tmp_path, shifts="fog" if name == "imagenet_c" else None, subset=True
                ).values()
            )
        )

    folder.mkdir(parents=True)
    (folder / "a.ppm").write_bytes(b"P6 1 1 255 \1\2\3")
    assert opened().fingerprint == fingerprint
    (folder / "a.ppm").unlink()
    sideways(folder / "a.png")
    transparent(folder / "b.png")
    assert corners(opened()) == AS_STORED
    assert datasets()[name].as_stored
    assert not datasets()["folder"].as_stored
