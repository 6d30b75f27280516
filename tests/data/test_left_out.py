"""Files in a dataset's folder that take no part are named; those that cannot be read are refused, not waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import tempora_tta.data as data
from tempora_tta.data.corruptions.folder import corrupt_folder
from tempora_tta.data.verify import verify
from tempora_tta.engine import Observer
from tempora_tta.engine.build import build_job
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
