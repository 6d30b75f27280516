"""Every loader on a small tree in the published layout, and on what can be wrong with it."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torchvision
from PIL import Image

import tempora_tta.data as data
from tempora_tta.data import imagenet
from tempora_tta.errors import TemporaError

from .trees import CIFAR_LIKE, save_picture

Tree = Callable[..., Path]


def _sparse_npy(path: Path, length: int, mark: dict[int, int]) -> None:
    """A big all-zero image file that takes no room; image i is filled with mark[i]."""
    array = np.lib.format.open_memmap(path, "w+", np.uint8, (length, 32, 32, 3))
    for index, shade in mark.items():
        array[index] = shade


@pytest.fixture
def cifar10_c(tmp_path: Path) -> Path:
    root = tmp_path / "CIFAR-10-C"
    root.mkdir()
    np.save(root / "labels.npy", np.tile(np.arange(10_000) % 10, 5).astype(np.uint8))
    for name in ("fog", "gaussian_noise", "spatter"):
        _sparse_npy(root / f"{name}.npy", 50_000, {20_000 + 7: 3, 40_000 + 7: 5})
    return root


class TestCifarC:
    def test_severity_slices_with_their_labels(self, cifar10_c: Path) -> None:
        for severity, shade in ((3, 3), (5, 5), (1, 0)):
            shifts = data.open("cifar10_c", cifar10_c, severity=severity, shifts=["fog", "spatter"])
            assert list(shifts) == ["fog", "spatter"]
            fog = shifts["fog"]
            assert (len(fog), fog.num_classes, fog.group, shifts["spatter"].group) == (
                10_000,
                10,
                "weather",
                "extra",
            )
            assert fog.labels[7] == 7
            assert (fog.images([7], CIFAR_LIKE) == shade).all()
            assert (fog.images([6, 8], CIFAR_LIKE) == 0).all()

    def test_the_data_folder_is_the_default(self, cifar10_c: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TEMPORA_DATA", str(cifar10_c.parent))
        assert list(data.open("cifar10_c", shifts="fog")) == ["fog"]

    def test_a_missing_corruption_names_file_and_layout(self, cifar10_c: Path) -> None:
        with pytest.raises(
            TemporaError, match=r"shot_noise.npy is missing\ncifar10_c is expected like this.*fetch"
        ):
            data.open("cifar10_c", cifar10_c, shifts="noise")

    def test_a_subset(self, cifar10_c: Path) -> None:
        np.save(cifar10_c / "labels.npy", np.tile(np.array([3, 1]), 5))
        _sparse_npy(cifar10_c / "fog.npy", 10, {8: 50, 9: 51})
        with pytest.raises(TemporaError, match="10 labels, published are 50000"):
            data.open("cifar10_c", cifar10_c, shifts="fog")
        fog = data.open("cifar10_c", cifar10_c, shifts="fog", subset=True)["fog"]
        assert fog.labels.tolist() == [3, 1]
        assert fog.images([0, 1], CIFAR_LIKE)[:, 0, 0, 0].tolist() == [50, 51]

    @pytest.mark.parametrize(
        ("labels", "match"),
        [
            (np.arange(50_000) % 10 * (np.arange(50_000) != 49_999), "differs between severities"),
            (np.zeros(50_000, np.int64), "1 classes, expected 10"),
            (np.tile(np.arange(10_000) % 100, 5), "100 classes, expected 10"),
            (np.zeros(50_000), "expected integers"),
            (np.zeros((50_000, 1), np.int64), "expected integers of shape"),
        ],
    )
    def test_wrong_labels(self, cifar10_c: Path, labels: np.ndarray, match: str) -> None:
        np.save(cifar10_c / "labels.npy", labels)
        with pytest.raises(TemporaError, match=match):
            data.open("cifar10_c", cifar10_c, shifts="fog")

    def test_pickled_objects_are_refused(self, cifar10_c: Path) -> None:
        np.save(cifar10_c / "labels.npy", np.array([{}] * 50_000), allow_pickle=True)
        with pytest.raises(TemporaError, match=r"labels.npy cannot be read"):
            data.open("cifar10_c", cifar10_c, shifts="fog")


class TestCifar:
    @pytest.fixture(
        params=[("cifar10", "test_batch", "labels", 10), ("cifar100", "test", "fine_labels", 100)]
    )
    def published(
        self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> tuple[str, Path]:
        """Files like the published ones, to whose MD5 torchvision is told to hold them."""
        name, file, key, classes = request.param
        reader = getattr(torchvision.datasets, name.upper())
        images = np.zeros((10_000, 3, 32, 32), np.uint8)
        images[1, 2] = 9  # the third channel of the second image
        content = {"data": images.reshape(10_000, -1), key: [i % classes for i in range(10_000)]}
        root = tmp_path / "x"
        root.mkdir()
        (root / file).write_bytes(pickle.dumps(content, protocol=2))
        meta = root / reader.meta["filename"]
        meta.write_bytes(pickle.dumps({reader.meta["key"]: [f"class {i}" for i in range(classes)]}))
        monkeypatch.setattr(reader, "test_list", [[file, _md5(root / file)]])
        monkeypatch.setattr(reader, "meta", {**reader.meta, "md5": _md5(meta)})
        return name, root

    def test_the_published_file(self, published: tuple[str, Path]) -> None:
        name, root = published
        clean = data.open(name, root)["clean"]
        assert (clean.num_classes, clean.group, len(clean)) == (int(name[5:]), "clean", 10_000)
        assert clean.labels[:3].tolist() == [0, 1, 2]
        assert clean.images([1], CIFAR_LIKE)[0, :, 5, 5].tolist() == [0, 0, 9]
        assert clean.class_names is not None
        assert clean.class_names[3] == "class 3"

    def test_nothing_else_is_unpickled(
        self, published: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name, root = published
        monkeypatch.setattr(
            pickle, "load", lambda *_, **__: pytest.fail("a file of unknown origin was unpickled")
        )
        for file in (root / "test_batch", root / "test"):
            if file.is_file():
                file.write_bytes(file.read_bytes() + b"\0")
                with pytest.raises(TemporaError, match=r"(?s)MD5.*tempora data fetch"):
                    data.open(name, root)
                file.unlink()
                with pytest.raises(TemporaError, match=r"(?s)missing.*expected like this"):
                    data.open(name, root)


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_cifar10_1(tmp_path: Path) -> None:
    _sparse_npy(tmp_path / "cifar10.1_v6_data.npy", 2000, {4: 8})
    np.save(tmp_path / "cifar10.1_v6_labels.npy", np.arange(2000, dtype=np.int32) % 10)
    shift = data.open("cifar10_1", tmp_path)["cifar10_1"]
    assert (len(shift), shift.group, shift.labels[4]) == (2000, "natural", 4)
    assert (shift.images([4], CIFAR_LIKE) == 8).all()
    with pytest.raises(TemporaError, match=r"v4_data.npy is missing"):
        data.open("cifar10_1", tmp_path, version="v4")
    with pytest.raises(TemporaError, match="unknown version"):
        data.open("cifar10_1", tmp_path, version="v5")


WNIDS = list(imagenet.label_of())


class TestImageNet:
    def test_the_standard_order_of_classes(self) -> None:
        assert sorted(WNIDS) == WNIDS
        assert (WNIDS[0], WNIDS[1], WNIDS[999]) == ("n01440764", "n01443537", "n15075141")
        assert imagenet.class_names()[1].startswith("goldfish")

    def test_val_labels_follow_the_folder_not_its_rank(self, class_tree: Tree) -> None:
        root = class_tree("val", [WNIDS[7], WNIDS[999]], each=2)
        clean = data.open("imagenet", root, subset=True)["clean"]
        assert clean.labels.tolist() == [7, 7, 999, 999]
        assert clean.images([0, 3], CIFAR_LIKE)[:, 0, 0, 0].tolist() == [0, 1]
        assert (clean.group, clean.num_classes, clean.classes) == ("clean", 1000, None)

    @pytest.mark.parametrize("target", ["nowhere.jpg", "gone.jpg"])
    def test_names_of_any_bytes_and_links_to_nowhere(self, class_tree: Tree, target: str) -> None:
        root = class_tree("val", [WNIDS[7]])
        save_picture(root / WNIDS[7] / "latin-1-\udce9.jpg")
        assert len(data.open("imagenet", root, subset=True)["clean"].fingerprint) == 24
        (root / WNIDS[7] / "gone.jpg").symlink_to(target)
        with pytest.raises(TemporaError, match=r"gone\.jpg is a link that leads nowhere"):
            data.open("imagenet", root, subset=True)

    def test_val_counts(self, class_tree: Tree) -> None:
        with pytest.raises(
            TemporaError, match="2 images, published are 50000; 998 of 1000 class folders are missing"
        ):
            data.open("imagenet", class_tree("val", WNIDS[:2]))

    def test_c_is_taken_as_it_is(self, class_tree: Tree) -> None:
        root = class_tree("ImageNet-C/fog/3", WNIDS[3:5]).parents[1]
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "fog/3" / WNIDS[4] / "0.png")
        (root / "fog/3" / WNIDS[4] / "0.jpg").unlink()
        fog = data.open("imagenet_c", root, severity=3, shifts="fog", subset=True)["fog"]
        assert fog.labels.tolist() == [3, 4]
        assert (fog.images([1], CIFAR_LIKE)[0].numpy() == pixels.transpose(2, 0, 1)).all()
        with pytest.raises(TemporaError, match=r"no folder .*fog/5"):
            data.open("imagenet_c", root, shifts="fog", subset=True)
        with pytest.raises(TemporaError, match="2 images, published are 50000"):
            data.open("imagenet_c", root, severity=3, shifts="fog")

    @pytest.mark.parametrize(
        ("name", "published", "first"),
        [("imagenet_r", 30_000, "n01443537"), ("imagenet_a", 7_500, "n01498041")],
    )
    def test_r_and_a_know_their_200_classes(
        self, class_tree: Tree, name: str, published: int, first: str
    ) -> None:
        members = sorted(imagenet.members_of(name))
        shift = data.open(name, class_tree("x", members), subset=True)[name]
        assert (len(members), members[0], shift.num_classes) == (200, first, 1000)
        assert shift.classes is not None
        assert (shift.classes == np.unique(shift.labels)).all()
        assert [WNIDS[label] for label in shift.labels] == members
        with pytest.raises(TemporaError, match=f"200 images, published are {published}"):
            data.open(name, class_tree("x", members))

    def test_v2_maps_folder_names_as_numbers(self, class_tree: Tree) -> None:
        root = class_tree("ImageNetV2/imagenetv2-matched-frequency-format-val", ["0", "2", "10", "100"])
        for place in (root, root.parent, root.parent.parent):
            shift = data.open("imagenet_v2", place, subset=True)["imagenet_v2"]
            assert dict(zip(shift.source.names, shift.labels.tolist(), strict=True)) == {  # type: ignore[attr-defined]
                "0/0.jpg": 0,
                "10/0.jpg": 10,
                "100/0.jpg": 100,
                "2/0.jpg": 2,
            }
        with pytest.raises(TemporaError, match="4 images, published are 10000"):
            data.open("imagenet_v2", root)
        with pytest.raises(TemporaError, match="not variant 'top-images'"):
            data.open("imagenet_v2", root, variant="top-images")
        with pytest.raises(TemporaError, match="unknown variant"):
            data.open("imagenet_v2", root, variant="matched")


class TestFolder:
    def test_labels_follow_the_class_list(self, class_tree: Tree) -> None:
        root = class_tree("mine", ["cat", "dog"], each=2)
        (root / "classes.txt").write_text("dog\nbird\ncat\n")
        shift = data.open("folder", root)["mine"]
        assert shift.labels.tolist() == [2, 2, 0, 0]
        assert (shift.num_classes, shift.class_names, shift.group) == (3, ["dog", "bird", "cat"], "natural")
        assert data.open("folder", root, classes=["cat", "dog"])["mine"].labels.tolist() == [0, 0, 1, 1]

    def test_a_class_list_is_needed(self, class_tree: Tree) -> None:
        with pytest.raises(TemporaError, match=r"classes.txt is missing"):
            data.open("folder", class_tree("mine", ["cat"]))
        with pytest.raises(TemporaError, match="'cat' twice"):
            data.open("folder", class_tree("mine", ["cat"]), classes=["cat", "dog", "cat"])
        with pytest.raises(TemporaError, match="say root="):
            data.open("folder")

    def test_an_unknown_class(self, class_tree: Tree) -> None:
        with pytest.raises(TemporaError, match="dgo is a folder for no known class: did you mean 'dog'"):
            data.open("folder", class_tree("mine", ["cat", "dgo"]), classes=["cat", "dog"])

    def test_corrupted_copies_next_to_each_other(self, class_tree: Tree) -> None:
        for place in ("mine/fog/5", "mine/snow/5", "mine/clean"):
            root = class_tree(place, ["cat", "dog"])
        shifts = data.open("folder", root.parent, classes=["cat", "dog"])
        assert list(shifts) == ["clean", "snow", "fog"]
        assert [shift.group for shift in shifts.values()] == ["clean", "weather", "weather"]
        with pytest.raises(TemporaError, match="unknown shift 'frost'"):
            data.open("folder", root.parent, shifts="frost", classes=["cat", "dog"])
        with pytest.raises(TemporaError, match=r"no folder .*snow/4"):
            data.open("folder", root.parent, severity=4, classes=["cat", "dog"])

    def test_clutter_is_passed_over(self, class_tree: Tree) -> None:
        root = class_tree("mine", ["cat", "dog"])
        (root / ".git").mkdir()
        for name in ("README.md", "cat/.DS_Store", "cat/Thumbs.db", "cat/notes.txt"):
            (root / name).write_text("x")
        assert len(data.open("folder", root, classes=["cat", "dog"])["mine"]) == 2

    @pytest.mark.parametrize(
        ("extra", "match"),
        [
            ("a.jpg", "outside the class folders"),
            ("cat/more/a.jpg", "folder inside a class folder"),
            ("bird/a.txt", "has no images"),
        ],
    )
    def test_what_would_be_lost_is_refused(self, class_tree: Tree, extra: str, match: str) -> None:
        root = class_tree("mine", ["cat", "dog"])
        save_picture(root / f"{extra}.jpg").rename(root / extra)
        with pytest.raises(TemporaError, match=match):
            data.open("folder", root, classes=["cat", "dog", "bird"])


def test_the_bundled_set_by_name() -> None:
    shifts = data.open("fashion", severity=2, shifts=["clean", "noise", "extra"])
    assert [shift.group for shift in shifts.values()] == ["clean", *["noise"] * 3, *["extra"] * 3]
    assert len(data.open("fashion")) == 16


class TestRegistry:
    def test_unknown_names_and_settings(self, tmp_path: Path) -> None:
        with pytest.raises(TemporaError, match="unknown dataset 'cifar10c': did you mean 'cifar10_c'"):
            data.open("cifar10c")
        with pytest.raises(TemporaError, match="unknown setting of dataset 'imagenet_v2' 'varaint'"):
            data.open("imagenet_v2", tmp_path, varaint="top-images")
        with pytest.raises(TemporaError, match="severity=6"):
            data.open("cifar10_c", tmp_path, severity=6)

    @pytest.mark.parametrize("name", [name for name, card in data.datasets().items() if card.folder])
    def test_a_folder_that_is_not_there_or_empty(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(TemporaError, match=f"there is no folder .*\n{name} is expected like this"):
            data.open(name, tmp_path / "absent")
        with pytest.raises(TemporaError, match=f"{name} is expected like this"):
            data.open(name, tmp_path)

    def test_a_new_dataset_is_one_function(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data.datasets()
        monkeypatch.setattr("tempora_tta.data.registry._DATASETS", {})

        @data.dataset("dots", what="dots", size="small", licence="none", source="here")
        def dots(amount: int = 3) -> dict[str, data.Shift]:
            return {
                "clean": data.array_shift(
                    "clean", np.zeros((amount, 2, 2), np.uint8), np.zeros(amount, int), 2
                )
            }

        assert len(data.open("dots", amount=5)["clean"]) == 5
