"""A user's own shifts side by side in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tempora_tta import data
from tempora_tta.data.order import StreamSettings
from tempora_tta.data.sampler import draw
from tempora_tta.errors import TemporaError

from .trees import save_picture


@pytest.fixture
def places(tmp_path: Path) -> Path:
    root = tmp_path / "camera"
    for shift, classes in (("day", ("cat", "dog")), ("night", ("dog",)), ("fog", ("cat", "dog"))):
        for number, name in enumerate(classes):
            for k in range(3):
                save_picture(root / shift / name / f"{k}.png", 10 * number + k, (32, 32))
    (root / "classes.txt").write_text("bird\ncat\ndog\n")
    return root


def test_real_shifts_side_by_side(places: Path) -> None:
    """`fog` is a corruption's name; here it holds classes and no severities, so it is a place like the others."""
    shifts = data.open("folder", places)
    assert list(shifts) == ["fog", "day", "night"]
    assert {name: len(shift) for name, shift in shifts.items()} == {"fog": 6, "day": 6, "night": 3}
    assert shifts["night"].labels.tolist() == [2, 2, 2]
    assert list(data.open("folder", places, shifts="night,day")) == ["night", "day"]
    with pytest.raises(TemporaError, match=r"unknown shift 'nigth'.*night"):
        data.open("folder", places, shifts="nigth")


def test_scores_can_be_restricted_to_the_classes_that_are_there(places: Path) -> None:
    shifts = data.open("folder", places, restrict=True)
    assert all(shift.classes is not None and shift.classes.tolist() == [1, 2] for shift in shifts.values())
    assert data.open("folder", places)["day"].classes is None
    (order,) = draw(StreamSettings("continual", batches=1), list(shifts.values()), 3, 1)
    assert order.num_batches == 3


def test_one_shift_and_hidden_folders_stay_as_they_were(places: Path) -> None:
    (places / ".git" / "dog").mkdir(parents=True)
    assert ".git" not in data.open("folder", places)
    alone = data.open("folder", places / "day", classes=places / "classes.txt")
    assert list(alone) == ["day"]
    (places / "stray").mkdir()
    assert list(data.open("folder", places)) == ["fog", "day", "night"]
