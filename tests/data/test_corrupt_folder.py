"""A folder of class folders becomes a corrupted benchmark in ImageNet-C's layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tempora_tta import data
from tempora_tta.data.corruptions import corrupt
from tempora_tta.data.corruptions.folder import corrupt_folder
from tempora_tta.errors import TemporaError

from .trees import CIFAR_LIKE, save_picture


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes; 32 px images, one wide photograph and one grey picture."""
    rng = np.random.default_rng(1)
    root = tmp_path / "photos"
    for name, shape in {
        "cat/a.png": (32, 32, 3),
        "cat/b.png": (40, 90, 3),
        "dog/a.png": (32, 32, 3),
        "dog/grey.png": (32, 32),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(root / name)
    return root


def files_in(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_layout_contents_and_progress(photos: Path, tmp_path: Path) -> None:
    out, calls = tmp_path / "out", []
    written = corrupt_folder(
        photos,
        out,
        "contrast,gaussian_noise",
        (1, 5),
        constants="cifar",
        progress=lambda *at: calls.append(at),
    )
    pictures = ["cat/a.png", "cat/b.png", "dog/a.png", "dog/grey.png"]
    folders = ["clean", "contrast/1", "contrast/5", "gaussian_noise/1", "gaussian_noise/5"]
    assert files_in(out) == sorted(["corruptions.json", *(f"{f}/{p}" for f in folders for p in pictures)])
    assert written == 20
    assert calls[-1] == (20, 20)
    np.testing.assert_array_equal(Image.open(out / "clean/dog/a.png"), Image.open(photos / "dog/a.png"))
    assert Image.open(out / "clean/cat/b.png").size == (32, 32)
    assert Image.open(out / "contrast/5/cat/b.png").size == (32, 32)
    assert Image.open(out / "contrast/5/dog/grey.png").mode == "L"
    clean = torch.from_numpy(np.array(Image.open(photos / "dog/a.png"))).permute(2, 0, 1)[None]
    expected = corrupt(clean, "gaussian_noise", 5, "cifar", first_index=2)
    found = np.array(Image.open(out / "gaussian_noise/5/dog/a.png"))
    np.testing.assert_array_equal(found, expected[0].permute(1, 2, 0).numpy())


def test_an_interrupted_run_resumes_to_the_same_pictures(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    corrupt_folder(photos, whole, "noise", constants="cifar")

    save, count = Image.Image.save, iter(range(100))

    def interrupted(self: Image.Image, *arguments: object) -> None:
        if next(count) == 5:
            raise KeyboardInterrupt
        save(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Image.Image, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        corrupt_folder(photos, resumed, "noise", constants="cifar", workers=0)
    monkeypatch.undo()
    assert len(files_in(resumed)) == 1 + 5
    assert corrupt_folder(photos, resumed, "noise", constants="cifar") == 16 - 5
    assert files_in(resumed) == files_in(whole)
    assert all((resumed / name).read_bytes() == (whole / name).read_bytes() for name in files_in(whole))


def test_two_kinds_of_pictures_never_mix(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    corrupt_folder(photos, out, "contrast", constants="cifar")
    with pytest.raises(TemporaError, match=r"made with other settings \(seed 2025 -> 1\)"):
        corrupt_folder(photos, out, "contrast", constants="cifar", seed=1)
    Image.new("RGB", (32, 32)).save(photos / "cat/c.png")
    with pytest.raises(TemporaError, match="made with other settings"):
        corrupt_folder(photos, out, "contrast", constants="cifar")


def test_mistakes_are_named(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(TemporaError, match="unknown shift 'nose': did you mean 'noise'"):
        corrupt_folder(photos, out, "nose")
    with pytest.raises(TemporaError, match="severity=9: must be"):
        corrupt_folder(photos, out, "noise", (9,))
    with pytest.raises(TemporaError, match="unknown set of constants 'mnist'"):
        corrupt_folder(photos, out, "noise", constants="mnist")
    with pytest.raises(TemporaError, match="an image outside the class folders"):
        corrupt_folder(photos / "cat", out)
    assert not out.exists()
    (photos / "dog/broken.jpg").write_bytes(b"not a picture")
    with pytest.raises(TemporaError, match=r"broken.jpg: cannot be read as an image"):
        corrupt_folder(photos, out, "contrast", constants="cifar")
    Image.new("RGB", (32, 32)).save(photos / "cat/a.jpg")
    with pytest.raises(TemporaError, match=r"2 images would be written to cat/a.png"):
        corrupt_folder(photos, tmp_path / "other", "contrast")


def test_a_16_bit_picture_is_not_white(tmp_path: Path) -> None:
    deep = tmp_path / "photos" / "cat" / "deep.png"
    deep.parent.mkdir(parents=True)
    Image.fromarray(np.full((32, 32), 128 * 257, np.uint16)).save(deep)
    corrupt_folder(tmp_path / "photos", tmp_path / "out", "contrast", constants="cifar")
    with Image.open(tmp_path / "out" / "contrast" / "5" / "cat" / "deep.png") as made:
        assert (made.mode, made.getextrema()) == ("L", (128, 128))  # flat: nothing to flatten


def test_small_images_are_not_enlarged_unless_asked(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(TemporaError, match="32 x 32"):
        corrupt_folder(photos, tmp_path / "out", "contrast")
    assert not (tmp_path / "out").exists()
    corrupt_folder(photos, tmp_path / "out", "contrast", size=64)
    with Image.open(tmp_path / "out" / "clean" / "cat" / "a.png") as made:
        assert made.size == (64, 64)


def test_a_clean_folder_is_corrupted_as_it_is_read(photos: Path) -> None:
    """At the size that the model takes, each image with the noise of its place."""
    (photos / "classes.txt").write_text("cat\ndog\n")
    (clean,) = data.open("folder", photos).values()
    shifts = data.open("folder", photos, corrupt="noise,fog", shifts="fog,shot_noise", severity=3)
    assert [(name, one.group, one.severity) for name, one in shifts.items()] == [
        ("fog", "weather", 3),
        ("shot_noise", "noise", 3),
    ]
    for name, shift in shifts.items():
        expected = corrupt(clean.images(range(4), CIFAR_LIKE), name, 3, "cifar")
        assert torch.equal(shift.images([2, 0], CIFAR_LIKE), expected[[2, 0]])
        assert shift.labels.tolist() == clean.labels.tolist()
    milder = data.open("folder", photos, corrupt="fog", severity=2)["fog"]
    assert len({clean.fingerprint, milder.fingerprint, *(one.fingerprint for one in shifts.values())}) == 4
    (photos / "day" / "cat").mkdir(parents=True)
    (photos / "night" / "cat").mkdir(parents=True)
    for place in ("day", "night"):
        save_picture(photos / place / "cat" / "a.png")
    with pytest.raises(TemporaError, match=r"corrupt: .* has several shifts"):
        data.open("folder", photos, corrupt="fog")
