"""Changed pictures are other data, even with the same names, sizes and times; and nothing is read twice in vain."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torchvision.datasets import ImageFolder

import tempora_tta.data as data
from tempora_tta.data import fingerprint, imagenet
from tempora_tta.errors import TemporaError

from .trees import CIFAR_LIKE, picture, save_picture

WNIDS = list(imagenet.label_of())


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files count as old enough to be remembered, in a cache of the test's own."""
    monkeypatch.setenv("TEMPORA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprint, "_TICK_NS", -(10**10))


def overwrite(path: Path, shade: int, keep_times: bool) -> None:
    """Another picture with the same name and size in bytes, and with the same time of modification if asked."""
    before, size = path.stat(), path.stat().st_size
    while (
        path.stat().st_ctime_ns == before.st_ctime_ns
    ):  # the file system's clock ticks every few milliseconds
        time.sleep(0.005)
        save_picture(path, shade)
        assert path.stat().st_size == size
        if keep_times:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _tree(name: str, root: Path) -> tuple[Path, dict[str, object]]:
    """A small dataset of that name; one of its pictures, and how it is opened."""
    places: dict[str, tuple[str, tuple[str, ...], dict[str, object]]] = {
        "folder": ("", ("cat", "dog"), {"classes": ["cat", "dog"]}),
        "imagenet": ("", tuple(WNIDS[:2]), {"subset": True}),
        "imagenet_a": ("", ("n01498041", "n01531178"), {"subset": True}),
        "imagenet_r": ("", ("n01443537", "n01484850"), {"subset": True}),
        "imagenet_c": ("fog/5", tuple(WNIDS[:2]), {"subset": True, "shifts": "fog"}),
        "imagenet_v2": ("imagenetv2-matched-frequency-format-val", ("0", "10"), {"subset": True}),
    }
    below, classes, settings = places[name]
    for number, each in enumerate(classes):
        save_picture(root / below / each / "0.bmp", number)
    return root / below / classes[0] / "0.bmp", settings


@pytest.mark.parametrize("keep_times", [False, True])
@pytest.mark.parametrize(
    "name", ["folder", "imagenet", "imagenet_a", "imagenet_r", "imagenet_c", "imagenet_v2"]
)
def test_a_picture_overwritten_by_one_of_the_same_size_is_other_data(
    name: str, keep_times: bool, tmp_path: Path
) -> None:
    path, settings = _tree(name, tmp_path / "images")
    (before,) = data.open(name, tmp_path / "images", **settings).values()
    (same,) = data.open(name, tmp_path / "images", **settings).values()
    overwrite(path, 99, keep_times)
    (after,) = data.open(name, tmp_path / "images", **settings).values()
    assert before.fingerprint == same.fingerprint != after.fingerprint


@pytest.mark.parametrize("keep_times", [False, True])
def test_the_cache_of_decoded_pictures_never_serves_what_was_overwritten(
    keep_times: bool, tmp_path: Path
) -> None:
    path, settings = _tree("folder", tmp_path / "images")

    def first_pixels() -> set[float]:
        (shift,) = data.open("folder", tmp_path / "images", **settings).values()
        stream = data.open_stream(shift, CIFAR_LIKE, 2, workers=0, cache_dir=tmp_path / "decoded")
        where = stream.order.samples(0)[1].tolist().index(0)
        return set(((stream.batch(0)[where, 0] * 0.2 + 0.5) * 255).round().tolist()[0])

    assert first_pixels() == {0}
    overwrite(path, 99, keep_times)
    assert first_pixels() == {99}


def _read_on_opening(root: Path) -> list[int]:
    """Return how many files had to be read, shift by shift."""
    totals: list[int] = []
    data.open("folder", root, classes=["cat", "dog"], progress=lambda done, total: totals.append(total))
    return totals


def test_what_did_not_change_is_not_read_again(class_tree: Callable[..., Path]) -> None:
    root = class_tree("mine", ["cat", "dog"], each=5)
    assert _read_on_opening(root) == [10]
    assert _read_on_opening(root) == []
    overwrite(root / "dog" / "3.jpg", 2, keep_times=True)
    assert _read_on_opening(root) == [1]
    assert _read_on_opening(root) == []


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 and so on", None])
def test_a_damaged_or_unwritable_index_costs_only_time(
    class_tree: Callable[..., Path], tmp_path: Path, damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = class_tree("mine", ["cat", "dog"])
    if damage is None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("TEMPORA_CACHE", str(tmp_path / "file"))
        assert _read_on_opening(root) == _read_on_opening(root) == [2]
        return
    assert _read_on_opening(root) == [2]
    (index,) = (tmp_path / "cache" / "contents").iterdir()
    index.write_bytes(damage)
    assert _read_on_opening(root) == [2]
    assert _read_on_opening(root) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_picture_changed_between_opening_and_decoding_is_refused(
    class_tree: Callable[..., Path], workers: int, tmp_path: Path
) -> None:
    """Else it would be kept, and served for ever, under the fingerprint of the old one."""
    root = class_tree("mine", ["cat", "dog"], each=4)
    (shift,) = data.open("folder", root, classes=["cat", "dog"]).values()
    overwrite(root / "dog" / "3.jpg", 2, keep_times=True)
    with pytest.raises(TemporaError, match=r"dog/3\.jpg: was changed"):
        data.open_stream(shift, CIFAR_LIKE, 2, workers=workers, cache_dir=tmp_path / "decoded")
    assert not list((tmp_path / "decoded").iterdir())
    (again,) = data.open("folder", root, classes=["cat", "dog"]).values()
    assert data.open_stream(again, CIFAR_LIKE, 2, workers=workers).num_batches == 4


def test_touched_files_are_the_same_data(class_tree: Callable[..., Path]) -> None:
    root = class_tree("mine", ["cat", "dog"])
    (before,) = data.open("folder", root, classes=["cat", "dog"]).values()
    os.utime(root / "cat" / "0.jpg")
    (after,) = data.open("folder", root, classes=["cat", "dog"]).values()
    assert before.fingerprint == after.fingerprint
    assert before.images([0, 1], CIFAR_LIKE).shape == (2, 3, 32, 32)  # the times were only a hint


class _Random(list[tuple[object, int]]):
    def __getitem__(self, i: object) -> tuple[object, int]:  # type: ignore[override]
        return torch.randint(0, 256, (8, 8), dtype=torch.uint8), 0


class TestPythonDatasets:
    def test_other_pictures_with_the_same_labels(self) -> None:
        shifts = [data.from_dataset("mine", [(picture(shade), 0)], num_classes=2) for shade in (3, 3, 4)]
        prints = [shift.fingerprint for shift in shifts]
        assert prints[0] == prints[1] != prints[2]

    def test_torchvisions_image_folder_is_known_by_its_files(self, tmp_path: Path) -> None:
        path = save_picture(tmp_path / "images" / "cat" / "0.bmp", 3)
        prints = [data.from_dataset("mine", ImageFolder(str(tmp_path / "images"))).fingerprint]
        overwrite(path, 4, keep_times=True)
        prints.append(data.from_dataset("mine", ImageFolder(str(tmp_path / "images"))).fingerprint)
        grey = ImageFolder(str(tmp_path / "images"), transform=lambda image: image.convert("L"))
        prints.append(data.from_dataset("mine", grey).fingerprint)
        assert len(set(prints)) == 3

    def test_items_that_change_are_refused_unless_the_user_vouches_for_them(self) -> None:
        with pytest.raises(TemporaError, match="item 0 has another picture"):
            data.from_dataset("mine", _Random([(None, 0)]), num_classes=2).images([0], CIFAR_LIKE)
        vouched = data.from_dataset("mine", _Random([(None, 0)]), num_classes=2, fingerprint="noise")
        assert vouched.images([0], CIFAR_LIKE).shape == (1, 3, 32, 32)
