from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

from tempora_tta.data import from_dataset
from tempora_tta.errors import TemporaError

from .trees import CIFAR_LIKE, picture, save_picture


class _Items(list):
    """A dataset in its simplest form."""


def test_a_list_of_pairs() -> None:
    shift = from_dataset("mine", _Items([(picture(10), 1), (picture(20), 0)]), num_classes=3)
    assert shift.labels.tolist() == [1, 0]
    assert shift.images([1, 0], CIFAR_LIKE)[:, 0, 0, 0].tolist() == [20, 10]


def test_torchvisions_own(tmp_path: Path) -> None:
    for name, shade in (("cat", 3), ("dog", 4)):
        save_picture(tmp_path / name / "0.png", shade)
    shift = from_dataset("mine", ImageFolder(str(tmp_path)))
    assert (shift.labels.tolist(), shift.class_names, shift.num_classes) == ([0, 1], ["cat", "dog"], 2)
    flipped = from_dataset("mine", ImageFolder(str(tmp_path), target_transform=lambda label: 1 - label))
    assert flipped.labels.tolist() == [1, 0]
    assert flipped.images([0], CIFAR_LIKE)[0, 0, 0, 0] == 3


@pytest.mark.parametrize(
    "image",
    [
        np.full((16, 20, 3), 7, np.uint8),
        np.full((16, 20), 7, np.uint8),
        torch.full((3, 16, 20), 7, dtype=torch.uint8),
        torch.full((1, 16, 20), 7, dtype=torch.uint8),
        Image.new("L", (20, 16), 7),
    ],
)
def test_kinds_of_images(image: object) -> None:
    shift = from_dataset("mine", _Items([(image, 0)]), num_classes=2)
    assert (shift.images([0], CIFAR_LIKE) == 7).all()


def test_classes_restrict_scores() -> None:
    items = _Items([(picture(1), 5)])
    shift = from_dataset("mine", items, num_classes=10, classes=[7, 5])
    assert shift.classes is not None
    assert shift.classes.tolist() == [5, 7]
    with pytest.raises(TemporaError, match="labels 5 are none of its 2 classes"):
        from_dataset("mine", items, num_classes=10, classes=[7, 8])


class _Listed(_Items):
    def __init__(self, items: list, targets: list) -> None:
        super().__init__(items)
        self.targets = targets


def test_a_list_of_labels_that_lies_is_found_out() -> None:
    shift = from_dataset("mine", _Listed([(picture(1), 0)], targets=[1]), num_classes=2)
    with pytest.raises(
        TemporaError, match=r"item 0 has another picture or label \(0\) than its lists said \(1\)"
    ):
        shift.images([0], CIFAR_LIKE)


def test_what_is_refused() -> None:
    with pytest.raises(TemporaError, match="without length and indexing"):
        from_dataset("mine", iter([]), num_classes=2)
    with pytest.raises(TemporaError, match="say num_classes="):
        from_dataset("mine", _Items([(picture(1), 0)]))
    with pytest.raises(TemporaError, match=r"expected \(image, label\)"):
        from_dataset("mine", _Items([picture(1)]), num_classes=2)
    with pytest.raises(TemporaError, match="expected an integer"):
        from_dataset("mine", _Items([(picture(1), 0.5)]), num_classes=2)
    with pytest.raises(TemporaError, match="expected one integer each"):
        from_dataset("mine", _Listed([(picture(1), 0)], targets=[0.5]), num_classes=2)
    normalised = from_dataset("mine", _Items([(torch.zeros(3, 8, 8), 0)]), num_classes=2)
    with pytest.raises(TemporaError, match="Leave out the transform"):
        normalised.images([0], CIFAR_LIKE)
