"""Files in a dataset's folder that take no part are named; those that cannot be read are refused, not waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tempora_tta.data as data
from tempora_tta.data.corruptions.folder import corrupt_folder
from tempora_tta.data.images import ArrayImages, FileImages
from tempora_tta.data.verify import verify
from tempora_tta.engine import Observer
from tempora_tta.engine.build import build_job
from tempora_tta.engine.images import left_out
from tempora_tta.engine.load_config import load_config
from tempora_tta.errors import TemporaError

Tree = Callable[..., Path]
NAMES = [f"class{i}" for i in range(10)]


class Listens(Observer):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def _notes_of_a_run(root: Path, **more: object) -> list[str]:
    flags = {"data.dataset": "folder", "data.root": root, "device": "cpu", "methods": ["standard"]}
    flags |= {"batch_size": 4, **more}
    listens = Listens()
    build_job(load_config(None, flags=flags), listens)
    return listens.notes


@pytest.fixture
def photos(class_tree: Tree) -> Path:
    root = class_tree("photos", NAMES, each=1)
    (root / "classes.txt").write_text("\n".join(NAMES))
    return root


def test_a_class_folder_that_is_a_link_to_nothing_is_refused(photos: Path) -> None:
    (photos / "class3" / "0.jpg").unlink()
    (photos / "class3").rmdir()
    (photos / "class3").symlink_to(photos.parent / "gone")
    with pytest.raises(TemporaError, match="class3 is a link that leads nowhere: replace or remove it"):
        data.open("folder", photos)
    assert [check.ok for check in verify(photos, "folder")] == [False]
    with pytest.raises(TemporaError, match="class3 is a link that leads nowhere"):
        corrupt_folder(photos, photos.parent / "out", "contrast", constants="cifar")


def test_a_shift_that_is_a_link_to_nothing_is_refused(class_tree: Tree, tmp_path: Path) -> None:
    root = class_tree("several/snow/5", ["cat", "dog"]).parent.parent
    (root / "classes.txt").write_text("cat\ndog")
    (root / "fog").symlink_to(tmp_path / "gone")
    with pytest.raises(TemporaError, match="fog is a link that leads nowhere"):
        data.open("folder", root)
    assert not all(check.ok for check in verify(root, "folder"))


def test_files_that_are_no_images_are_said(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(4):
        Image.new("RGB", (8, 8)).save(photos / "class0" / f"moving{i}.gif")
    (photos / "class1" / "README").write_text("")
    said = "5 files are left out, since images end in"
    assert any(note.startswith(f"photos: {said}") for note in _notes_of_a_run(photos))
    (note,) = [check for check in verify(photos, "folder") if check.note]
    assert note.detail.startswith(said)
    assert note.detail.endswith(": class0/moving0.gif, class0/moving1.gif, class0/moving2.gif and 2 more")
    heard: list[str] = []
    corrupt_folder(photos, photos.parent / "out", "contrast", constants="cifar", size=32, say=heard.append)
    assert len(heard) == 1


def test_the_last_partial_batch_is_said(photos: Path) -> None:
    said = "photos: the last 2 of 10 images are left out: they make no batch of 4"
    assert said in _notes_of_a_run(photos)
    assert not _notes_of_a_run(photos, batches=1)  # asked for
    assert not _notes_of_a_run(photos, batch_size=5)


def test_what_is_true_of_many_shifts_is_said_once() -> None:
    shifts = [
        data.array_shift(name, np.zeros((6, 4, 4), np.uint8), np.zeros(6, np.int64), 10)
        for name in ("fog", "snow", "frost", "blur", "rain")
    ]
    assert list(left_out(shifts, 4, whole=True)) == [
        "5 shifts: the last 2 of 6 images are left out: they make no batch of 4"
    ]
    assert next(left_out(shifts[:2], 4, whole=True)).startswith("fog, snow: ")


def test_verify_says_how_many_of_the_classes_are_there(photos: Path) -> None:
    (photos / "class3" / "0.jpg").unlink()
    (photos / "class3").rmdir()
    assert [check.detail for check in verify(photos, "folder")] == ["9 images, 9 of 10 classes"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
def test_a_pipe_named_like_an_image_is_refused_at_once(photos: Path) -> None:
    os.mkfifo(photos / "class0" / "a.png")
    for work in (
        lambda: data.open("folder", photos),
        lambda: corrupt_folder(photos, photos.parent / "out", "contrast", constants="cifar"),
    ):
        with pytest.raises(TemporaError, match=r"a\.png is no file but a pipe, a socket or a device"):
            work()
    assert [check.ok for check in verify(photos, "folder", decode=True)] == [False]


def test_a_folder_for_corrupted_copies_among_the_class_folders_is_refused(photos: Path) -> None:
    with pytest.raises(TemporaError, match="among the class folders: name a folder outside"):
        corrupt_folder(photos, photos / "corrupted", "contrast", constants="cifar")


def test_a_shift_is_shown_in_a_line(photos: Path) -> None:
    (shift,) = data.open("folder", photos).values()
    assert repr(shift) == f"<Shift 'photos': 10 images, 10 classes, fingerprint {shift.fingerprint}>"
    part = data.from_dataset("mine", [(np.zeros((4, 4), np.uint8), 5)], num_classes=10, classes=[5, 7])
    assert repr(part).startswith("<Shift 'mine': 1 image, 2 of 10 classes, fingerprint ")
    for source in (
        FileImages(Path("there"), ["a.png"] * 50_000, hashes=np.zeros((50_000, 16), np.uint8)),
        ArrayImages(np.zeros((1000, 8, 8), np.uint8)),
        part.source,
    ):
        assert len(repr(source)) < 100
