from __future__ import annotations

import pytest

from tempora_tta.data import CORRUPTIONS, EXTRA, expand
from tempora_tta.errors import TemporaError


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (None, list(CORRUPTIONS)),
        ("all", list(CORRUPTIONS)),
        ("noise", ["gaussian_noise", "shot_noise", "impulse_noise"]),
        ("fog,noise", ["fog", "gaussian_noise", "shot_noise", "impulse_noise"]),
        (["fog", "weather"], ["fog", "snow", "frost", "brightness"]),
        (["extra"], list(EXTRA)),
    ],
)
def test_names_groups_and_all(asked: str | list[str] | None, meant: list[str]) -> None:
    assert expand(asked, CORRUPTIONS + EXTRA, default=CORRUPTIONS) == meant


def test_a_group_means_its_members_that_there_are() -> None:
    assert expand("noise", ["shot_noise", "fog"]) == ["shot_noise"]


@pytest.mark.parametrize("asked", ["fgo", "extra", "clean"])
def test_unknown_names_are_refused(asked: str) -> None:
    with pytest.raises(TemporaError, match=f"unknown shift '{asked}'"):
        expand(asked)
    with pytest.raises(TemporaError, match="did you mean 'fog'"):
        expand("fgo")
